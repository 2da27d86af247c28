//! Services that send what comes to a node to pods of that node only.

use std::collections::BTreeMap;

use hitless_api::GrantMode;
use serde_json::json;

use crate::cluster::Cluster;
use crate::holds::{finish, turns};
use crate::node::Fate;
use crate::test_controller::TestController;

#[test]
fn where_a_node_serves_itself_its_only_pod_is_held_and_the_service_open_for_it() {
    let mut cluster = Cluster::new(2, 2);
    cluster.apply_service("web", &json!({"type": "NodePort", "externalTrafficPolicy": "Local"}));
    let mut controller = TestController::new(1, &cluster);
    cluster.set_image(2);
    let mut granted = BTreeMap::new();
    for _ in 0..100 {
        turns(&mut cluster, &mut controller, 1);
        // An open Service sends connections to pods that are not Ready, so never two together.
        cluster.assert_within_budget(1);
        for grant in cluster.grants() {
            assert!(granted.contains_key(&grant.id) || cluster.see_service("web").open);
            granted.insert(grant.id.clone(), grant);
        }
        let _ = cluster.agent(0, Fate::Done);
    }
    finish(&mut cluster, &mut controller, Fate::Done);
    cluster.assert_at_rest();
    let reason = "OnlyPod: no other pod on its node serves, and Service web sends what comes to a node to pods of that node only";
    assert_eq!(granted.len(), 2);
    assert!(
        granted.values().all(|grant| grant.mode == GrantMode::Hold && grant.mode_reason.starts_with(reason)),
        "{granted:?}"
    );
}
