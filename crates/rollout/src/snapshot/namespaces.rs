//! Whose pods have to be known: a cluster has many in which there is nothing to do.

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::names::{PREFIX, system_namespace};
use hitless_api::pod::PodView;

use super::Snapshot;

/// Namespaces of which all pods are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Namespaces {
    /// Each.
    All,
    /// These.
    Only(BTreeSet<String>),
}

/// Where the agents' pods are.
impl Default for Namespaces {
    fn default() -> Self {
        Self::Only(BTreeSet::from([system_namespace().to_owned()]))
    }
}

impl Namespaces {
    /// Those in which something may be decided about a pod: budgets count all pods of a namespace, and those for the whole cluster all
    /// there are. Of the other namespaces only the pods that carry something of ours need be in the snapshot ([`is_ours`]). `named`: see
    /// [`Self::named`].
    #[must_use]
    pub fn wanted(snapshot: &Snapshot, named: &BTreeSet<String>) -> Self {
        let is_wide = snapshot.budgets.iter().any(|budget| budget.is_cluster_wide());
        if is_wide { Self::All } else { Self::Only(named.clone()) }
    }

    /// Those in which there is something to do, whatever is counted.
    #[must_use]
    pub fn named(snapshot: &Snapshot) -> BTreeSet<String> {
        let objects = snapshot.objects.iter().chain(&snapshot.left_objects);
        let objects = objects.filter(|object| object.matters()).map(|object| &object.id.namespace);
        let ledgers = snapshot.ledgers.values().map(|ledger| &ledger.namespace);
        let rules = snapshot.rules.iter().map(|rule| &rule.namespace);
        let budgets = snapshot.budgets.iter().map(|budget| &budget.namespace);
        let services = snapshot.services.iter().filter(|service| service.mark().is_some());
        let services = services.map(|service| &service.namespace);
        let grants = snapshot.node_transitions.values().flat_map(|node| &node.spec.grants);
        let grants = grants.map(|grant| &grant.pod.namespace);
        let pods = snapshot.pods.iter().chain(&snapshot.companions).filter(|pod| is_ours(pod));
        let pods = pods.map(|pod| &pod.id.namespace);
        let prefetches = snapshot.prefetches.iter().map(|each| &each.pod.namespace);
        let all = objects.chain(ledgers).chain(rules).chain(budgets).chain(services).chain(grants).chain(pods);
        let all = all.chain(prefetches).filter(|namespace| !namespace.is_empty()).cloned();
        all.chain([system_namespace().to_owned()]).collect()
    }

    /// Leaves out workloads and their parts in other namespaces: a round takes time and memory for each object.
    #[must_use]
    pub fn narrow(&self, mut snapshot: Snapshot) -> Snapshot {
        // What is in no namespace counts in every one.
        snapshot.objects.retain(|object| object.id.namespace.is_empty() || self.contains(&object.id.namespace));
        snapshot
    }

    /// Whether all pods of this one are known.
    #[must_use]
    pub fn contains(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(known) => known.contains(namespace),
        }
    }

    /// Those that are not among `known`; `None` if all are.
    #[must_use]
    pub fn beyond(&self, known: &Self) -> Option<Self> {
        match (self, known) {
            (_, Self::All) => None,
            (Self::All, Self::Only(_)) => Some(Self::All),
            (Self::Only(wanted), Self::Only(known)) => {
                let new: BTreeSet<String> = wanted.difference(known).cloned().collect();
                (!new.is_empty()).then_some(Self::Only(new))
            }
        }
    }

    /// With those, too.
    pub fn add(&mut self, more: &Self) {
        match (&mut *self, more) {
            (Self::All, _) => {}
            (Self::Only(_), Self::All) => *self = Self::All,
            (Self::Only(known), Self::Only(more)) => known.extend(more.iter().cloned()),
        }
    }
}

/// Whether the pod itself carries something of ours: it is looked after wherever it is.
#[must_use]
pub fn is_ours(pod: &PodView) -> bool {
    let has = |names: &BTreeMap<String, String>| names.keys().any(|name| name.starts_with(PREFIX));
    pod.gated || pod.lifecycle.is_some() || pod.in_service().is_some() || has(&pod.labels) || has(&pod.annotations)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hitless_workloads::registry;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

    use super::*;

    fn pod(namespace: &str, metadata: &Value, spec: &Value) -> Arc<PodView> {
        let mut pod = json!({"metadata": metadata, "spec": spec});
        pod["metadata"]["namespace"] = namespace.into();
        Arc::new(PodView::from(&serde_json::from_value::<Pod>(pod).unwrap()))
    }

    #[test]
    fn a_pod_that_carries_something_of_ours_makes_its_namespace_matter() {
        let (none, gate) = (json!({"containers": []}), json!([{"conditionType": "hitless.dev/InService"}]));
        let pods = vec![
            pod("plain", &json!({"labels": {"app": "web"}, "annotations": {"example.com/x": "hitless.dev/"}}), &none),
            pod("labelled", &json!({"labels": {"hitless.dev/gate": "enabled"}}), &none),
            pod("asked", &json!({"annotations": {"hitless.dev/restart": "1"}}), &none),
            pod("gated", &json!({}), &json!({"containers": [], "readinessGates": gate})),
        ];
        let wanted = Namespaces::named(&Snapshot { pods, ..Snapshot::default() });
        assert_eq!(wanted.iter().collect::<Vec<_>>(), ["asked", "gated", system_namespace(), "labelled"]);
    }

    #[test]
    fn workloads_are_left_out_of_namespaces_in_which_nothing_has_opted_in() {
        let deployment = |namespace: &str, name: &str, annotations: &Value| {
            let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": {}},
                "metadata": {"namespace": namespace, "name": name, "uid": name, "annotations": annotations}});
            let (holder, resource) =
                registry::resources().find(|(_, each)| each.group_kind.kind == "Deployment").unwrap();
            Arc::new(holder.read(&resource.group_kind, object).unwrap())
        };
        let (plain, ours) = (json!({}), json!({"hitless.dev/update": "in-place"}));
        let objects = vec![deployment("a", "a", &plain), deployment("b", "b", &ours), deployment("b", "c", &plain)];
        let snapshot = Snapshot { objects, ..Snapshot::default() };
        let wanted = Namespaces::Only(Namespaces::named(&snapshot));
        let left = wanted.narrow(snapshot).objects;
        assert_eq!(left.iter().map(|object| object.id.name.as_str()).collect::<Vec<_>>(), ["b", "c"]);
        assert!(wanted.contains("b") && !wanted.contains("a"));
    }

    #[test]
    fn what_is_not_known_yet_is_told_once() {
        let only = |names: &[&str]| Namespaces::Only(names.iter().map(|name| (*name).to_owned()).collect());
        let mut known = only(&["a"]);
        assert_eq!(only(&["a"]).beyond(&known), None);
        let new = only(&["a", "b"]).beyond(&known).unwrap();
        assert_eq!(new, only(&["b"]));
        known.add(&new);
        assert!(known.contains("b") && !known.contains("c"));
        assert_eq!(Namespaces::All.beyond(&known), Some(Namespaces::All));
        known.add(&Namespaces::All);
        assert!(known.contains("c") && only(&["d"]).beyond(&known).is_none());
    }
}
