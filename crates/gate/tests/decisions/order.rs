//! In which order candidates are decided, each step against the next one.

use hitless_gate::Candidate;

use crate::scene::Namespace;

fn order(namespace: &Namespace, candidates: &[Candidate]) -> Vec<String> {
    namespace.decide(candidates).into_iter().map(|verdict| verdict.pod).collect()
}

fn plain(name: &str) -> Candidate {
    Namespace::candidate(name)
}

#[test]
fn each_reason_counts_more_than_all_that_come_after_it() {
    // Every candidate but the last has one reason, and lacks those after it.
    let namespace = Namespace::of(6).down(&["p4"]).max(6);
    let candidates = [
        Candidate { leader: true, ..plain("p0") },
        plain("p1"),
        Candidate { preferred: true, ..plain("p2") },
        Candidate { priority: 5, leader: true, ..plain("p3") },
        Candidate { priority: -5, ..plain("p4") },
        Candidate { again: true, priority: -9, leader: true, ..plain("p5") },
    ];
    assert_eq!(order(&namespace, &candidates), ["p5", "p4", "p3", "p2", "p1", "p0"]);
}

#[test]
fn priority_decides_who_gets_the_room() {
    let namespace = Namespace::of(4).max(2);
    let candidate = |name: &str, priority| Candidate { priority, ..plain(name) };
    let verdicts =
        namespace.decide(&[candidate("p2", 0), candidate("p3", 7), candidate("p0", i32::MIN), candidate("p1", 0)]);
    let order: Vec<_> = verdicts.iter().map(|verdict| (verdict.pod.as_str(), verdict.allowed)).collect();
    assert_eq!(order, [("p3", true), ("p1", true), ("p2", false), ("p0", false)]);
    let twice = namespace.decide(&[candidate("p2", 0), candidate("p2", 1)]);
    assert_eq!(twice.len(), 1);
}

#[test]
fn equal_ones_are_spread_over_zones_and_then_over_nodes() {
    // Two in zone a on one node, one on another, one in zone b.
    let namespace = Namespace::of(4).on(&["a1", "a1", "a2", "b1"]);
    let all: Vec<Candidate> = (0..4).map(|number| plain(&format!("p{number}"))).collect();
    assert_eq!(order(&namespace, &all), ["p0", "p3", "p2", "p1"]);
    // Who goes before the others for another reason counts for its zone.
    let mut again = all;
    again[2].again = true;
    assert_eq!(order(&namespace, &again), ["p2", "p3", "p0", "p1"]);
}

#[test]
fn a_reserved_pod_keeps_the_turn_of_an_available_one_and_is_not_asked_again() {
    let namespace = Namespace::of(2).max(0).reserved(&["p0"]);
    let verdicts = namespace.all();
    assert_eq!((verdicts[0].pod.as_str(), verdicts[0].allowed, verdicts[1].allowed), ("p0", true, false));
    assert_eq!(&*verdicts[0].rules[0].rule, hitless_gate::verdict::LEDGER);
}
