//! rowlevel.
