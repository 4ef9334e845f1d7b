//! write.
