//! On which nodes a DaemonSet may have pods, as its template says.

use std::collections::BTreeMap;

use hitless_api::selector;
use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use serde_json::Value;

/// What the template asks of nodes: its `nodeSelector`, and the affinity that it requires.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Placement {
    labels: BTreeMap<String, String>,
    /// One of them has to be met; `None`: nothing is required.
    terms: Option<Vec<NodeSelectorTerm>>,
}

impl Placement {
    /// Of a pod template.
    #[must_use]
    pub fn of(template: &Value) -> Self {
        let spec = &template["spec"];
        let read = |value: &Value| serde_json::from_value(value.clone()).ok();
        let required = &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        Self {
            labels: serde_json::from_value(spec["nodeSelector"].clone()).unwrap_or_default(),
            terms: required["nodeSelectorTerms"].as_array().map(|terms| terms.iter().filter_map(read).collect()),
        }
    }

    /// Whether there is no pod of it on a node with this name and these labels as long as both are as they are. What is not understood
    /// excludes nobody.
    #[must_use]
    pub fn excludes(&self, node: &str, labels: &BTreeMap<String, String>) -> bool {
        let is_selected = self.labels.iter().all(|(key, value)| labels.get(key) == Some(value));
        let meets = |term: &NodeSelectorTerm| {
            let name = BTreeMap::from([("metadata.name".to_owned(), node.to_owned())]);
            let on_labels = term.match_expressions.iter().flatten().all(|each| may_meet(each, labels));
            on_labels && term.match_fields.iter().flatten().all(|each| may_meet(each, &name))
        };
        !is_selected || self.terms.as_ref().is_some_and(|terms| !terms.iter().any(meets))
    }
}

fn may_meet(each: &NodeSelectorRequirement, values: &BTreeMap<String, String>) -> bool {
    let NodeSelectorRequirement { key, operator, values: wanted } = each.clone();
    let requirement = LabelSelectorRequirement { key, operator, values: wanted };
    let asked = LabelSelector { match_expressions: Some(vec![requirement]), match_labels: None };
    selector::limits(&asked, values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The agents' own DaemonSet: no pod on a node without a machine, so that none is Pending there for ever.
    #[test]
    fn no_agent_is_wanted_on_nodes_without_a_machine_and_one_on_all_others() {
        let manifest = include_str!("../../../../../manifests/agent.yaml");
        let terms = json!({"nodeSelectorTerms": [{"matchExpressions": expressions(manifest)}]});
        let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}});
        let placement =
            Placement::of(&json!({"spec": {"nodeSelector": {"kubernetes.io/os": "linux"}, "affinity": affinity}}));
        let excludes = |key: &str, value: &str| {
            let linux = ("kubernetes.io/os".to_owned(), "linux".to_owned());
            placement.excludes("n1", &[linux, (key.to_owned(), value.to_owned())].into())
        };
        for (key, value) in [
            ("kubernetes.io/os", "windows"),
            ("type", "virtual-kubelet"),
            ("type", "kwok"),
            ("eks.amazonaws.com/compute-type", "fargate"),
            ("node.kubernetes.io/instance-type", "eklet"),
            ("liqo.io/type", "virtual-node"),
        ] {
            assert!(excludes(key, value), "{key}={value}");
        }
        for (key, value) in [
            ("eks.amazonaws.com/compute-type", "ec2"),
            ("eks.amazonaws.com/compute-type", "auto"),
            ("node.kubernetes.io/instance-type", "m5.large"),
            ("type", "gpu"),
            ("zone", "a"),
        ] {
            assert!(!excludes(key, value), "{key}={value}");
        }
    }

    /// Lines such as `- {key: type, operator: NotIn, values: [virtual-kubelet, kwok]}` below the affinity.
    fn expressions(manifest: &str) -> Vec<Value> {
        let lines =
            manifest.lines().filter_map(|line| line.trim().strip_prefix("- {key: ")?.split_once(", operator: "));
        let expression = |(key, rest): (&str, &str)| {
            let (operator, values) = rest.split_once(", values: [").unwrap();
            let values: Vec<&str> = values.split(']').next().unwrap().split(", ").collect();
            let values: Vec<&str> = values.into_iter().map(|value| value.trim_matches('"')).collect();
            json!({"key": key, "operator": operator, "values": values})
        };
        let all: Vec<Value> = lines.map(expression).collect();
        assert!(!all.is_empty());
        all
    }

    #[test]
    fn one_of_the_terms_is_enough_and_what_is_not_understood_excludes_nobody() {
        let of = |terms: Value| {
            let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
            Placement::of(&json!({"spec": {"affinity": {"nodeAffinity": required}}}))
        };
        let labels = BTreeMap::from([("zone".to_owned(), "a".to_owned()), ("cores".to_owned(), "4".to_owned())]);
        let zone = |zone: &str| json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]});
        let named = |name: &str| json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]});
        assert!(of(json!([zone("b")])).excludes("n1", &labels));
        assert!(!of(json!([zone("b"), zone("a")])).excludes("n1", &labels));
        assert!(!of(json!([named("n1")])).excludes("n1", &labels));
        assert!(of(json!([named("n2")])).excludes("n1", &labels));
        let cores = json!({"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["8"]}]});
        assert!(!of(json!([cores])).excludes("n1", &labels));
        assert!(!Placement::default().excludes("n1", &labels));
    }
}
