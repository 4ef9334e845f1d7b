//! Manifests and lists: round trips, the `iceberg` crate as second reader and writer, inheritance, hostile bytes.

mod hostile;
mod inheritance;
mod interop;
mod support;
