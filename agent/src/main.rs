//! The node agent's process.

use std::future::Future;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use hitless_agent::agent::Agent;
use hitless_agent::caches::Caches;
use hitless_agent::config::Config;
use hitless_agent::drain::Threads;
use hitless_agent::http::identity::warn_of_trusted_pods;
use hitless_agent::http::limits::Limits;
use hitless_agent::http::serve::{UnixAcceptor, serve};
use hitless_agent::http::socket::Socket;
use hitless_agent::http::{self, AppState, Parts, PodSource, inside};
use hitless_agent::metrics::Metrics;
use hitless_agent::view::{NodePod, Observation};
use hitless_api::NodeTransition;
use hitless_kernel::{check_capabilities, exec};
use hitless_runtime::config::{EXIT_CONFIGURATION, Settings};
use hitless_runtime::http::Health;
use hitless_runtime::liveness::Heartbeat;
use hitless_runtime::readiness::Readiness;
use hitless_runtime::shutdown::Tasks;
use hitless_runtime::{client, restored, telemetry, watch};
use kube::Api;
use kube::api::ListParams;
use tokio::sync::Notify;
use tokio::time::Instant;

/// A request to the API server may take 4 s; what is begun is finished.
const GRACE: Duration = Duration::from_secs(6);

/// What the agent itself sees of the node's pods.
struct Live {
    /// What is watched.
    caches: Caches,
    /// What is looked at.
    threads: Arc<Threads>,
}

impl PodSource for Live {
    fn synced(&self) -> bool {
        self.caches.pods.synced()
    }

    fn pod(&self, namespace: &str, name: &str) -> Option<Arc<NodePod>> {
        self.caches.pods.get(namespace, name)
    }

    fn pods(&self) -> Vec<Arc<NodePod>> {
        self.caches.pods.values()
    }

    fn observation(&self, pod_uid: &str) -> Observation {
        self.threads.observation(pod_uid)
    }
}

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == exec::HELPER) {
        return exec::helper(arguments);
    }
    let config = match Config::read(&Settings::from_environment()) {
        Ok(config) => config,
        Err(error) => {
            eprintln!("hitless-agent: {error}");
            return ExitCode::from(EXIT_CONFIGURATION);
        }
    };
    if let Err(error) = telemetry::init(&config.log, config.log_format) {
        eprintln!("hitless-agent: HITLESS_LOG: {error}");
        return ExitCode::from(EXIT_CONFIGURATION);
    }
    match block_on(run(config)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The messages of our errors contain their causes.
            tracing::error!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// One thread is enough, and costs the least memory.
fn block_on(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| anyhow!("can't start the runtime: {error}"))?;
    runtime.block_on(work)
}

/// The unix socket. Everything but it works without.
fn bind(path: &Path) -> Option<Socket> {
    match Socket::bind(path) {
        Ok(None) => {
            tracing::info!(path = %path.display(), "there is no unix socket, because its directory is not there");
            None
        }
        Ok(socket) => socket,
        Err(error) => {
            tracing::warn!("there is no unix socket: {error}");
            None
        }
    }
}

async fn run(config: Config) -> anyhow::Result<()> {
    for missing in check_capabilities() {
        tracing::warn!("{missing}");
    }
    let client = client::in_cluster()?;
    let mut registry = hitless_runtime::http::registry();
    let metrics = Metrics::register(&mut registry);
    let watch_metrics = watch::Metrics::register(&mut registry);
    let (seen, wake) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let caches = Caches::new(&seen, &watch_metrics);
    let threads = Threads::start(config.proc_root.clone(), &seen)
        .map_err(|error| anyhow!("can't start the drain thread: {error}"))?;
    let threads = Arc::new(threads);
    let readiness = Readiness::default();
    let heartbeat = Heartbeat::new(Instant::now());
    let health = Health { readiness: readiness.clone(), heartbeat: heartbeat.clone(), registry: Arc::new(registry) };
    let listener = hitless_runtime::http::bind(config.listen).await?;

    let mut tasks = Tasks::new();
    let [pods, transitions] = caches.watches(&client, &config.node, &readiness, &tasks.token());
    tasks.spawn("pod watch", pods);
    tasks.spawn("grant watch", transitions);
    let (all, known) = (Api::<NodeTransition>::all(client.clone()), caches.transitions.clone());
    let own = ListParams::default().fields(&format!("metadata.name={}", config.node));
    tasks.spawn("etcd", restored::look(all, own, move || known.newest(), tasks.token()));
    let refusals = metrics.refusals.clone();
    let files = exec::Node::new(config.proc_root.clone(), config.cgroup_root);
    let agent = Agent::new(client, config.node.clone(), files, caches.clone(), threads.clone(), wake.clone(), metrics);
    tasks.spawn("news", agent.published().news().clone().relay(seen, wake, tasks.token()));
    let (published, waiters, retiring) = (agent.published(), agent.waiters(), agent.retiring());
    let state = AppState::new(Parts {
        node: config.node,
        agent: agent.info().clone(),
        missing_capabilities: check_capabilities().iter().map(ToString::to_string).collect(),
        pods: Box::new(Live { caches, threads }),
        published: published.clone(),
        waiters: waiters.clone(),
        tasks: agent.tasks(),
        limits: Limits::default(),
        unheard: inside::Unheard::default(),
        trusted: config.trusted,
        refusals,
        token: tasks.token(),
    });
    let router = http::router(state.clone(), health);
    let proc_root = config.proc_root;
    if let Some(socket) = config.socket.as_deref().and_then(bind) {
        tasks.spawn(
            "socket",
            serve(UnixAcceptor { socket, proc_root: proc_root.clone() }, state.clone(), router.clone()),
        );
    }
    tasks.spawn("endpoint in pods", inside::run(state.clone(), router.clone(), proc_root));
    tasks.spawn("trusted addresses", warn_of_trusted_pods(state.clone()));
    tasks.spawn("http", serve(listener, state, router));
    tasks.spawn("agent", agent.run(heartbeat, readiness.guard("node known"), tasks.token()));
    tracing::info!(version = telemetry::VERSION, commit = telemetry::COMMIT, "started");
    Ok(tasks.run_retiring(async move { retiring.until_idle(&published, &waiters).await }, GRACE).await?)
}
