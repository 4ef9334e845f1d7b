//! `CALL [catalog.]system.procedure(…)`.
//!
//! A procedure is a row of [`PROCEDURES`] (its parameters in order) and an arm of [`call`].

mod args;
mod maintenance;
mod refs;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};

pub(crate) use args::{Args, Parameter};

use super::ast::Call;
use super::bind::Binder;
use super::session::{Session, StatementResult};
use crate::{Error, Result};

/// Procedures and their parameters, in the order of arguments by position.
const PROCEDURES: &[(&str, &[Parameter])] = &[
    ("ancestors_of", &[Parameter::required("table"), Parameter::optional("snapshot_id")]),
    ("create_changelog_view", crate::cdc::sql::CHANGELOG_VIEW),
    ("upsert", crate::cdc::sql::UPSERT),
    ("fast_forward", &[Parameter::required("table"), Parameter::required("branch"), Parameter::required("to")]),
    ("register_table", &[Parameter::required("table"), Parameter::required("metadata_file")]),
    ("rollback_to_snapshot", &[Parameter::required("table"), Parameter::required("snapshot_id")]),
    ("rollback_to_timestamp", &[Parameter::required("table"), Parameter::required("timestamp")]),
    (
        "set_current_snapshot",
        &[Parameter::required("table"), Parameter::optional("snapshot_id"), Parameter::optional("ref")],
    ),
];

/// Runs a procedure.
pub(super) async fn call(session: &mut Session, call: Call) -> Result<StatementResult> {
    let written = call.name.join(".");
    let name = match call.name.as_slice() {
        [system, name] | [_, system, name] if system.eq_ignore_ascii_case("system") => name.to_ascii_lowercase(),
        _ => {
            return Err(Error::invalid(format!("expected CALL [catalog.]system.procedure(…), found CALL {written}")));
        }
    };
    let all = || PROCEDURES.iter().chain(maintenance::PROCEDURES);
    let Some((_, parameters)) = all().find(|(n, _)| *n == name) else {
        let mut names: Vec<&str> = all().map(|(n, _)| *n).collect();
        names.sort_unstable();
        return Err(Error::unsupported(format!("there is no procedure {written}; there are: {}", names.join(", "))));
    };
    let binder = Binder::new(session);
    let mut values = Vec::with_capacity(call.args.len());
    for (parameter, mut value) in call.args {
        binder.word(&mut value)?;
        values.push((parameter, binder.planner().constant(value)?));
    }
    drop(binder);
    let args = Args::new(&name, parameters, values)?;
    match name.as_str() {
        "expire_snapshots" => maintenance::snapshots(session, &args).await,
        "remove_orphan_files" => maintenance::orphan_files(session, &args).await,
        "rewrite_data_files" => maintenance::data_files(session, &args).await,
        "rewrite_manifests" => maintenance::manifests(session, &args).await,
        "rewrite_position_delete_files" => maintenance::position_delete_files(session, &args).await,
        "ancestors_of" => refs::ancestors_of(session, &args).await,
        "convert_equality_deletes" => maintenance::equality_deletes(session, &args).await,
        "upsert" => crate::cdc::sql::call_upsert(session, &args).await,
        "create_changelog_view" => crate::cdc::sql::create_changelog_view(session, &args).await,
        "fast_forward" => refs::fast_forward(session, &args).await,
        "register_table" => refs::register_table(session, &args).await,
        "rollback_to_snapshot" => refs::rollback_to_snapshot(session, &args).await,
        "rollback_to_timestamp" => refs::rollback_to_timestamp(session, &args).await,
        "set_current_snapshot" => refs::set_current_snapshot(session, &args).await,
        other => Err(Error::internal(format!("procedure {other} has no body"))),
    }
}

/// One row of integers: what most procedures answer.
pub(crate) fn counts(values: &[(&str, Option<i64>)]) -> Result<StatementResult> {
    let columns = values.iter().map(|(n, v)| (*n, std::sync::Arc::new(Int64Array::from(vec![*v])) as ArrayRef, true));
    Ok(StatementResult::batch(RecordBatch::try_from_iter_with_nullable(columns)?))
}
