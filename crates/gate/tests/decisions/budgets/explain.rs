//! Who holds a budget, since when, and the smallest change that would unblock.

use hitless_gate::{Consumption, Reserved};
use serde_json::json;

use crate::scene::{Namespace, at};

#[test]
fn holders_are_named_the_longest_standing_first_and_those_that_go_now_last() {
    let mut namespace = Namespace::of(6).max(3).reserved(&["p1"]).down(&["p2"]);
    namespace.reserved.insert("uid-p1".into(), Reserved { since: at(50), is_over: false });
    let namespace = namespace.each(&["p2"], |pod| pod.unavailable_since = Some(at(40)));
    let verdicts = namespace.all();
    let denied = verdicts.last().unwrap().denied().next().unwrap();
    let holders: Vec<_> = denied.holders.iter().map(|holder| (holder.pod.as_str(), holder.why, holder.since)).collect();
    assert_eq!(
        holders,
        [
            ("p2", Consumption::Unavailable, Some(at(40))),
            ("p1", Consumption::Reserved, Some(at(50))),
            ("p0", Consumption::GoesNow, None),
        ]
    );
    assert_eq!(denied.since, Some(at(50)), "since then it was as full as when the round began");
}

#[test]
fn a_verdict_names_five_holders_at_most() {
    let names: Vec<String> = (0..9).map(|number| format!("p{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut namespace = Namespace::of(10).max(9).reserved(&names);
    for (second, name) in names.iter().enumerate() {
        let since = at(100 - i64::try_from(second).unwrap());
        namespace.reserved.insert(format!("uid-{name}"), Reserved { since, is_over: false });
    }
    let verdict = namespace.one("p9");
    let holders: Vec<_> = verdict.rules[0].holders.iter().map(|holder| holder.pod.as_str()).collect();
    assert_eq!(holders, ["p8", "p7", "p6", "p5", "p4"]);
}

#[test]
fn the_smallest_change_that_would_unblock_does_unblock() {
    let budget = |spec| Namespace::of(4).budget(spec).down(&["p0", "p1"]).on(&["a1", "b1", "c1"]);
    for (blocked, unblocked, says) in [
        (json!({"maxUnavailable": 1}), json!({"maxUnavailable": 3}), "raise the maximum to 3"),
        (json!({"minAvailable": 3}), json!({"minAvailable": 1}), "lower the minimum to 1"),
        (json!({"maxUnavailableNodes": 1}), json!({"maxUnavailableNodes": 3}), "raise maxUnavailableNodes to 3"),
        (
            json!({"topology": {"key": "topology.kubernetes.io/zone"}}),
            json!({"topology": {"key": "topology.kubernetes.io/zone", "maxUnavailableDomains": 3}}),
            "raise maxUnavailableDomains to 3",
        ),
        (json!({"maxConcurrent": 0}), json!({"maxConcurrent": 1}), "raise maxConcurrent"),
        (json!({"paused": true}), json!({"paused": false}), "set spec.paused to false"),
    ] {
        let verdict = budget(blocked.clone()).one("p2");
        let denied: Vec<_> = verdict.denied().collect();
        assert_eq!(denied.len(), 1, "{blocked}");
        let unblock = denied[0].unblock().unwrap();
        assert!(unblock.contains(says), "{blocked}: {unblock}");
        assert!(budget(unblocked.clone()).one("p2").allowed, "{unblocked}");
    }
}
