//! The Deployment controller: which ReplicaSet it takes for the new one, which it scales, when it makes one. A rolling update
//! happens at once, and several ReplicaSets of a paused Deployment are not scaled in proportion. With the guard in its way, which
//! lets no history entry be raised.

use hitless_workloads::Template;
use hitless_workloads::kinds::deployment::{DeploymentBody, ReplicaSet};
use serde_json::{Value, json};

use super::{Act, Seen, owned_by};

use hitless_api::names::{annotations, labels};

/// The new ReplicaSet: the oldest one with this template.
#[must_use]
pub fn new_set<'a>(template: &Template, sets: impl IntoIterator<Item = ReplicaSet<'a>>) -> Option<ReplicaSet<'a>> {
    let is_equal = |set: &ReplicaSet<'a>| {
        let own = &set.body.template;
        own.is_mixed() == template.is_mixed() && own.content() == template.content()
    };
    sets.into_iter().filter(is_equal).min_by_key(|set| (set.object.created, &set.object.id.name))
}

pub(super) fn sync(seen: &Seen<'_>, body: &DeploymentBody) -> Vec<Act> {
    let sets: Vec<ReplicaSet<'_>> = seen.children.iter().filter_map(|child| child.view.replica_set()).collect();
    let new = new_set(&body.template, sets.iter().copied());
    if body.paused {
        let chosen = active_or_latest(&sets, new);
        return chosen.and_then(|set| scale(set, body.replicas)).into_iter().collect();
    }
    let Some(new) = new else {
        let name = &seen.object.view.id.name;
        let what = format!("{name} is not paused and has a template of no ReplicaSet: it would be rolled natively");
        return vec![Act::Rolls(what), Act::Make(make(seen, body))];
    };
    let olds = sets.iter().filter(|set| set.object.id != new.object.id);
    olds.filter_map(|set| scale(*set, 0)).chain(scale(new, body.replicas)).collect()
}

/// The only one that has replicas; if none has, the new one, or else the newest.
fn active_or_latest<'a>(sets: &[ReplicaSet<'a>], new: Option<ReplicaSet<'a>>) -> Option<ReplicaSet<'a>> {
    let mut active = sets.iter().copied().filter(|set| set.body.replicas != 0);
    match (active.next(), active.next()) {
        (None, _) => new.or_else(|| sets.iter().copied().max_by_key(|set| (set.object.created, &set.object.id.name))),
        (Some(one), None) => Some(one),
        (Some(_), Some(_)) => None,
    }
}

fn scale(set: ReplicaSet<'_>, replicas: i32) -> Option<Act> {
    let is_refused = set.is_history() && replicas > set.body.replicas;
    let differs = set.body.replicas != replicas;
    (differs && !is_refused).then(|| Act::Scale { child: set.object.id.clone(), replicas })
}

fn make(seen: &Seen<'_>, body: &DeploymentBody) -> Value {
    let deployment = &*seen.object.json;
    let meta = &deployment["metadata"];
    let named = |hash: &str| format!("{}-{hash}", seen.object.view.id.name);
    let is_taken = |hash: &str| seen.children.iter().any(|child| child.view.id.name == named(hash));
    // As with Kubernetes' `collisionCount`.
    let mut hash = body.template.revision()[..8].to_owned();
    while is_taken(&hash) {
        hash.push('x');
    }
    let template = body.template.for_replica_set(Some(&hash), false);
    let mut selector = deployment["spec"]["selector"].clone();
    selector["matchLabels"][labels::POD_TEMPLATE_HASH] = json!(hash);
    let number =
        |child: &Value| child["metadata"]["annotations"][annotations::DEPLOYMENT_REVISION].as_str()?.parse().ok();
    let newest: i64 = seen.children.iter().filter_map(|child| number(&child.json)).max().unwrap_or(0);
    let mut own = meta["annotations"].clone();
    own[annotations::LAST_APPLIED].take();
    own[annotations::DEPLOYMENT_REVISION] = json!((newest + 1).to_string());
    if let Some(own) = own.as_object_mut() {
        own.retain(|_, value| !value.is_null());
    }
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"namespace": meta["namespace"], "name": named(&hash), "labels": template["metadata"]["labels"],
            "annotations": own, "ownerReferences": owned_by(deployment)},
        "spec": {"replicas": body.replicas, "selector": selector, "template": template},
        "status": {"replicas": 0},
    })
}
