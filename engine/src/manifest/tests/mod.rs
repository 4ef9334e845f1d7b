//! Manifests and lists: round trips, the `iceberg` crate as second reader and writer, inheritance, hostile bytes.

mod by_id;
mod hostile;
mod inheritance;
mod interop;
mod support;
