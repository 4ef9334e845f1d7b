//! maintenance.
