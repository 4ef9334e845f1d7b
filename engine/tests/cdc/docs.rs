//! The pipeline of `docs/cdc.md` runs as it is written.

use std::path::Path;

use crate::support::World;
use floe_engine::cdc::config::PipelineConfig;
use floe_engine::cdc::sync::Sync;
use floe_engine::cdc::{CdcSource, table_ident};
use floe_engine::sql::functions::spark_strings;

/// The first fenced block of a language.
fn block(text: &str, language: &str) -> String {
    let start = text.find(&format!("```{language}\n")).unwrap_or_else(|| panic!("no {language} block"));
    let body = &text[start + language.len() + 4..];
    body[..body.find("```").expect("the block ends")].to_string()
}

#[tokio::test]
async fn the_documents_pipeline() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/cdc.md");
    let text = std::fs::read_to_string(&path).expect("docs/cdc.md");
    let mut world = World::new().await;
    world.run(&block(&text, "sql")).await;
    let yaml = block(&text, "yaml").replace("./warehouse", &world.dir.path().display().to_string());
    let config = PipelineConfig::parse(&yaml, "pipeline.yaml").expect("configuration");

    let table = world.catalog.clone().load_table(&table_ident("shop.orders").expect("name")).await.expect("source");
    let mut source = CdcSource::new(config.source.clone(), table).expect("source");
    let scan = source.next().await.expect("scan").expect("a batch");
    let mut got = Vec::new();
    for b in scan.collect().await.expect("changes") {
        let c: Vec<_> = b.columns().iter().map(|c| spark_strings(c.as_ref()).expect("text")).collect();
        for i in 0..b.num_rows() {
            got.push(format!(
                r#"{{"id":{},"city":"{}","state":"{}","_change_type":"{}"}}"#,
                c[0].value(i),
                c[1].value(i),
                c[2].value(i),
                c[3].value(i)
            ));
        }
    }
    let want: Vec<String> = block(&text, "json").lines().map(str::to_string).collect();
    assert_eq!(got, want);

    let (_keep, stop) = tokio::sync::watch::channel(false);
    let sync = Sync::open(config).await.expect("catalogs");
    let report = sync.run(stop.clone(), |_| {}).await.expect("sync");
    assert_eq!((report.snapshots, report.commits), (3, 3));
    assert_eq!(world.rows("SELECT * FROM copy.orders").await, world.rows("SELECT * FROM shop.orders").await);
    assert_eq!(sync.run(stop, |_| {}).await.expect("again").commits, 0);
}
