//! Pods that are not available, for a reason that may pass: an unverified version gets onto few of them, and what is broken is mended
//! all the same.

use std::collections::BTreeMap;

use hitless_gate::{Absence, Candidate, Consumption, Denies, Gate, ImplicitBudget, Reserved, Verdict};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::scene::{Namespace, at};

const ALL: [&str; 4] = ["p0", "p1", "p2", "p3"];

/// Pods of which these have the new version.
struct Rollout {
    gate: Gate,
    namespace: Namespace,
}

impl Rollout {
    fn of(namespace: Namespace, updated: &[&str]) -> Self {
        let mut gate = namespace.gate();
        gate.set_updated(
            updated.iter().map(|name| format!("uid-{name}")).collect::<Vec<_>>().iter().map(String::as_str),
        );
        Self { gate, namespace }
    }

    fn verdicts(&self, absence: Absence, names: &[&str]) -> Vec<Verdict> {
        let candidate = |name: &&str| Candidate { absence, ..Namespace::candidate(name) };
        let candidates: Vec<Candidate> = names.iter().map(candidate).collect();
        self.gate.decide(&candidates, &self.namespace.approvals, at(0))
    }

    /// Who goes of those that have the old version.
    fn goes(&self, absence: Absence, names: &[&str]) -> Vec<String> {
        self.verdicts(absence, names).into_iter().filter(|verdict| verdict.allowed).map(|verdict| verdict.pod).collect()
    }
}

fn implicit(count: u32) -> Namespace {
    Namespace { implicit: Some(ImplicitBudget { percent: 25 }), ..Namespace::of(count) }
}

fn everybody() -> Value {
    json!({"matchLabels": {"app": "web"}})
}

/// Every way to say "one of four", none of which lets a second one go.
fn bounds() -> Vec<(&'static str, Namespace)> {
    let four = || implicit(4).on(&["a1", "b1", "c1", "d1"]);
    vec![
        ("implicit", four()),
        ("maxUnavailableValue", four().max(1)),
        ("minAvailableValue", four().min(3)),
        ("PodDisruptionBudget maxUnavailable", four().pdb(everybody(), Value::Null, json!(1))),
        ("PodDisruptionBudget minAvailable", four().pdb(everybody(), json!("75%"), Value::Null)),
        ("PodDisruptionBudget of 0", four().pdb(everybody(), json!(4), Value::Null)),
        ("budget", four().budget(json!({"maxUnavailable": 1}))),
        ("budget of 0", four().budget(json!({"maxUnavailable": 0}))),
        ("nodes", four().budget(json!({"maxUnavailableNodes": 1}))),
        ("no nodes", four().budget(json!({"maxUnavailableNodes": 0}))),
        ("zones", four().budget(json!({"topology": {"key": "topology.kubernetes.io/zone"}}))),
    ]
}

#[test]
fn while_all_are_away_one_pod_has_the_version_that_nobody_has_verified() {
    for (bound, namespace) in bounds() {
        let blip = Rollout::of(namespace.down(&ALL).reserved(&["p0"]), &[]);
        assert!(blip.goes(Absence::NewVersion, &ALL[1..]).is_empty(), "{bound}: p0 is being operated");
    }
    for (bound, namespace) in bounds() {
        let blip = Rollout::of(namespace.down(&ALL), &["p0"]);
        assert!(blip.goes(Absence::NewVersion, &ALL[1..]).is_empty(), "{bound}: p0 has it, and is not available");
    }
}

#[test]
fn the_old_version_is_broken_on_every_pod_and_one_after_the_other_is_mended() {
    for (bound, namespace) in bounds() {
        let first = Rollout::of(namespace.down(&ALL), &[]);
        let verdicts = first.verdicts(Absence::NewVersion, &ALL);
        assert_eq!(verdicts.iter().filter(|verdict| verdict.allowed).count(), 1, "{bound}");
        assert!(verdicts[0].rests_on_unavailability(), "{bound}: its agent refuses it once it is Ready");
    }
    for (bound, namespace) in bounds() {
        let second = Rollout::of(namespace.down(&ALL[1..]), &["p0"]);
        assert_eq!(second.goes(Absence::NewVersion, &ALL[1..]), ["p1"], "{bound}: p0 is available");
    }
}

