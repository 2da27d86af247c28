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
    {
        "rule": "[has(self.haproxy), has(self.alibabaNlb), has(self.alibabaAlb), has(self.alibabaClb)].exists_one(it, it)",
        "message": "exactly one of haproxy, alibabaNlb, alibabaAlb and alibabaClb says which load balancer it is"
    }
]))]
pub struct TrafficProviderSpec {
    /// A HAProxy process, by its runtime API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub haproxy: Option<HaProxyProvider>,
    /// Server groups of Alibaba Cloud's Network Load Balancer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alibaba_nlb: Option<AlibabaProvider>,
    /// Server groups of Alibaba Cloud's Application Load Balancer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alibaba_alb: Option<AlibabaProvider>,
    /// vServer groups of Alibaba Cloud's Classic Load Balancer. Pods' addresses have to be those of network interfaces (Terway).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alibaba_clb: Option<AlibabaClbProvider>,
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

/// Where Alibaba Cloud's API is called, and as whom.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AlibabaProvider {
    /// Region, such as `cn-hangzhou`.
    #[schemars(length(min = 1, max = 64), pattern("^[a-z][a-z0-9]*(-[a-z0-9]+)+$"))]
    pub region: String,
    /// Name of the Secret in `hitless-system` with the keys `accessKeyId` and `accessKeySecret`.
    #[schemars(length(min = 1, max = 253), pattern("^[a-z0-9.-]+$"))]
    pub secret: String,
}

/// Where Alibaba Cloud's API is called, as whom, and where the pods are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AlibabaClbProvider {
    /// Region, such as `cn-hangzhou`.
    #[schemars(length(min = 1, max = 64), pattern("^[a-z][a-z0-9]*(-[a-z0-9]+)+$"))]
    pub region: String,
    /// Name of the Secret in `hitless-system` with the keys `accessKeyId` and `accessKeySecret`.
    #[schemars(length(min = 1, max = 253), pattern("^[a-z0-9.-]+$"))]
    pub secret: String,
    /// The VPC of the pods, such as `vpc-bp1j7w3gc1cexjqd`. Needed if their addresses exist in another VPC of the region, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), pattern("^vpc-[a-z0-9]+$"))]
    pub vpc: Option<String>,
}

/// The one load balancer that a TrafficProvider is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrafficTarget<'a> {
    /// A HAProxy process.
    HaProxy(&'a HaProxyProvider),
    /// Server groups of Alibaba Cloud's Network Load Balancer.
    AlibabaNlb(&'a AlibabaProvider),
    /// Server groups of Alibaba Cloud's Application Load Balancer.
    AlibabaAlb(&'a AlibabaProvider),
    /// vServer groups of Alibaba Cloud's Classic Load Balancer.
    AlibabaClb(&'a AlibabaClbProvider),
}

impl TrafficProviderSpec {
    /// Which load balancer it is; nothing unless the spec says exactly one.
    #[must_use]
    pub fn target(&self) -> Option<TrafficTarget<'_>> {
        let said = [
            self.haproxy.as_ref().map(TrafficTarget::HaProxy),
            self.alibaba_nlb.as_ref().map(TrafficTarget::AlibabaNlb),
            self.alibaba_alb.as_ref().map(TrafficTarget::AlibabaAlb),
            self.alibaba_clb.as_ref().map(TrafficTarget::AlibabaClb),
        ];
        let mut said = said.into_iter().flatten();
        said.next().filter(|_| said.next().is_none())
    }
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
    fn exactly_one_load_balancer_is_said() {
        let spec = |value: serde_json::Value| serde_json::from_value::<TrafficProviderSpec>(value).unwrap();
        let key = json!({"region": "cn-hangzhou", "secret": "key"});
        let target = |spec: &TrafficProviderSpec| match spec.target() {
            Some(TrafficTarget::HaProxy(_)) => "haproxy",
            Some(TrafficTarget::AlibabaNlb(_)) => "alibabaNlb",
            Some(TrafficTarget::AlibabaAlb(_)) => "alibabaAlb",
            Some(TrafficTarget::AlibabaClb(_)) => "alibabaClb",
            None => "none",
        };
        for said in ["alibabaNlb", "alibabaAlb", "alibabaClb"] {
            assert_eq!(target(&spec(json!({said: key}))), said);
            let two = spec(json!({said: key, "haproxy": {"endpoint": "tcp://10.0.0.9:9999"}}));
            assert_eq!(target(&two), "none");
        }
        assert_eq!(target(&spec(json!({"haproxy": {"endpoint": "tcp://10.0.0.9:9999"}}))), "haproxy");
        assert_eq!(target(&spec(json!({"alibabaNlb": key, "alibabaClb": key}))), "none");
        assert_eq!(target(&spec(json!({}))), "none");
        assert!(
            serde_json::from_value::<TrafficProviderSpec>(
                json!({"alibabaNlb": {"region": "a-b", "secret": "k", "vpc": "vpc-1"}})
            )
            .is_err()
        );
    }

    #[test]
    fn a_word_that_is_not_known_is_refused_by_name() {
        let spec = json!({"haproxy": {"endpoint": "tcp://10.0.0.9:9999", "password": "x"}});
        let refused = serde_json::from_value::<TrafficProviderSpec>(spec).unwrap_err().to_string();
        assert!(refused.contains("password"), "{refused}");
    }
}
