//! The catalogs floe speaks to, with what proves it or why nothing does yet.

use serde::Deserialize;

const CATALOGS: &str = include_str!("../../drivers/catalogs.toml");

/// A catalog of `conformance/drivers/catalogs.toml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogRow {
    /// Kind, or name of its section in docs/catalogs.md.
    pub name: String,
    /// Name for people.
    pub title: String,
    /// Tests that run it for real; empty when none does.
    #[serde(default)]
    pub tested: String,
    /// Why a conformance run does not run it unless asked to; empty when it always does.
    #[serde(default)]
    pub skipped: String,
    /// The one command that tries it.
    pub command: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    catalog: Vec<CatalogRow>,
}

/// Every catalog, in the order in which lists show them.
pub fn catalogs() -> Vec<CatalogRow> {
    let file: File = toml::from_str(CATALOGS).expect("the list is part of the build and tested");
    file.catalog
}

impl CatalogRow {
    /// The row's state in one line: proven by what, or skipped and how to run it.
    pub fn state(&self) -> String {
        match self.tested.is_empty() {
            false => format!("run for real by {}", self.tested),
            true => format!("skipped: {}; to run it: {} (section in docs/catalogs.md)", self.skipped, self.command),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::catalogs;

    /// Each row is proven or says why not, and each that nothing proves has its section in the documentation, which parses.
    #[test]
    fn every_catalog_is_proven_or_says_why_not() {
        let docs = include_str!("../../../docs/catalogs.md");
        let block = docs.rsplit("```toml").next().unwrap().split("```").next().unwrap();
        let sections: toml::Table = block.parse().unwrap();
        for row in catalogs() {
            assert!(!row.tested.is_empty() || !row.skipped.is_empty(), "{}", row.name);
            if row.tested.is_empty() {
                let section = sections["catalog"].get(&row.name).unwrap_or_else(|| panic!("no section {}", row.name));
                assert!(section.get("type").is_some() && section.get("uri").is_some(), "{}", row.name);
                assert!(docs.contains(&row.command), "{}", row.command);
            }
        }
    }
}
