//! The law of the codec: a plan that was written and read again gives the same rows. Every statement of the scenarios runs
//! on such plans, in this process.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::execution::TaskContext;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use floe_cluster::{FloeCodec, fit, functions, pack, size, task_context, unpack};
use floe_engine::scan::{IcebergScanExec, ScanWire};
use support::{play, scenarios, warehouse};

/// Replaces every plan over data files by what arrives of it.
#[derive(Debug)]
struct RoundTrip {
    codec: FloeCodec,
    tasks: Arc<TaskContext>,
    travelled: AtomicUsize,
    stayed: AtomicUsize,
}

impl RoundTrip {
    fn new() -> Arc<Self> {
        let codec = FloeCodec::new(Arc::new(functions()), Default::default());
        Arc::new(Self { codec, tasks: task_context(), travelled: Default::default(), stayed: Default::default() })
    }

    fn there_and_back(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let fitted = fit(plan.clone())?;
        let bytes = pack(fitted.clone(), &self.codec)?;
        assert_eq!(bytes, pack(fitted, &self.codec)?, "one plan has one form");
        let arrived = unpack(&bytes, &self.tasks, &self.codec)?;
        assert_eq!(bytes, pack(arrived.clone(), &self.codec)?, "a plan that arrived is written as it was");
        Ok(arrived)
    }
}

impl PhysicalOptimizerRule for RoundTrip {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        if size(&plan).files == 0 {
            return Ok(plan);
        }
        match self.there_and_back(&plan) {
            Ok(arrived) => {
                self.travelled.fetch_add(1, Ordering::Relaxed);
                Ok(arrived)
            }
            Err(e) => {
                println!("stays: {e}");
                self.stayed.fetch_add(1, Ordering::Relaxed);
                Ok(plan)
            }
        }
    }

    fn name(&self) -> &str {
        "round_trip"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_of_all_scenarios_run_on_plans_that_arrived() {
    let rule = RoundTrip::new();
    let all = scenarios();
    assert!(all.len() > 60, "{} scenarios", all.len());
    for (name, steps) in &all {
        let want = play(&mut warehouse(None), steps, true).await;
        let got = play(&mut warehouse(Some(rule.clone())), steps, true).await;
        for (want, got) in want.iter().zip(&got) {
            assert_eq!(want, got, "{name}");
        }
    }
    let (travelled, stayed) = (rule.travelled.load(Ordering::Relaxed), rule.stayed.load(Ordering::Relaxed));
    println!("{travelled} plans travelled, {stayed} stayed");
    assert!(travelled > 20 * stayed.max(10), "{travelled} plans travelled, {stayed} stayed");
}

/// Keeps the scans of a statement's plan.
#[derive(Debug, Default)]
struct Keep(std::sync::Mutex<Vec<Arc<dyn ExecutionPlan>>>);

impl PhysicalOptimizerRule for Keep {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        fn scans(plan: &Arc<dyn ExecutionPlan>, out: &mut Vec<Arc<dyn ExecutionPlan>>) {
            if plan.as_any().is::<IcebergScanExec>() {
                out.push(plan.clone());
            }
            plan.children().into_iter().for_each(|c| scans(c, out));
        }
        scans(&plan, &mut self.0.lock().expect("a lock"));
        Ok(plan)
    }

    fn name(&self) -> &str {
        "keep"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

#[tokio::test]
async fn bytes_that_are_no_scan_are_refused() {
    let keep = Arc::new(Keep::default());
    let mut w = warehouse(Some(keep.clone()));
    w.run("CREATE NAMESPACE ice.ns; CREATE TABLE ns.t (a INT, b STRING) TBLPROPERTIES ('format-version' = '3')").await;
    w.run("INSERT INTO ns.t VALUES (1, 'x'), (2, 'y'); SELECT b FROM ns.t WHERE a = 1").await;
    let scan = keep.0.lock().expect("a lock").pop().expect("a scan");
    let scan = scan.as_any().downcast_ref::<IcebergScanExec>().expect("a scan");
    let wire = scan.to_wire().expect("bytes");
    assert_eq!(wire, scan.to_wire().expect("bytes"));
    let text = String::from_utf8(wire.clone()).expect("JSON");
    assert!(!text.contains("\"snapshot-log\":["), "history travels: {text}");
    for n in (0..wire.len()).step_by(7) {
        let e = ScanWire::parse(&wire[..n]).expect_err("it is cut off");
        assert_eq!(e.kind().as_str(), "malformed", "{e}");
    }
    // a filter belongs to its scan
    let parsed = ScanWire::parse(&wire).expect("a scan");
    assert!(parsed.late_schema().expect("columns").is_some());
    let e = parsed.build(None, &Default::default()).expect_err("the filter is missing");
    assert_eq!(e.kind().as_str(), "malformed");
    for (from, to) in [("PARQUET", "CSV"), ("\"content\":0", "\"content\":9"), ("\"spec\":0", "\"spec\":7")] {
        assert!(text.contains(from), "{text}");
        let parsed = ScanWire::parse(text.replace(from, to).as_bytes()).expect("JSON");
        let late = scan.late_filter().map(|(e, _)| e.clone());
        let e = parsed.build(late, &Default::default()).expect_err(to);
        assert_eq!(e.kind().as_str(), "malformed", "{to}: {e}");
    }
}

#[tokio::test]
async fn files_of_this_process_alone_stay() {
    use floe_engine::io::object_store::memory::InMemory;
    let keep = Arc::new(Keep::default());
    let mut w = warehouse(Some(keep.clone()));
    w.run("CREATE NAMESPACE ice.ns; CREATE TABLE ns.t (a INT)").await;
    w.run("INSERT INTO ns.t VALUES (1); SELECT a FROM ns.t").await;
    let scan = keep.0.lock().expect("a lock").pop().expect("a scan");
    let scan = scan.as_any().downcast_ref::<IcebergScanExec>().expect("a scan");
    assert!(scan.to_wire().is_ok());
    let table = w.session.catalog().clone().load_table(&ident()).await.expect("the table");
    table.io().register("file://", Arc::new(InMemory::new()));
    // the catalog's own access to files is the one that was registered with
    let again = scan.to_wire();
    assert!(again.is_err_and(|e| e.kind().as_str() == "unsupported"));
}

fn ident() -> iceberg::TableIdent {
    iceberg::TableIdent::new(iceberg::NamespaceIdent::new("ns".into()), "t".into())
}
