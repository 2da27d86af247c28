//! Containers beside the one that serves.

use hitless_api::{Grant, GrantMode};
use serde_json::json;

use crate::cluster::Cluster;
use crate::holds::{finish, turns};
use crate::node::Fate;
use crate::test_controller::TestController;

#[test]
fn what_serves_nobody_is_granted_without_a_drain_and_anew_with_one_if_the_agent_sees_otherwise() {
    let mut cluster = Cluster::new(2, 1).service("web");
    cluster.agent.features.push(Grant::UNLESS_SERVING_FEATURE.to_owned());
    let templates =
        cluster.sets.values_mut().chain([&mut cluster.deployment]).map(|object| &mut object["spec"]["template"]);
    for object in templates.chain(cluster.pods.values_mut()) {
        let app = json!({"name": "app", "image": "app:1", "ports": [{"containerPort": 80}]});
        object["spec"]["containers"].as_array_mut().unwrap().push(app);
    }
    let mut controller = TestController::new(1, &cluster);
    cluster.set_image(2);
    turns(&mut cluster, &mut controller, 6);
    assert!(!cluster.grants()[0].unless_serving, "its agent has not said that it can look");
    finish(&mut cluster, &mut controller, Fate::Done);
    cluster.set_image(3);
    turns(&mut cluster, &mut controller, 6);
    let grant = cluster.grants().pop().unwrap();
    assert!(grant.unless_serving && grant.mode == GrantMode::Hold, "{}", grant.mode_reason);
    assert!(grant.mode_reason.starts_with("ServesNobody") && grant.unless_serving, "{}", grant.mode_reason);
    assert!(cluster.agent(0, Fate::ContainerServes));
    turns(&mut cluster, &mut controller, 6);
    let again = cluster.grants().into_iter().find(|each| each.pod == grant.pod).unwrap();
    assert!(!again.unless_serving, "{}", again.mode_reason);
    finish(&mut cluster, &mut controller, Fate::Done);
    cluster.assert_at_rest();
}
