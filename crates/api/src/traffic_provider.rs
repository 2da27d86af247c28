//! `TrafficProvider`: a load balancer outside of the cluster, and who may use which of its pools.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::MicroTime;

/// A load balancer outside of the cluster, how it is reached, and which namespaces may put pods into which of its pools. It is
/// cluster-scoped, so that whoever may write Services can neither make the controller talk to an address nor use credentials.
/// Services name it by the annotation `hitless.dev/traffic`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, CustomResource)]
#[kube(
    group = "hitless.dev",
    version = "v1alpha1",
    kind = "TrafficProvider",
    plural = "trafficproviders",
    shortname = "tp",
    status = "TrafficProviderStatus",
    derive = "PartialEq",
    printcolumn = r#"{"name":"Pools","type":"string","jsonPath":".spec.pools[*].name"}"#,
    printcolumn = r#"{"name":"States","type":"string","jsonPath":".status.pools[*].state"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "has(self.haproxy) != has(self.alibabaNlb)", "message": "exactly one of haproxy and alibabaNlb says which load balancer it is"}
]))]
pub struct TrafficProviderSpec {
    /// A HAProxy process, by its runtime API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub haproxy: Option<HaProxyProvider>,
    /// Server groups of Alibaba Cloud's Network Load Balancer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alibaba_nlb: Option<AlibabaNlbProvider>,
    /// The beginning of the names of our servers. Two clusters that share a pool need two marks.
    #[serde(default = "default_mark")]
    #[schemars(length(max = 63), pattern("^[A-Za-z0-9.-]+$"))]
    pub mark: String,
    /// The pools that may be used. Others are refused.
    #[serde(default)]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub pools: Vec<TrafficPool>,
}

/// A HAProxy process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HaProxyProvider {
    /// Where its runtime API listens, at level `admin`: `tcp://host:port`. It has neither encryption nor a password.
    #[schemars(length(max = 300), pattern("^tcp://.+:[0-9]+$"))]
    pub endpoint: String,
    /// Settings of all servers that are registered, in HAProxy's words, such as `check inter 2s maxconn 200`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub keywords: String,
}

/// Server groups of Alibaba Cloud's Network Load Balancer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AlibabaNlbProvider {
    /// Region, such as `cn-hangzhou`.
    #[schemars(length(min = 1, max = 64), pattern("^[a-z0-9-]+$"))]
    pub region: String,
    /// Name of the Secret in `hitless-system` with the keys `accessKeyId` and `accessKeySecret`.
    #[schemars(length(min = 1, max = 253), pattern("^[a-z0-9.-]+$"))]
    pub secret: String,
}

/// A pool that may be used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TrafficPool {
    /// As the load balancer calls it: a backend of HAProxy, the id of a server group.
    #[schemars(length(min = 1, max = 255), pattern("^[A-Za-z0-9_.:-]+$"))]
    pub name: String,
    /// Namespaces whose Services may name it; `*` is all of them.
    #[schemars(length(min = 1, max = 64), extend("x-kubernetes-list-type" = "set"))]
    pub namespaces: Vec<String>,
}

impl TrafficPool {
    /// Whether Services of that namespace may name it.
    #[must_use]
    pub fn admits(&self, namespace: &str) -> bool {
        self.namespaces.iter().any(|each| each == "*" || each == namespace)
    }
}

/// Whether a pool can be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TrafficPoolState {
    /// Its servers are read.
    Read,
    /// They can't be read: no operation begins on pods in this pool, and what is registered stays.
    Unreadable,
}

/// What the controller says of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrafficPoolStatus {
    /// The pool.
    pub name: String,
    /// Whether it can be relied on.
    pub state: TrafficPoolState,
    /// Since when.
    pub since: MicroTime,
    /// Why it can't be, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 512))]
    pub message: String,
}

/// What the controller says of the load balancer. Written by the leading controller only, when a pool's state changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrafficProviderStatus {
    /// Pools that Services name.
    #[serde(default)]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub pools: Vec<TrafficPoolStatus>,
}

fn default_mark() -> String {
    "hitless".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pool_is_open_to_the_namespaces_that_it_names() {
        let pool = |namespaces: &[&str]| TrafficPool {
            name: "shop".to_owned(),
            namespaces: namespaces.iter().map(|name| (*name).to_owned()).collect(),
        };
        assert!(pool(&["shop"]).admits("shop") && pool(&["*"]).admits("shop"));
        assert!(!pool(&["shop"]).admits("shop-2") && !pool(&[]).admits("shop"));
    }

    #[test]
    fn a_word_that_is_not_known_is_refused_by_name() {
        let spec = json!({"haproxy": {"endpoint": "tcp://10.0.0.9:9999", "password": "x"}});
        let refused = serde_json::from_value::<TrafficProviderSpec>(spec).unwrap_err().to_string();
        assert!(refused.contains("password"), "{refused}");
    }
}
