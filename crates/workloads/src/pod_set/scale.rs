//! Which ids come and go as the wanted number of pods changes.

use std::collections::{BTreeMap, BTreeSet};

use super::departures::{Departures, Leave};
use super::facts::Facts;
use super::instances::{Instance, Instances};
use super::spec::Ids;

/// Ids that are given up go, once their pods and, unless they are kept, their claims have gone.
pub(super) fn give_up<'a>(facts: &Facts<'_, 'a>, instances: &mut Instances<'a>, leaving: &mut Departures<'a>) {
    let seen: BTreeSet<&str> =
        facts.pods.iter().filter(|pod| pod.terminating).map(|pod| pod.id.name.as_str()).collect();
    let is_gone = |(_, instance): &(&i32, &Instance<'_>)| instance.is_given_up() && instance.pod.is_none();
    let gone = instances.by_id.iter().filter(is_gone);
    let gone: Vec<(i32, bool)> = gone.map(|(id, instance)| (*id, seen.contains(instance.pod_name()))).collect();
    for (id, is_leaving) in gone {
        if !leaving.delete_claims(facts, id) {
            instances.give_up(id, is_leaving);
        }
    }
}

/// Adds ids that are missing, and lets pods go that are too many. One that was to go stays if it has not left service.
pub(super) fn scale<'a>(
    facts: &Facts<'_, 'a>,
    instances: &mut Instances<'a>,
    leaving: &mut Departures<'a>,
    taken: &BTreeSet<&str>,
) {
    let delay = facts.spec.delays.removal;
    for id in ids(instances, |instance| instance.is_given_up() && instance.pod.is_some()) {
        leaving.going.insert(id);
        if leaving.remove(facts, instances.pod(id), Leave::after(delay)) {
            leaving.delete_claims(facts, id);
        }
    }
    let wanted = facts.spec.replicas;
    let room = instances.free_room();
    // Pods that are taken on need no other ones.
    let there = instances.count() + facts.rules.taken_on();
    for _ in 0..wanted.saturating_sub(there).min(room) {
        instances.add(&facts.spec, taken, facts.target);
    }
    for id in without_pairs(facts, instances, leaving) {
        leaving.going.insert(id);
        let pod = instances.pod(id);
        if pod.is_some() && leaving.remove(facts, pod, Leave::after(delay)) {
            instances.mark_scale_in(id);
            leaving.delete_claims(facts, id);
        } else if pod.is_none() && facts.claims.of_id(id).next().is_some() {
            instances.mark_scale_in(id);
        } else if pod.is_none() {
            instances.give_up(id, false);
        }
    }
    // Those that are to be made anew as they are.
    let is_meant = |instance: &Instance<'_>| {
        instance.pod.is_some_and(|pod| facts.rules.is_made_anew(pod)) && !instance.is_given_up()
    };
    let pairs = instances.pairs();
    let mut anew = ids(instances, is_meant);
    anew.retain(|id| !leaving.going.contains(id) && !pairs.contains_key(id));
    leaving.going.extend(&anew);
    let removal = leaving.made_anew(facts, instances, |_, _| true);
    for id in anew {
        let how = Leave { delay_seconds: delay, fetch: BTreeMap::new(), removal };
        // Its id and its claims go with it, as it is not somebody else who deletes it.
        if leaving.remove(facts, instances.pod(id), how) && facts.spec.ids != Ids::Stay {
            instances.mark_recreate(id, None);
        }
    }
}

/// The ids that are too many. Pairs of them are taken apart, and both pods count then.
fn without_pairs<'a>(facts: &Facts<'_, 'a>, instances: &mut Instances<'a>, leaving: &Departures<'a>) -> Vec<i32> {
    let surplus = surplus(facts, instances, leaving);
    let pairs = instances.pairs().into_iter().filter(|(origin, _)| surplus.contains(origin));
    let pairs: Vec<(i32, i32)> = pairs.collect();
    if pairs.is_empty() {
        return surplus;
    }
    for (origin, new) in pairs {
        instances.unlink([origin, new]);
    }
    self::surplus(facts, instances, leaving)
}

/// Ids that are given up, in the kind's order.
fn surplus<'a>(facts: &Facts<'_, 'a>, instances: &Instances<'a>, leaving: &Departures<'a>) -> Vec<i32> {
    let count = instances.count().saturating_sub(facts.spec.replicas);
    if count == 0 {
        return Vec::new();
    }
    let mut all = facts.members(instances);
    all.retain(|member| !leaving.excluded.contains(&member.id));
    facts.rules.order_of_removal(all).into_iter().take(count).collect()
}

fn ids(instances: &Instances<'_>, is_meant: impl Fn(&Instance<'_>) -> bool) -> Vec<i32> {
    instances.by_id.iter().filter(|(_, instance)| is_meant(instance)).map(|(id, _)| *id).collect()
}
