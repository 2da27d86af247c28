//! A pod that is made while the only pod of its Service is held (docs/decisions/0062-service-stays-open.md).

use crate::holds::{finish, held, turns};
use crate::node::Fate;

#[test]
fn a_service_stays_open_for_the_held_pod_though_another_one_starts_and_is_closed_once_that_pod_is_back() {
    let (mut cluster, mut controller, grant) = held(&["web"]);
    assert!(cluster.agent(0, Fate::Done), "parked, and down");
    cluster.scale(2);
    turns(&mut cluster, &mut controller, 1);
    let made = cluster.pods.keys().find(|uid| **uid != grant.pod.uid).unwrap().clone();
    cluster.set_ready(&made, false);
    turns(&mut cluster, &mut controller, 4);
    assert!(cluster.see_service("web").open, "closed, nobody would be left");
    assert!(cluster.agent(0, Fate::Done) && cluster.agent(0, Fate::Done), "patched, and back");
    turns(&mut cluster, &mut controller, 6);
    assert!(!cluster.see_service("web").open, "whatever the other one does");
    cluster.set_ready(&made, true);
    finish(&mut cluster, &mut controller, Fate::Done);
    cluster.assert_at_rest();
}
