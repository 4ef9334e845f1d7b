//! Tests of the types module against the specification's vectors.

use std::path::PathBuf;

use serde_json::Value;

mod json;
mod transforms;
mod values;

/// The shared specification folder: `FLOE_SHARED`, or `shared/` next to the checkout.
fn shared() -> PathBuf {
    if let Ok(dir) = std::env::var("FLOE_SHARED") {
        return dir.into();
    }
    let found = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .map(|a| a.join("shared"))
        .find(|p| p.join("spec/test-vectors.json").is_file());
    found.expect("no folder shared/ beside the checkout; set FLOE_SHARED to the folder with spec/test-vectors.json")
}

fn vectors(key: &str) -> Value {
    let file = shared().join("spec/test-vectors.json");
    let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let all: Value = serde_json::from_str(&text).expect("vectors are JSON");
    all[key].clone()
}
