//! CloneSets: those that a run begins with, and what differs from CollaSets in what their owners do to them.

use hitless_api::names::annotations;
use serde_json::{Value, json};

use crate::chance::Chance;

/// On a pod: its owner wants it deleted.
pub(super) const SPECIFIED_DELETE: &str = "apps.kruise.io/specified-delete";

/// A CloneSet with a quarter of its pods unavailable at most, as far as budgets are checked: one, or none and one more than wanted.
pub(super) fn manifest(namespace: &str, name: &str, chance: &mut Chance) -> Value {
    let stragglers = chance.pick(&["Close", "Wait", "Abort", "Destroy"]);
    let drain = json!({"minSeconds": 1, "stragglerAfterSeconds": 4, "deadlineSeconds": 8, "stragglers": stragglers});
    let mut template = json!({
        "metadata": {"labels": {"app": name, "tier": chance.pick(&["front", "back"]), "all": "yes"}},
        "spec": {"containers": [{"name": "web", "image": format!("{name}:v1"), "ports": [{"containerPort": 80}]}]}
    });
    if chance.happens(7_000) {
        template["metadata"]["annotations"] = json!({annotations::DRAIN: drain.to_string()});
    }
    let policy = chance.pick(&["ReCreate", "InPlaceIfPossible", "InPlaceIfPossible"]);
    let mut strategy = json!({"type": policy, "maxUnavailable": 1});
    if chance.happens(4_000) {
        strategy = json!({"type": policy, "maxUnavailable": 0, "maxSurge": 1});
    }
    if chance.happens(2_500) {
        strategy["partition"] = json!(1);
    }
    let mut spec = json!({
        "replicas": chance.pick(&[1, 2, 2, 3, 3, 3, 4, 5]),
        "selector": {"matchLabels": {"app": name}},
        "template": template,
        "updateStrategy": strategy,
        "revisionHistoryLimit": chance.pick(&[10, 2, 1, 0]),
    });
    if chance.happens(3_000) {
        spec["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}, "spec": {}}]);
        spec["scaleStrategy"] = json!({"disablePVCReuse": chance.happens(5_000)});
    }
    json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet",
        "metadata": {"namespace": namespace, "name": name, "uid": format!("uid-{name}"), "generation": 1},
        "spec": spec,
    })
}

/// Another policy. Without extra pods one may be unavailable.
pub(super) fn follow(strategy: &mut Value, policy: &str) {
    strategy["type"] = json!(policy);
    if policy == "InPlaceOnly" {
        strategy["maxSurge"] = json!(0);
        strategy["maxUnavailable"] = json!(1);
    }
}
