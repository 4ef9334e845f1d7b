//! `floe driver`: drivers of engines that are Rust libraries, for the harness to start.

use clap::{Args, ValueEnum};

use crate::drivers::iceberg_rust;

/// Arguments of `floe driver`.
#[derive(Debug, Args)]
pub struct DriverArgs {
    /// The engine
    #[arg(value_enum)]
    engine: Library,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Library {
    /// The `iceberg` crate
    IcebergRust,
}

/// Speaks the driver protocol on standard input and output until told to stop.
pub async fn run(args: &DriverArgs) -> Result<i32, String> {
    match args.engine {
        Library::IcebergRust => iceberg_rust::serve().await,
    }
}
