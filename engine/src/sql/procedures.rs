//! `CALL [catalog.]system.procedure(…)`.

use super::ast::Call;
use super::session::{Session, StatementResult};
use crate::{Error, Result};

/// Runs a procedure.
pub(super) async fn call(_session: &mut Session, call: Call) -> Result<StatementResult> {
    Err(Error::unsupported(format!(
        "there is no procedure {}",
        call.name.join(".")
    )))
}
