//! cdc.
