# floe: `just` lists these. Each wraps cargo; nothing here does what the two commands of the README do not.

# List the recipes
default:
    @just --list

# Install every engine that can be had into the user's cache folder
setup:
    cargo floe engines install

# A table with a deletion vector in a temporary folder, by SQL, and what its snapshots say
demo:
    cargo floe sql --catalog hadoop:"$(mktemp -d)" -f docs/demo.sql

# Run the tests
test:
    cargo test --workspace

# Run every scenario on every engine present, print the matrix, write the report
conformance *ARGS:
    cargo floe conformance {{ARGS}}

# Measure deletion vectors, row-level operations and scans
bench *ARGS:
    cargo bench --package floe-benches {{ARGS}}

# Measure the project's speed targets on 20 million rows: codec scan delete planning audit changelog sync
targets *PARTS:
    cargo bench --package floe-benches --bench targets -- {{PARTS}}

# Make the pages of the last run again and print its matrix
report RUN="out":
    cargo floe report pages {{RUN}}
    cargo floe report show {{RUN}}

# Check format and lints
lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings

# Take the facts of known advisories anew, from a checkout of the RustSec advisory database
advisories DB:
    FLOE_ADVISORY_DB={{DB}} cargo test --workspace --test dependencies take_advisories -- --ignored

# Take the instruction counts of this machine as the reviewed ones
accept-instructions:
    FLOE_ACCEPT=instructions cargo test --workspace --test instructions

# Run the tests of the cluster, a workspace of its own
cluster:
    cd cluster && RUST_MIN_STACK=8388608 cargo test
