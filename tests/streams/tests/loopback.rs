//! Server and clients over the loopback interface.

use std::time::Duration;

use hitless_streams::server::serve;
use hitless_streams::{Kind, Plan, Report, Streams};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::time::sleep;

/// A server whose connections all end when its runtime does, and a plan for it.
async fn server(lasts_ms: u64) -> anyhow::Result<(Runtime, Plan)> {
    let runtime = Runtime::new()?;
    let bind = async || anyhow::Ok(runtime.spawn(TcpListener::bind("127.0.0.1:0")).await??);
    let (http, grpc, websocket) = (bind().await?, bind().await?, bind().await?);
    let servers = [
        (Kind::Download, http.local_addr()?),
        (Kind::Grpc, grpc.local_addr()?),
        (Kind::Websocket, websocket.local_addr()?),
    ];
    runtime.spawn(serve(http, grpc, websocket));
    Ok((runtime, Plan { servers, each: 2, lasts: Duration::from_millis(lasts_ms) }))
}

async fn run(streams: &Streams, plan: Plan) -> Report {
    streams.run(plan).await;
    streams.report()
}

#[tokio::test]
async fn streams_run_their_time_and_are_opened_again() -> anyhow::Result<()> {
    let (runtime, plan) = server(600).await?;
    let streams = Streams::default();
    let stop = async {
        sleep(Duration::from_millis(900)).await;
        streams.stop();
    };
    let (report, ()) = tokio::join!(run(&streams, plan), stop);
    runtime.shutdown_background();
    assert!(report.finished && report.cut.is_empty(), "{report:?}");
    for kind in Kind::ALL {
        assert!(report.opened[&kind] > 2, "{kind:?}: {report:?}");
        assert_eq!(report.completed[&kind], report.opened[&kind], "{kind:?}: {report:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_stream_of_each_kind_that_is_cut_is_told() -> anyhow::Result<()> {
    let (runtime, plan) = server(20_000).await?;
    let streams = Streams::default();
    let end = async {
        sleep(Duration::from_millis(500)).await;
        streams.stop();
        runtime.shutdown_background();
    };
    let (report, ()) = tokio::join!(run(&streams, plan), end);
    for kind in Kind::ALL {
        let cut = report.cut.iter().filter(|cut| cut.kind == kind && cut.planned_ms >= 10_000).count();
        assert_eq!(cut, 2, "{kind:?}: {report:?}");
    }
    Ok(())
}
