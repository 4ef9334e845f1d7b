//! commit.
