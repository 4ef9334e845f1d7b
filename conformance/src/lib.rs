//! The conformance workbench.
