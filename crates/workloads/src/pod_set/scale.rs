//! Which ids come and go as the wanted number of pods changes.

use std::collections::{BTreeMap, BTreeSet};

use super::departures::{Departures, Leave};
use super::facts::Facts;
use super::roster::{Instance, Roster};
use super::spec::Ids;

/// Ids that are given up go, once their pods and, unless they are kept, their claims have gone.
pub(super) fn give_up<'a>(facts: &Facts<'_, 'a>, roster: &mut Roster<'a>, leaving: &mut Departures<'a>) {
    let seen: BTreeSet<&str> =
        facts.pods.iter().filter(|pod| pod.terminating).map(|pod| pod.id.name.as_str()).collect();
    let is_gone = |(_, instance): &(&i32, &Instance<'_>)| instance.is_given_up() && instance.pod.is_none();
    let gone = roster.instances.iter().filter(is_gone);
    let gone: Vec<(i32, bool)> = gone.map(|(id, instance)| (*id, seen.contains(instance.pod_name()))).collect();
    for (id, is_leaving) in gone {
        if !leaving.delete_claims(facts, id) {
            roster.give_up(id, is_leaving);
        }
    }
}

/// Adds ids that are missing, and lets pods go that are too many. One that was to go stays if it has not left service.
pub(super) fn scale<'a>(
    facts: &Facts<'_, 'a>,
    roster: &mut Roster<'a>,
    leaving: &mut Departures<'a>,
    taken: &BTreeSet<&str>,
) {
    let delay = facts.spec.delays.removal;
    for id in ids(roster, |instance| instance.is_given_up() && instance.pod.is_some()) {
        leaving.going.insert(id);
        if leaving.remove(facts, roster.pod(id), Leave::after(delay)) {
            leaving.delete_claims(facts, id);
        }
    }
    let wanted = facts.spec.replicas;
    let room = roster.free_room();
    // Pods that are taken on need no other ones.
    let there = roster.count() + facts.rules.taken_on();
    for _ in 0..wanted.saturating_sub(there).min(room) {
        roster.add(&facts.spec, taken, facts.target);
    }
    for id in without_pairs(facts, roster, leaving) {
        leaving.going.insert(id);
        let pod = roster.pod(id);
        if pod.is_some() && leaving.remove(facts, pod, Leave::after(delay)) {
            roster.mark_scale_in(id);
            leaving.delete_claims(facts, id);
        } else if pod.is_none() && facts.claims.of_id(id).next().is_some() {
            roster.mark_scale_in(id);
        } else if pod.is_none() {
            roster.give_up(id, false);
        }
    }
    // Those that are to be made anew as they are.
    let is_meant = |instance: &Instance<'_>| {
        instance.pod.is_some_and(|pod| facts.rules.is_made_anew(pod)) && !instance.is_given_up()
    };
    let pairs = roster.pairs();
    let mut anew = ids(roster, is_meant);
    anew.retain(|id| !leaving.going.contains(id) && !pairs.contains_key(id));
    leaving.going.extend(&anew);
    let removal = leaving.made_anew(facts, roster, |_, _| true);
    for id in anew {
        let how = Leave { delay_seconds: delay, fetch: BTreeMap::new(), removal };
        // Its id and its claims go with it, as it is not somebody else who deletes it.
        if leaving.remove(facts, roster.pod(id), how) && facts.spec.ids != Ids::Stay {
            roster.mark_recreate(id, None);
        }
    }
}

/// The ids that are too many. Pairs of them are taken apart, and both pods count then.
fn without_pairs<'a>(facts: &Facts<'_, 'a>, roster: &mut Roster<'a>, leaving: &Departures<'a>) -> Vec<i32> {
    let surplus = surplus(facts, roster, leaving);
    let pairs = roster.pairs().into_iter().filter(|(origin, _)| surplus.contains(origin));
    let pairs: Vec<(i32, i32)> = pairs.collect();
    if pairs.is_empty() {
        return surplus;
    }
    for (origin, new) in pairs {
        roster.unlink([origin, new]);
    }
    self::surplus(facts, roster, leaving)
}

/// Ids that are given up, in the kind's order.
fn surplus<'a>(facts: &Facts<'_, 'a>, roster: &Roster<'a>, leaving: &Departures<'a>) -> Vec<i32> {
    let count = roster.count().saturating_sub(facts.spec.replicas);
    if count == 0 {
        return Vec::new();
    }
    let mut all = facts.members(roster);
    all.retain(|member| !leaving.excluded.contains(&member.id));
    facts.rules.order_of_removal(all).into_iter().take(count).collect()
}

fn ids(roster: &Roster<'_>, is_meant: impl Fn(&Instance<'_>) -> bool) -> Vec<i32> {
    roster.instances.iter().filter(|(_, instance)| is_meant(instance)).map(|(id, _)| *id).collect()
}
