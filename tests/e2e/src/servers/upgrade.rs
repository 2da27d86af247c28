//! One upgrade of one server under load, and what its clients saw.

use std::fmt;

use anyhow::Context as _;
use serde::Serialize;
use serde_json::json;

use super::Server;
use crate::app::Shape;
use crate::measure::{self, Rollout};
use crate::traffic::Rate;
use crate::{App, Stack};

/// How the server is upgraded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Way {
    /// hitless, a single replica, mode `Hold`.
    Hold,
    /// hitless, three replicas, mode `Leave`.
    Leave,
    /// Kubernetes' own rolling update of a single replica.
    NativeOne,
    /// Kubernetes' own rolling update of three replicas.
    NativeThree,
}

/// What one upgrade has shown.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The server.
    pub server: &'static str,
    /// Debian's version of it.
    pub version: String,
    /// What it does on SIGTERM.
    pub on_sigterm: &'static str,
    /// How it was upgraded.
    pub way: Way,
    /// The longest time from the image patch to the new listener that the controller has learned, in milliseconds.
    pub gap_ms: Option<u64>,
    /// What clients saw.
    #[serde(flatten)]
    pub seen: Rollout,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Hold => "Hold",
            Self::Leave => "Leave",
            Self::NativeOne => "native, 1",
            Self::NativeThree => "native, 3",
        })
    }
}

impl Way {
    /// A word for the name of a namespace.
    const fn word(self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::Leave => "leave",
            Self::NativeOne => "native-one",
            Self::NativeThree => "native-three",
        }
    }

    fn shape(self, server: &Server) -> Shape {
        let spec = server.grace_seconds.map(|seconds| json!({"terminationGracePeriodSeconds": seconds}));
        let drain = server.hold_cap_ms.map(|cap| json!({"holdCapMilliseconds": cap}).to_string());
        let metadata = drain.map(|drain| json!({"annotations": {"hitless.dev/drain": drain}}));
        let patch = json!({"spec": {"template": {"metadata": metadata, "spec": spec}}});
        let shape = Shape { repository: server.repository(), patch, ..Shape::default() };
        match self {
            Self::Hold => Shape { replicas: 1, ..shape }.holding(),
            Self::Leave => Shape { replicas: 3, mode: Some("Leave"), ..shape },
            Self::NativeOne => Shape { replicas: 1, update: None, gate: false, mode: None, ..shape },
            Self::NativeThree => Shape { replicas: 3, update: None, gate: false, mode: None, ..shape },
        }
    }
}

/// Starts the server's v1 in a namespace of its own and brings it to v2 under load on fresh and on kept-alive connections.
/// The images must have been pushed.
pub fn upgrade(stack: &Stack, server: &'static Server, way: Way) -> anyhow::Result<Outcome> {
    let version = server.version()?;
    let namespace = format!("servers-{}-{}", server.name, way.word());
    let app = App::start(&stack.cluster, &namespace, &way.shape(server))?;
    let seen = measure::rollout(stack, &app, "v2", Rate::default(), 0, &mut |_, _| {})
        .with_context(|| format!("{} by {way}", server.name))?;
    let gap_ms = gap(&app)?;
    Ok(Outcome { server: server.name, version, on_sigterm: server.on_sigterm, way, gap_ms, seen })
}

/// The learned gap, the longest of all revisions.
fn gap(app: &App) -> anyhow::Result<Option<u64>> {
    let web = app.kubectl.get(&["deployment", "web"])?;
    let Some(text) = web["metadata"]["annotations"]["hitless.dev/gap"].as_str() else { return Ok(None) };
    let gaps: std::collections::BTreeMap<String, u64> = serde_json::from_str(text).context("hitless.dev/gap")?;
    Ok(gaps.values().max().copied())
}
