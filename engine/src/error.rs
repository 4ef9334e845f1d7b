//! The one error type of the engine: what kind of fault, where (file, table, field), which clause, what was found
//! and what is allowed.

use std::fmt;

/// What kind of fault an [`Error`] is; callers branch on this, people read the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Bytes or metadata that break the format.
    Malformed,
    /// Well-formed, but outside what this build does; refused before anything is written.
    Unsupported,
    /// A caller's argument, statement, property or configuration key is wrong.
    InvalidInput,
    /// A table, namespace, snapshot, file or column that is not there.
    NotFound,
    /// The thing to create exists.
    AlreadyExists,
    /// A concurrent commit makes this one wrong (CONC-*); final, never retried (CONC-7).
    Conflict,
    /// The catalog's pointer moved; the commit may be retried on the new state (CONC-40).
    CommitFailed,
    /// The outcome of a commit is not known; nothing may be cleaned up (CONC-41).
    CommitUnknown,
    /// Authentication or authorisation was refused.
    Denied,
    /// Storage or network trouble.
    Io,
    /// A fault of floe itself.
    Internal,
}

impl ErrorKind {
    /// Short stable name, as printed before the message.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Unsupported => "unsupported",
            Self::InvalidInput => "invalid input",
            Self::NotFound => "not found",
            Self::AlreadyExists => "already exists",
            Self::Conflict => "conflict",
            Self::CommitFailed => "commit failed",
            Self::CommitUnknown => "commit outcome unknown",
            Self::Denied => "denied",
            Self::Io => "i/o",
            Self::Internal => "internal",
        }
    }
}

/// An error with its kind, message, place and clause.
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    message: String,
    place: Option<String>,
    clause: Option<&'static str>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// Result of the engine.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of `kind`; the message says what was found and what is allowed.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner { kind, message: message.into(), place: None, clause: None, source: None }))
    }

    /// [`ErrorKind::Malformed`].
    pub fn malformed(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Malformed, message)
    }

    /// [`ErrorKind::Unsupported`].
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, message)
    }

    /// [`ErrorKind::InvalidInput`].
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidInput, message)
    }

    /// [`ErrorKind::NotFound`].
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    /// [`ErrorKind::Conflict`].
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Conflict, message)
    }

    /// [`ErrorKind::Internal`].
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, message)
    }

    /// What the operating system said when `what` was to be done, e.g. `cannot write the file`.
    pub fn system(what: impl fmt::Display, e: std::io::Error) -> Self {
        let said = Self::from(e);
        Self::new(said.kind(), format!("{what}: {}", said.message())).with_source(said)
    }

    /// Says where: a file (with offset), a table, a field, a configuration key. The first place given is kept: it is the nearest.
    #[must_use]
    pub fn at(mut self, place: impl fmt::Display) -> Self {
        self.0.place.get_or_insert_with(|| place.to_string());
        self
    }

    /// Says which clause is violated, e.g. `DV-23`.
    #[must_use]
    pub fn clause(mut self, id: &'static str) -> Self {
        self.0.clause.get_or_insert(id);
        self
    }

    /// Keeps the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// The kind of fault.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The message without place and clause.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The place, if known.
    pub fn place(&self) -> Option<&str> {
        self.0.place.as_deref()
    }

    /// The violated clause, if one is.
    pub fn clause_id(&self) -> Option<&'static str> {
        self.0.clause
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.kind.as_str(), self.0.message)?;
        if let Some(place) = &self.0.place {
            write!(f, " (at {place})")?;
        }
        if let Some(clause) = self.0.clause {
            write!(f, " [{clause}]")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|e| e as _)
    }
}

impl From<iceberg::Error> for Error {
    fn from(e: iceberg::Error) -> Self {
        use iceberg::ErrorKind as K;
        let kind = match e.kind() {
            K::DataInvalid => ErrorKind::Malformed,
            K::FeatureUnsupported => ErrorKind::Unsupported,
            K::TableNotFound | K::NamespaceNotFound => ErrorKind::NotFound,
            K::TableAlreadyExists | K::NamespaceAlreadyExists => ErrorKind::AlreadyExists,
            K::CatalogCommitConflicts => ErrorKind::CommitFailed,
            _ => ErrorKind::Internal,
        };
        Self::new(kind, e.message().to_string()).with_source(e)
    }
}

