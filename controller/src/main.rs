//! The controller's process.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use hitless_api::{NodeTransition, names};
use hitless_controller::config::Config;
use hitless_controller::configs::Configs;
use hitless_controller::controller::Controller;
use hitless_controller::controller::epoch_repair::LeaseEpoch;
use hitless_controller::guards;
use hitless_controller::metrics::{Metrics, RESOURCES};
use hitless_controller::uninstall;
use hitless_controller::watches::Caches;
use hitless_controller::writer::Writer;
use hitless_runtime::config::{EXIT_CONFIGURATION, Settings};
use hitless_runtime::events::events;
use hitless_runtime::http::{self, Health};
use hitless_runtime::lease::{Election, LeaseConfig};
use hitless_runtime::liveness::Heartbeat;
use hitless_runtime::readiness::Readiness;
use hitless_runtime::shutdown::Tasks;
use hitless_runtime::write::Writes;
use hitless_runtime::{client, restored, telemetry, watch};
use kube::Api;
use kube::api::ListParams;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A request to the API server may take 4 s; what is begun is finished, then the Lease is given back, then everything else
/// if hitless is being uninstalled.
const GRACE: Duration = uninstall::LONGEST.saturating_add(Duration::from_secs(10));

fn main() -> ExitCode {
    let settings = Settings::from_environment();
    let config = match settings.obey_system_namespace().and_then(|()| Config::read(&settings)) {
        Ok(config) => config,
        Err(error) => {
            eprintln!("hitless-controller: {error}");
            return ExitCode::from(EXIT_CONFIGURATION);
        }
    };
    if let Err(error) = telemetry::init(&config.log, config.log_format) {
        eprintln!("hitless-controller: HITLESS_LOG: {error}");
        return ExitCode::from(EXIT_CONFIGURATION);
    }
    let done = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start the runtime")
        .and_then(|runtime| runtime.block_on(run(config)));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(config: Config) -> anyhow::Result<()> {
    let client = client::in_cluster()?;
    let mut registry = http::registry();
    let (writes, metrics) = (Writes::register(&mut registry), Metrics::register(&mut registry));
    writes.expect(&RESOURCES);
    let watch_metrics = watch::Metrics::register(&mut registry);
    let (readiness, heartbeat) = (Readiness::default(), Heartbeat::new(Instant::now()));
    let health = Health { readiness: readiness.clone(), heartbeat: heartbeat.clone(), registry: Arc::new(registry) };
    let listener = http::bind(config.listen).await?;
    let wake = Arc::new(Notify::new());
    let caches = Caches::new(&config.installed, &wake, &watch_metrics);

    let mut tasks = Tasks::new();
    for (name, watch) in caches.watches(&client, &readiness, &tasks.token()) {
        tasks.spawn(name, watch);
    }
    let (all, known) = (Api::<NodeTransition>::all(client.clone()), caches.clone());
    tasks.spawn("etcd", restored::look(all, ListParams::default(), move || known.newest(), tasks.token()));
    let leases = Api::namespaced(client.clone(), names::system_namespace());
    // The election keeps the name for as long as the process lives.
    let lease: &'static str = config.lease.leak();
    let election = Election::new(leases, lease, &config.pod, LeaseConfig::default(), writes.clone());
    let holder = election.identity().to_owned();
    let (uninstall_client, uninstall_writes) = (client.clone(), writes.clone());
    let (guards, guards_seen) = tokio::sync::watch::channel(None);
    tasks.spawn("guards", guards::look(client.clone(), guards, wake.clone(), tasks.token()));
    let (events, event_writer) = events(client.clone(), names::CONTROLLER, config.pod, writes.clone());
    tasks.spawn("events", event_writer.run(tasks.token()));
    let controller = Controller {
        writer: Writer::new(client.clone(), writes.clone(), caches.clone(), election.subscribe()),
        events,
        leadership: election.subscribe(),
        lease_epoch: LeaseEpoch::new(client.clone(), lease.to_owned(), holder.clone(), writes.clone()),
        holder,
        configs: Configs::new(client.clone(), wake.clone(), watch_metrics),
        config_key: config.config_key,
        client,
        caches,
        wake,
        metrics,
        gate: config.gate,
        reach: config.reach,
        prefetch: Arc::new(config.prefetch),
        guards: guards_seen,
    };
    // The Lease is given back only after the loop has sent its last write.
    let last_write = CancellationToken::new();
    let uninstall = uninstall::run(
        uninstall_client,
        config.installed.components,
        uninstall_writes,
        tasks.token(),
        last_write.clone(),
    );
    tasks.spawn("uninstall", uninstall);
    tasks.spawn("lease", election.run(last_write.clone()));
    tasks.spawn("controller", controller.run(heartbeat, tasks.token(), last_write));
    tasks.spawn("http", http::serve(listener, http::router(health), tasks.token()));
    tracing::info!(version = telemetry::VERSION, commit = telemetry::COMMIT, "started");
    Ok(tasks.run(GRACE).await?)
}