#[test]
fn an_only_pod_that_is_not_ready_gets_the_version_that_mends_it() {
    for namespace in [
        implicit(1),
        implicit(1).max(0),
        implicit(1).min("100%"),
        implicit(1).pdb(everybody(), json!(1), Value::Null),
        implicit(1).on(&["a1"]).budget(json!({"maxUnavailable": 0, "perNodeMinAvailable": 1})),
    ] {
        assert_eq!(Rollout::of(namespace.down(&["p0"]), &[]).goes(Absence::NewVersion, &["p0"]), ["p0"]);
    }
}

#[test]
fn as_many_are_tried_at_once_as_may_be_unavailable() {
    let names: Vec<String> = (0..10).map(|number| format!("p{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for (namespace, most) in [
        (Namespace::of(10).max(3), 3),
        (Namespace::of(10).max("100%"), 10),
        (Namespace::of(10).min(6), 4),
        (Namespace::of(10).max(5).min(8), 2),
        (implicit(10), 2),
    ] {
        let rollout = Rollout::of(namespace.down(&names), &[]);
        assert_eq!(rollout.goes(Absence::NewVersion, &names).len(), most);
    }
}

#[test]
fn one_that_is_away_alone_goes_as_an_available_pod_would() {
    let rollout = Rollout::of(implicit(4).down(&["p2"]), &[]);
    let verdicts = rollout.verdicts(Absence::NewVersion, &ALL);
    assert_eq!(verdicts[0].pod, "p2");
    assert!(verdicts[0].allowed && !verdicts[0].rests_on_unavailability(), "{}", verdicts[0]);
    assert!(verdicts[1..].iter().all(|verdict| !verdict.allowed));
}

#[test]
fn a_restart_counts_what_is_under_way_and_not_who_has_the_version_anyway() {
    let hung = Rollout::of(implicit(4).down(&ALL), &ALL);
    assert_eq!(hung.goes(Absence::SameVersion, &ALL).len(), 1, "all hang, and one after the other is restarted");
    let begun = Rollout::of(implicit(4).down(&ALL).reserved(&["p3"]), &ALL);
    assert!(begun.goes(Absence::SameVersion, &ALL[..3]).is_empty());
}

#[test]
fn what_costs_nothing_goes_whatever_the_limit_and_is_in_trial_itself() {
    for (bound, namespace) in bounds() {
        let rollout = Rollout::of(namespace.down(&ALL), &[]);
        let verdicts = rollout.verdicts(Absence::CostsNothing, &ALL);
        assert!(verdicts.iter().all(Verdict::rests_on_unavailability), "{bound}");
        let one = |name: &str, absence| Candidate { absence, ..Namespace::candidate(name) };
        let mixed = [one("p0", Absence::CostsNothing), one("p1", Absence::NewVersion)];
        let mixed = rollout.gate.decide(&mixed, &rollout.namespace.approvals, at(0));
        assert_eq!(mixed.iter().map(|verdict| verdict.allowed).collect::<Vec<_>>(), [true, false], "{bound}");
    }
}

#[test]
fn it_is_said_who_is_being_tried_and_what_helps() {
    let blip = Rollout::of(implicit(4).down(&ALL), &["p0"]);
    let verdict = blip.verdicts(Absence::NewVersion, &["p1"]).remove(0);
    let rule = verdict.denied().next().unwrap();
    assert_eq!(rule.because, Denies::MaxUnverified { most: 1, unverified: 1 });
    assert_eq!(
        rule.holders.iter().map(|holder| (holder.pod.as_str(), holder.why)).collect::<Vec<_>>(),
        [("p0", Consumption::Unavailable)]
    );
    let (why, help) = (rule.to_string(), rule.unblock().unwrap());
    assert_eq!(why, "implicit: 1 other is being tried (at most 1), and this pod may get Ready by itself");
    assert_eq!(help, "wait until 1 of them is Ready, or set a version that gets Ready");
    assert!(why.len() <= 88 && help.len() <= 80);
}

/// What happens to one of the pods between two rounds.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// The dependency of all readiness probes goes or comes back.
    Blip(bool),
    /// The operation ends: the pod has the new version, and gets Ready unless the dependency is away.
    Done(usize),
    /// It is Ready no more, or again.
    Ready(usize, bool),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        any::<bool>().prop_map(Event::Blip),
        any::<usize>().prop_map(Event::Done),
        (any::<usize>(), any::<bool>()).prop_map(|(pod, ready)| Event::Ready(pod, ready)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Unless a pod that was verified fails later, no more have the new version and are not available than the bound, and the rollout
    /// ends once the version gets Ready.
    #[test]
    fn never_more_in_trial_than_the_bound_and_never_stuck(
        count in 1..8_usize,
        quota in 0..4_u64,
        rounds in prop::collection::vec(prop::collection::vec(event(), 0..4), 1..20),
    ) {
        let mut namespace = Namespace::of(count.try_into().unwrap()).max(quota);
        let uid = |pod: usize| format!("uid-p{pod}");
        let (mut updated, mut under_way) = (vec![false; count], vec![false; count]);
        // The old version has never been Ready; the dependency is away at first.
        namespace.pods.iter_mut().for_each(|pod| pod.available = false);
        let mut away = true;
        let mut step = |events: &[Event], namespace: &mut Namespace, away: &mut bool| {
            for event in events {
                match *event {
                    Event::Blip(is_away) => *away = is_away,
                    Event::Done(pod) if under_way[pod % count] => {
                        updated[pod % count] = true;
                        under_way[pod % count] = *away;
                    }
                    Event::Done(_) => {}
                    Event::Ready(pod, ready) => {
                        if !updated[pod % count] {
                            namespace.pods[pod % count].available = ready && !*away;
                        }
                    }
                }
            }
            for pod in 0..count {
                if updated[pod] {
                    namespace.pods[pod].available = !*away && !under_way[pod];
                } else if *away {
                    namespace.pods[pod].available = false;
                }
            }
            let held = (0..count).filter(|pod| under_way[*pod]);
            namespace.reserved = held.map(|pod| (uid(pod), Reserved { since: at(0), is_over: false })).collect::<BTreeMap<_, _>>();
            let mut gate = namespace.gate();
            let has: Vec<String> = (0..count).filter(|pod| updated[*pod]).map(uid).collect();
            gate.set_updated(has.iter().map(String::as_str));
            let candidates: Vec<Candidate> = (0..count).filter(|pod| !updated[*pod] && !under_way[*pod])
                .map(|pod| Namespace::candidate(&format!("p{pod}"))).collect();
            let before = (0..count).filter(|pod| under_way[*pod] || (updated[*pod] && *away)).count();
            let mut begun = 0;
            for verdict in gate.decide(&candidates, &namespace.approvals, at(0)).iter().filter(|verdict| verdict.allowed) {
                under_way[verdict.pod[1..].parse::<usize>().unwrap()] = true;
                begun += 1;
            }
            let bound = usize::try_from(quota).unwrap().max(1);
            assert!(begun == 0 || before + begun <= bound, "{before} in trial, {begun} more, bound {bound}");
            updated.iter().all(|each| *each)
        };
        for events in &rounds {
            step(events, &mut namespace, &mut away);
        }
        // Without the old version's ever being Ready.
        let broken: Vec<Event> = (0..count).map(|pod| Event::Ready(pod, false)).collect();
        let done: Vec<Event> = [Event::Blip(false)].into_iter().chain((0..count).map(Event::Done)).chain(broken).collect();
        let ends = (0..3 * count + 2).any(|_| step(&done, &mut namespace, &mut away));
        prop_assert!(ends, "stuck");
    }
}
