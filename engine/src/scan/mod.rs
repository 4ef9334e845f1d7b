//! scan.
