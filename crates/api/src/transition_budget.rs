//! `TransitionBudget`: what upstream's PodTransitionRule has no words for.

use jiff::Timestamp;
use jiff::fmt::temporal::Pieces;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, MicroTime};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use crate::pod_transition_rule::count_or_percent;

/// Limits on how many pods, nodes or zones are operated at a time, and when. Every field that is set is one more limit, and all
/// of them must agree. Percentages round to the safe side: a maximum down, a minimum up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, CustomResource)]
#[kube(
    group = "hitless.dev",
    version = "v1alpha1",
    kind = "TransitionBudget",
    plural = "transitionbudgets",
    shortname = "tb",
    namespaced,
    derive = "PartialEq",
    printcolumn = r#"{"name":"Scope","type":"string","jsonPath":".spec.scope"}"#,
    printcolumn = r#"{"name":"Max unavailable","type":"string","jsonPath":".spec.maxUnavailable"}"#,
    printcolumn = r#"{"name":"Paused","type":"boolean","jsonPath":".spec.paused"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct TransitionBudgetSpec {
    /// Which pods count and are limited. An empty selector means all of the scope; without it the budget limits nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub selector: Option<LabelSelector>,
    /// Pods of this namespace, or, for a budget in `hitless-system` only, of the whole cluster.
    #[serde(default)]
    pub scope: Scope,
    /// Nobody goes while this is true.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// Most pods that may be unavailable: a count, or a percentage that rounds down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "count_or_percent")]
    pub max_unavailable: Option<IntOrString>,
    /// Fewest pods that must stay available: a count, or a percentage that rounds up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "count_or_percent")]
    pub min_available: Option<IntOrString>,
    /// Most nodes on which selected pods may be unavailable at a time: a count, or a percentage, rounding down, of the nodes that
    /// have selected pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "count_or_percent")]
    pub max_unavailable_nodes: Option<IntOrString>,
    /// So many zones (or values of another node label) at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<TopologyLimit>,
    /// Fewest selected pods that must stay available on each node that has one: for a Service with `externalTrafficPolicy: Local`,
    /// whose nodes are sent traffic as long as they serve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub per_node_min_available: Option<u32>,
    /// Most pods that are operated at a time, available or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_concurrent: Option<u32>,
    /// If there are any, operations begin only within one of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub windows: Vec<Window>,
    /// No operation begins within one of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub blackouts: Vec<Blackout>,
    /// Seconds to wait after the last pod of a wave is back, before the next wave. Pods that are granted together are a wave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 604_800))]
    pub soak_seconds: Option<u32>,
    /// Nobody goes once so many operations have failed. Also how many failures a rollout bears: without a budget that says so, one
    /// failure halts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_failures: Option<u32>,
}

/// Whose pods a budget counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Scope {
    /// Those of its own namespace.
    #[default]
    Namespace,
    /// All. Obeyed in `hitless-system` only, since it limits everybody.
    Cluster,
}

/// A limit by a label of nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TopologyLimit {
    /// Name of the node label, e.g. `topology.kubernetes.io/zone`. Nodes without it are one domain together. Where no node has it,
    /// nobody goes.
    #[schemars(length(min = 1, max = 317))]
    pub key: String,
    /// Most domains in which selected pods may be unavailable at a time.
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    pub max_unavailable_domains: u32,
}

fn one() -> u32 {
    1
}

/// A recurring span of local time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Window {
    /// Days on which it begins; empty means every day.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 7))]
    pub days: Vec<Day>,
    /// Local time at which it begins, `HH:MM`.
    #[schemars(regex(pattern = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"))]
    pub start: String,
    /// Local time at which it ends, `HH:MM`. Not later than `start` means on the next day.
    #[schemars(regex(pattern = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"))]
    pub end: String,
    /// IANA name of the time zone, e.g. `Europe/Berlin`; default UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub time_zone: Option<String>,
}

/// A day of the week.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Day {
    Mon,
    Tue,
    Wed,
    Thu,
    Fri,
    Sat,
    Sun,
}

/// A span of time in which nothing begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Blackout {
    /// First instant.
    #[serde(deserialize_with = "saturating")]
    pub start: MicroTime,
    /// First instant after it. A time after the year 9999 is taken as the end of it.
    #[serde(deserialize_with = "saturating")]
    pub end: MicroTime,
    /// Why, for whoever asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub reason: Option<String>,
}

/// `9999-12-31T00:00:00Z` is how people write "for ever", and later than the last instant that jiff knows.
fn saturating<'de, D: Deserializer<'de>>(deserializer: D) -> Result<MicroTime, D::Error> {
    let text = String::deserialize(deserializer)?;
    match text.parse() {
        Ok(time) => Ok(MicroTime(time)),
        Err(error) => beyond(&text).map(MicroTime).ok_or_else(|| {
            D::Error::custom(format!("{text:?} is no time; write it with its zone, e.g. 2026-11-01T00:00:00Z: {error}"))
        }),
    }
}

/// The end of time that is nearest, for a well-formed time beyond it.
fn beyond(text: &str) -> Option<Timestamp> {
    let pieces = Pieces::parse(text).ok()?;
    (pieces.time().is_some() && pieces.offset().is_some() && pieces.date().year() == 9999).then_some(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn blackout(end: &str) -> Result<Blackout, serde_json::Error> {
        serde_json::from_value(json!({"start": "2026-01-01T00:00:00+01:00", "end": end}))
    }

    #[test]
    fn an_end_beyond_the_last_instant_is_the_last_instant() {
        for end in ["9999-12-31T00:00:00Z", "9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59-12:00"] {
            assert_eq!(blackout(end).unwrap().end.0, Timestamp::MAX, "{end}");
        }
        assert_eq!(blackout("2026-01-01T00:00:00Z").unwrap().end.0.as_second(), 1_767_225_600);
    }

    #[test]
    fn a_time_without_zone_is_refused_with_what_to_write() {
        for end in ["2026-11-01", "2026-11-01T00:00:00", "9999-12-31", "soon"] {
            let error = blackout(end).unwrap_err().to_string();
            assert!(error.contains("write it with its zone, e.g. 2026-11-01T00:00:00Z"), "{error}");
        }
    }
}
