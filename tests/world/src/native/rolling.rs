//! A Deployment controller's rolling update, one sync of it: surge, then old pods go as far as enough others are available.

use hitless_workloads::kinds::deployment::{DeploymentBody, ReplicaSet};
use serde_json::Value;

use super::Act;

/// A ReplicaSet and how many of its pods are available.
#[derive(Clone, Copy)]
pub struct Share<'a> {
    /// The ReplicaSet.
    pub set: ReplicaSet<'a>,
    /// How many of its pods are available.
    pub available: i32,
}

/// Scales the new ReplicaSet up, or else old ones down. `strategy` is the Deployment's.
#[must_use]
pub fn sync(body: &DeploymentBody, strategy: &Value, new: Share<'_>, olds: &[Share<'_>]) -> Vec<Act> {
    let scale = |share: &Share<'_>, replicas: i32| {
        let child = share.set.object.id.clone();
        (share.set.body.replicas != replicas).then_some(Act::Scale { child, replicas })
    };
    let old: i32 = olds.iter().map(|share| share.set.body.replicas).sum();
    if strategy["type"] == "Recreate" {
        let has_pods = olds.iter().any(|share| share.set.body.status_replicas > 0);
        let up = scale(&new, body.replicas).filter(|_| old == 0 && !has_pods);
        return olds.iter().filter_map(|share| scale(share, 0)).chain(up).collect();
    }
    let (surge, unavailable) = bounds(strategy, body.replicas);
    if new.set.body.replicas > body.replicas {
        return scale(&new, body.replicas).into_iter().collect();
    }
    let room = body.replicas + surge - old - new.set.body.replicas;
    let more = room.min(body.replicas - new.set.body.replicas);
    if more > 0 {
        return scale(&new, new.set.body.replicas + more).into_iter().collect();
    }
    let is_missing = (new.set.body.replicas - new.available).max(0);
    let least = body.replicas - unavailable;
    let mut may_go = old + new.set.body.replicas - least - is_missing;
    let mut available = new.available + olds.iter().map(|share| share.available).sum::<i32>();
    let mut acts = Vec::new();
    for share in olds {
        // Those that are not available first: nobody misses them.
        let has = share.set.body.replicas;
        let unhealthy = (has - share.available).clamp(0, may_go.max(0));
        let healthy = (available - least).min(has - unhealthy).clamp(0, (may_go - unhealthy).max(0));
        (may_go, available) = (may_go - unhealthy - healthy, available - healthy);
        acts.extend(scale(share, has - unhealthy - healthy));
    }
    acts
}

/// `maxSurge` and `maxUnavailable`: 25 % where nothing is said, and never both 0.
fn bounds(strategy: &Value, replicas: i32) -> (i32, i32) {
    let bound = |field: &str, up: bool| {
        let value = &strategy["rollingUpdate"][field];
        let percent = match value.as_str() {
            Some(text) => text.trim_end_matches('%').parse().unwrap_or_default(),
            None => 25,
        };
        let part = replicas * percent;
        let scaled = if up { (part + 99) / 100 } else { part / 100 };
        value.as_i64().and_then(|count| i32::try_from(count).ok()).unwrap_or(scaled)
    };
    let (surge, unavailable) = (bound("maxSurge", true), bound("maxUnavailable", false));
    (surge, if surge == 0 && unavailable == 0 { 1 } else { unavailable })
}
