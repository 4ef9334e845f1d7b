//! Figures for the report: `reports/figures` keeps a line of each, with its day, written anew where `FLOE_UPDATE_REPORTS` is set.

use std::path::PathBuf;

/// Prints what a test counted, and keeps it under a name that may hold spaces.
pub fn tell(name: &str, counted: &str) {
    println!("{name}: {counted}");
    if std::env::var_os("FLOE_UPDATE_REPORTS").is_none() {
        return;
    }
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../reports/figures");
    std::fs::create_dir_all(&folder).expect("the folder of figures");
    let file = folder.join(format!("{}.txt", name.replace([' ', ','], "-").replace("--", "-")));
    std::fs::write(file, format!("{name}: {counted} ({})\n", today())).expect("a figure is written");
}

/// The day in UTC, YYYY-MM-DD.
fn today() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock after 1970");
    let days = i32::try_from(now.as_secs() / 86_400).expect("a day");
    arrow::temporal_conversions::date32_to_datetime(days).expect("a date").date().to_string()
}
