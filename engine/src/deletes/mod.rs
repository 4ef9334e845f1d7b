//! deletes.
