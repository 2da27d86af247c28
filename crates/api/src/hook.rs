//! Hooks: what a pod is told, or asked to allow, at certain moments of an operation; resolved by the controller into each grant.

mod of_pod;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use of_pod::HookLayer;

/// The moment of an operation at which a hook is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum HookTime {
    /// Before anything is done: the pod is in service. It may answer "not yet" and "never".
    BeforeDrain,
    /// Its connections are gone, the image patch has not been sent. Only where the pod leaves service.
    AfterDrain,
    /// The new containers are ready. Where the pod has left service, it has not returned.
    AfterStart,
}

/// What it means that a hook has failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum HookFailurePolicy {
    /// Before the image patch the operation is given up, after it it is rolled back.
    #[default]
    Fail,
    /// The operation goes on.
    Ignore,
}

/// Plain, or TLS whose certificate is not verified, as in the kubelet's probes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum HookScheme {
    /// Plain.
    #[default]
    Http,
    /// TLS.
    Https,
}

/// HTTP method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum HookMethod {
    /// GET.
    Get,
    /// POST, with an empty body.
    #[default]
    Post,
}

/// A request to the pod's address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpHook {
    /// Port of the pod.
    #[schemars(range(min = 1))]
    pub port: u16,
    /// Path, with the query if there is one.
    #[schemars(length(max = 256), regex(pattern = r"^/[!-~]*$"))]
    pub path: String,
    /// Method.
    #[serde(default)]
    pub method: HookMethod,
    /// Scheme.
    #[serde(default)]
    pub scheme: HookScheme,
}

/// A command in the namespaces of a container, as its user, without capabilities.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExecHook {
    /// Name of the container; of init containers only restartable ones count.
    #[schemars(length(min = 1, max = 63))]
    pub container: String,
    /// Program and arguments; no shell is used. A program without a slash is looked for in the container's `PATH`.
    #[schemars(length(min = 1, max = 16), inner(length(max = 1024)))]
    pub command: Vec<String>,
}

/// One call to a pod at one moment of its operations. It is called at least once, and may be called again: it has to recognise by
/// the header `Hitless-Operation`, or the environment variable `HITLESS_OPERATION`, what it has been told already.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "has(self.http) != has(self.exec)", "message": "a hook has exactly one of http and exec"}
]))]
pub struct Hook {
    /// What it is called; no two of a pod have the same.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// When it is called.
    pub when: HookTime,
    /// A request to the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpHook>,
    /// A command in one of its containers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exec: Option<ExecHook>,
    /// Longest time of one call, in seconds.
    #[serde(default = "defaults::timeout_seconds")]
    #[schemars(range(min = 1, max = 300))]
    pub timeout_seconds: u32,
    /// How often it is called again after a call that failed.
    #[serde(default = "defaults::retries")]
    #[schemars(range(max = 10))]
    pub retries: u32,
    /// What it means that it has failed.
    #[serde(default)]
    pub failure_policy: HookFailurePolicy,
    /// So many seconds after its first call it has failed, whatever it has answered: nobody says "not yet" for ever.
    #[serde(default = "defaults::deadline_seconds")]
    #[schemars(range(min = 1, max = 86_400))]
    pub deadline_seconds: u32,
}

mod defaults {
    use super::Hook;

    pub(super) const fn timeout_seconds() -> u32 {
        5
    }
    pub(super) const fn retries() -> u32 {
        2
    }
    pub(super) const fn deadline_seconds() -> u32 {
        Hook::DEFAULT_DEADLINE_SECONDS
    }
}

/// What is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookCall<'a> {
    /// The pod's address.
    Http(&'a HttpHook),
    /// A command.
    Exec(&'a ExecHook),
}

impl Hook {
    /// Most hooks of a pod.
    pub const MAX: usize = 8;
    /// Most bytes of all hooks of a pod as JSON: 256 grants with so many fit into an object of the API.
    pub const LARGEST_TOGETHER: usize = 4096;
    /// Default of [`Self::deadline_seconds`].
    pub const DEFAULT_DEADLINE_SECONDS: u32 = 600;
    /// Feature of agents that carry hooks out.
    pub const FEATURE: &str = "hooks";
    /// Feature of agents that can run commands in containers.
    pub const EXEC_FEATURE: &str = "exec-hooks";
    /// Name of the header that tells one operation and hook from all others.
    pub const HEADER: &str = "Hitless-Operation";

    /// What is called; `None` where the object says nothing or two things, which its schema excludes.
    #[must_use]
    pub fn call(&self) -> Option<HookCall<'_>> {
        match (&self.http, &self.exec) {
            (Some(http), None) => Some(HookCall::Http(http)),
            (None, Some(exec)) => Some(HookCall::Exec(exec)),
            (None, None) | (Some(_), Some(_)) => None,
        }
    }

    /// The value of [`Self::HEADER`] for this hook of the operation with this id.
    #[must_use]
    pub fn key(operation: &str, name: &str) -> String {
        format!("{operation}/{name}")
    }

    /// The features that an agent needs for these hooks.
    pub fn features(hooks: &[Self]) -> impl Iterator<Item = &'static str> {
        let any = (!hooks.is_empty()).then_some(Self::FEATURE);
        let exec = hooks.iter().any(|hook| hook.exec.is_some()).then_some(Self::EXEC_FEATURE);
        any.into_iter().chain(exec)
    }

    /// Whether one of these is called while the pod is out of service, so that it has to leave.
    #[must_use]
    pub fn need_leave(hooks: &[Self]) -> bool {
        hooks.iter().any(|hook| hook.when == HookTime::AfterDrain)
    }
}

/// How far a hook is, or how it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum HookOutcome {
    /// It is being called, or a call has failed and it is called again.
    Calling,
    /// It has answered "not yet" and is called again.
    NotYet,
    /// It has answered "go".
    Done,
    /// It has failed, and that is ignored.
    Ignored,
    /// It has failed.
    Failed,
    /// It has answered "never".
    Refused,
}

/// What a hook has done, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HookReport {
    /// Name of the hook.
    pub name: String,
    /// How far it is.
    pub outcome: HookOutcome,
    /// Calls that have ended.
    pub attempts: u32,
    /// How long they took together, in milliseconds.
    pub milliseconds: u32,
    /// The end of what the last one said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 256))]
    pub output: String,
}

impl HookReport {
    /// Longest [`Self::output`], in bytes.
    pub const LONGEST_OUTPUT: usize = 256;
}
