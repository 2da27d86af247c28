//! §1.8: availablePolicy, with its worked values and texts.

use serde_json::{Value, json};

use crate::scene::Namespace;

#[test]
fn a_maximum_lets_so_many_go_and_a_share_rounds_up() {
    for (pods, value, allowed) in [
        (3, json!("50%"), 2),
        (4, json!("50%"), 2),
        (3, json!("10%"), 1),
        (100, json!("1%"), 1),
        (3, json!(1), 1),
        (3, json!(5), 3),
        (3, json!("100%"), 3),
        (3, json!(0), 0),
        (3, json!("0%"), 0),
    ] {
        assert_eq!(Namespace::of(pods).max(value.clone()).allowed().len(), allowed, "{value} of {pods}");
    }
}

#[test]
fn a_minimum_keeps_so_many_and_a_share_rounds_down() {
    for (pods, value, allowed) in [
        (3, json!("50%"), 2),
        (4, json!("50%"), 2),
        (3, json!(2), 1),
        (3, json!(3), 0),
        (3, json!(7), 0),
        (3, json!(0), 3),
        (3, json!("100%"), 0),
    ] {
        assert_eq!(Namespace::of(pods).min(value.clone()).allowed().len(), allowed, "{value} of {pods}");
    }
}

#[test]
fn operators_find_upstreams_texts() {
    let max = Namespace::of(4).max("50%").reserved(&["p0"]).down(&["p1"]);
    assert!(
        max.denial()
            .contains("[r] blocked by max unavailable policy: [max unavailable]=2/4, [current unavailable]=2/4")
    );
    let min = Namespace::of(4).min(3).down(&["p1"]);
    assert!(
        min.denial().contains("blocked by min available policy: [min available]=3/4, [current keep available]=3/4")
    );
}

#[test]
fn a_maximum_and_a_minimum_in_one_rule_both_hold_and_the_maximum_is_named_first() {
    let both = |max: Value, min: Value| {
        let policy = json!({"maxUnavailableValue": max, "minAvailableValue": min});
        Namespace::of(4).rule(json!({"name": "r", "availablePolicy": policy}))
    };
    assert_eq!(both(json!("75%"), json!(3)).allowed(), ["p0"]);
    assert!(both(json!("75%"), json!(3)).denial().contains("min available policy"));
    assert_eq!(both(json!(1), json!(1)).allowed(), ["p0"]);
    assert!(both(json!(0), json!(4)).denial().contains("max unavailable policy"));
}

#[test]
fn a_pod_that_is_down_or_reserved_or_both_counts_once() {
    for (down, reserved, allowed) in [
        (&["p0"][..], &[][..], &["p0", "p1"][..]),
        (&[], &["p0"], &["p0", "p1"]),
        (&["p0"], &["p0"], &["p0", "p1"]),
        (&["p0", "p1"], &["p2"], &["p0", "p2"]),
    ] {
        let namespace = Namespace::of(4).max(2).down(down).reserved(reserved);
        assert_eq!(namespace.allowed(), allowed, "down {down:?}, reserved {reserved:?}");
    }
}

#[test]
fn a_pod_that_is_down_goes_first_as_an_available_one_would_where_upstream_lets_any_number_go() {
    let verdicts = Namespace::of(4).max(1).min(3).down(&["p2"]).all();
    let order: Vec<_> = verdicts.iter().map(|verdict| (verdict.pod.as_str(), verdict.allowed)).collect();
    assert_eq!(order, [("p2", true), ("p0", false), ("p1", false), ("p3", false)]);
    assert!(!verdicts[0].rests_on_unavailability(), "there is room for it as for any other");
    for namespace in [Namespace::of(2).max(0).down(&["p0"]), Namespace::of(3).max(0).down(&["p0", "p1"])] {
        assert_eq!(namespace.allowed(), ["p0"], "one at least, and no second one");
        assert!(namespace.one("p0").rests_on_unavailability());
    }
}

#[test]
fn the_base_is_what_the_owner_desires_where_upstream_takes_the_pods_that_are_listed() {
    // Upstream: 50 % of the five that are there is 3, less one missing: 2. The same here, as 50 % of six less one.
    assert_eq!(Namespace::of(5).desired(6).max("50%").allowed().len(), 2);
    // Upstream: 50 % of the six that are still there: 3. Here 50 % of the two that are meant to be.
    assert_eq!(Namespace::of(6).desired(2).max("50%").allowed().len(), 1);
    assert_eq!(Namespace::of(6).desired(3).min("100%").allowed().len(), 3, "three more than needed");
}

#[test]
fn missing_pods_are_unavailable_as_upstream_and_shown_where_upstream_hides_them() {
    // Scaled from 3 to 6 in mid-rollout: the old three may not all go before the first new one is there.
    let scaled_up = Namespace::of(3).desired(6).max("50%");
    assert!(scaled_up.allowed().is_empty());
    assert!(
        scaled_up.denial().contains("[max unavailable]=3/6, [current unavailable]=3/6 (3 of them not created yet)")
    );
}

#[test]
fn a_rule_for_part_of_an_owner_counts_that_part_alone_where_upstream_blocks_for_ever() {
    let zone = json!({"selector": {"matchLabels": {"zone": "a"}}, "rules": [
        {"name": "half", "availablePolicy": {"maxUnavailableValue": "50%"}}]});
    let namespace = Namespace::of(9).rule_set("zone-a", zone).label("p0", "zone", "a").label("p1", "zone", "a");
    let verdicts = namespace.all();
    assert!(verdicts[0].allowed && !verdicts[1].allowed);
    assert!(verdicts[1].to_string().contains("[max unavailable]=1/2, [current unavailable]=1/2"));
    assert!(verdicts[2..].iter().all(|verdict| verdict.allowed), "no rule and no implicit budget");
}

#[test]
fn an_owner_that_is_gone_has_no_missing_pods_as_upstream() {
    let mut orphans = Namespace::of(4).desired(9).max(1);
    assert!(orphans.allowed().is_empty());
    orphans.owners.clear();
    assert_eq!(orphans.allowed(), ["p0"]);
}

#[test]
fn an_owner_without_a_number_of_replicas_counts_as_it_is_where_upstream_takes_one() {
    let mut unknown = Namespace::of(2).max("50%");
    unknown.owners.clear();
    assert_eq!(unknown.allowed(), ["p0"]);
}

#[test]
fn a_terminating_pod_is_unavailable_where_upstream_counts_it_as_available() {
    let metadata =
        json!({"name": "p0", "namespace": "default", "uid": "u", "deletionTimestamp": "2026-11-21T00:00:00Z"});
    let status = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    let mut object = json!({"metadata": metadata, "spec": {"containers": []}, "status": status});
    let available = |object: &Value| {
        let pod: k8s_openapi::api::core::v1::Pod = serde_json::from_value(object.clone()).unwrap();
        hitless_gate::PodFacts::of(&hitless_api::pod::PodView::from(&pod), None).available
    };
    assert!(!available(&object));
    object["metadata"].as_object_mut().unwrap().remove("deletionTimestamp");
    assert!(available(&object), "and one that never had upstream's label is available when it is ready");
}
