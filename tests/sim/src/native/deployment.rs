//! The Deployment controller, as far as it meets a Deployment that is paused or up to date.

use hitless_workloads::Object;
use serde_json::json;

use crate::ground::Ground;
use crate::server::object_key;

/// It scales.
pub(crate) fn scale(object: &Object, ground: &mut Ground) {
    let Some(deployment) = object.deployment() else { return };
    let target = deployment.body.template.revision();
    let own: Vec<_> = ground.server.owned_by(&deployment.id.uid).map(|each| each.view.clone()).collect();
    let own = || own.iter().filter_map(|each| each.replica_set());
    let chosen = if deployment.body.paused {
        own().filter(|set| !set.is_history()).max_by_key(|set| (set.body.replicas, set.created))
    } else {
        let equal = own().filter(|set| set.body.template.revision() == target && !set.body.template.is_mixed());
        equal.min_by_key(|set| (set.object.created, &set.object.id.name))
    };
    let Some(chosen) = chosen else {
        let name = &object.id.name;
        let what = format!("{name} is not paused and has a template of no ReplicaSet: it would be rolled natively");
        return ground.checks.fail(ground.now, what);
    };
    let replicas = deployment.body.replicas;
    let at = object_key("ReplicaSet", &chosen.id.namespace, &chosen.id.name);
    ground.server.change_object(&at, |set| set["spec"]["replicas"] = json!(replicas));
}
