//! The auditor: judges a table by its raw bytes.
