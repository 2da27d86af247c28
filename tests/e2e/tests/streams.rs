//! Streams that outlast a request are waited for.

use anyhow::ensure;
use hitless_e2e::app::PATIENCE;
use hitless_e2e::{App, Stack, streams};
use hitless_streams::Kind;

/// How long each stream lasts; the benchmark has longer ones.
const LASTS_MS: u32 = 8000;

#[test]
fn no_download_websocket_or_grpc_stream_is_cut() -> anyhow::Result<()> {
    let stack = Stack::attach()?;
    let app = App::start(&stack.cluster, "t-streams", &streams::shape(60))?;
    let before = app.identities();
    let client = streams::start(&stack, streams::expose(&app)?, 6, LASTS_MS)?;
    client.wait("streams of each kind", PATIENCE, |report| report.opened.len() == Kind::ALL.len())?;
    app.set_version("v2")?;
    app.rollout_status()?;
    let report = client.stop()?;
    println!("{}", serde_json::to_string(&report)?);
    ensure!(report.finished && report.cut.is_empty(), "streams were cut: {:?}", report.cut);
    for kind in Kind::ALL {
        ensure!(
            report.completed.get(&kind).is_some_and(|count| *count > 6),
            "{kind:?} was not opened again: {report:?}"
        );
    }
    ensure!(app.identities() == before, "pods were replaced: {before:?} became {:?}", app.identities());
    Ok(())
}