impl From<object_store::Error> for Error {
    fn from(e: object_store::Error) -> Self {
        use object_store::Error as O;
        let kind = match &e {
            O::NotFound { .. } => ErrorKind::NotFound,
            O::AlreadyExists { .. } | O::Precondition { .. } => ErrorKind::AlreadyExists,
            O::PermissionDenied { .. } | O::Unauthenticated { .. } => ErrorKind::Denied,
            O::NotSupported { .. } | O::NotImplemented { .. } => ErrorKind::Unsupported,
            _ => ErrorKind::Io,
        };
        // What the server said is enough; the place comes with the error.
        let message = crate::io::cloud::said(&e).map_or_else(|| e.to_string(), str::to_string);
        Self::new(kind, message).with_source(e)
    }
}

impl From<arrow::error::ArrowError> for Error {
    fn from(e: arrow::error::ArrowError) -> Self {
        Self::from(datafusion::error::DataFusionError::from(e))
    }
}

impl From<parquet::errors::ParquetError> for Error {
    fn from(e: parquet::errors::ParquetError) -> Self {
        Self::malformed(format!("Parquet: {e}")).with_source(e)
    }
}

impl From<datafusion::error::DataFusionError> for Error {
    /// An engine error that travelled through a plan comes back as itself; a fault of the statement is invalid input.
    fn from(e: datafusion::error::DataFusionError) -> Self {
        use datafusion::error::DataFusionError as D;
        match e {
            D::External(b) => match b.downcast::<Error>() {
                Ok(e) => *e,
                Err(b) => Self::new(ErrorKind::Io, b.to_string()).with_source(b),
            },
            D::Context(_, e) | D::Diagnostic(_, e) => Self::from(*e),
            D::ArrowError(e, context) => match *e {
                arrow::error::ArrowError::ExternalError(b) => match b.downcast::<Error>() {
                    Ok(e) => *e,
                    Err(b) => match b.downcast::<D>() {
                        Ok(e) => Self::from(*e),
                        Err(b) => Self::new(ErrorKind::Io, b.to_string()).with_source(b),
                    },
                },
                e => Self::invalid(e.to_string()).with_source(D::ArrowError(Box::new(e), context)),
            },
            D::Shared(e) => match find_engine_error(e.as_ref()) {
                Some((kind, message, place, clause)) => {
                    let mut out = Self::new(kind, message);
                    if let Some(p) = place {
                        out = out.at(p);
                    }
                    if let Some(c) = clause {
                        out = out.clause(c);
                    }
                    out
                }
                None => Self::invalid(e.to_string()),
            },
            D::ObjectStore(e) => Self::from(*e),
            D::ParquetError(e) => Self::from(*e),
            D::Internal(m) => Self::internal(m),
            D::NotImplemented(m) => Self::unsupported(m),
            D::ResourcesExhausted(m) => Self::new(ErrorKind::Io, m),
            e => Self::invalid(e.strip_backtrace()).with_source(e),
        }
    }
}

/// Looks down the source chain for an engine error (DataFusion shares errors behind `Arc`).
fn find_engine_error(
    e: &(dyn std::error::Error + 'static),
) -> Option<(ErrorKind, String, Option<String>, Option<&'static str>)> {
    let mut cur = Some(e);
    while let Some(e) = cur {
        if let Some(e) = e.downcast_ref::<Error>() {
            return Some((e.kind(), e.message().into(), e.place().map(Into::into), e.clause_id()));
        }
        cur = e.source();
    }
    None
}

impl From<Error> for datafusion::error::DataFusionError {
    fn from(e: Error) -> Self {
        Self::External(Box::new(e))
    }
}

impl From<std::io::Error> for Error {
    fn from(e: std::io::Error) -> Self {
        let kind = match e.kind() {
            std::io::ErrorKind::NotFound => ErrorKind::NotFound,
            std::io::ErrorKind::AlreadyExists => ErrorKind::AlreadyExists,
            std::io::ErrorKind::PermissionDenied => ErrorKind::Denied,
            _ => ErrorKind::Io,
        };
        Self::new(kind, e.to_string()).with_source(e)
    }
}
