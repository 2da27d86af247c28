//! Budgets: what PodTransitionRules do to a rollout.

use std::time::Duration;

use anyhow::ensure;
use hitless_e2e::app::{PATIENCE, Shape, condition, image_of};
use hitless_e2e::stack::echo_image;
use hitless_e2e::watch::Objects;
use hitless_e2e::{App, Stack};
use serde_json::{Value, json};

fn start(namespace: &str, replicas: u32) -> anyhow::Result<App> {
    App::start(&Stack::attach()?.cluster, namespace, &Shape { replicas, ..Shape::default() })
}

fn rule(name: &str, selector: &Value, policy: &Value) -> Value {
    json!({"apiVersion": "apps.kusionstack.io/v1alpha1", "kind": "PodTransitionRule", "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": selector}, "rules": [{"name": "budget", "availablePolicy": policy}]}})
}

/// How many pods are out of service at the same time.
fn out_of_service(pods: &Objects) -> usize {
    pods.values().filter(|pod| condition(pod, "hitless.dev/InService") == Some("False")).count()
}

/// Follows a rollout to v2 until all pods have it, or until two are out of service at once.
fn more_than_one_is_ever_out(app: &App) -> anyhow::Result<bool> {
    app.pods.wait("the rollout to end", PATIENCE, |pods| {
        let over = out_of_service(pods) > 1;
        let done = pods.values().all(|pod| image_of(pod) == echo_image("v2"));
        (over || done).then_some(over)
    })
}

#[test]
fn a_rule_that_can_never_pass_moves_nothing_and_is_named() -> anyhow::Result<()> {
    let app = start("t-rule-never", 3)?;
    app.apply_rule(&rule("never", &json!({"app": "web"}), &json!({"maxUnavailableValue": 0})))?;
    app.set_version("v2")?;
    app.wait_held()?;
    // While the image is brought to the nodes an Event may say that.
    app.wait_event_saying("RolloutBlocked", "never/budget")?;
    let moved = app.pods.never(Duration::from_secs(5), |pods| {
        pods.values()
            .any(|pod| image_of(pod) != echo_image("v1") || condition(pod, "Ready") != Some("True"))
            .then_some(())
    });
    ensure!(moved.is_none(), "a pod moved although the budget is 0");
    Stack::attach()?.wait_says(&app, &["status"], &["never/budget"])?;
    app.kubectl.run(&["delete", "podtransitionrule", "never"])?;
    app.rollout_status()?;
    app.wait_version("v2", 3)
}

#[test]
fn a_budget_that_cannot_be_read_lets_nobody_go_and_says_so() -> anyhow::Result<()> {
    let app = start("t-budget-unreadable", 1)?;
    // The API server's check of times takes any offset.
    let blackouts = json!([{"start": "2026-01-01T00:00:00+99:00", "end": "2026-01-02T00:00:00Z"}]);
    let budget = json!({"apiVersion": "hitless.dev/v1alpha1", "kind": "TransitionBudget", "metadata": {"name": "freeze"},
        "spec": {"selector": {}, "blackouts": blackouts}});
    app.kubectl.feed(&["apply"], &budget)?;
    app.set_version("v2")?;
    for reason in ["RolloutBlocked", "InvalidSpec"] {
        app.wait_event_saying(reason, "spec.blackouts[0].start can't be read")?;
    }
    ensure!(app.pods.objects().values().all(|pod| image_of(pod) == echo_image("v1")), "a pod moved");
    app.kubectl.run(&["delete", "transitionbudget", "freeze"])?;
    app.rollout_status()?;
    app.wait_version("v2", 1)
}

#[test]
fn a_rule_that_selects_nobody_leaves_the_implicit_budget() -> anyhow::Result<()> {
    let app = start("t-rule-nobody", 3)?;
    app.apply_rule(&rule("nobody", &json!({"app": "other"}), &json!({"maxUnavailableValue": 0})))?;
    app.set_version("v2")?;
    let over = more_than_one_is_ever_out(&app)?;
    ensure!(!over, "25 % of 3, at least 1, is 1, but more were out of service");
    app.rollout_status().map(drop)
}

#[test]
fn of_two_rules_on_the_same_pods_the_stricter_one_decides() -> anyhow::Result<()> {
    let app = start("t-rule-two", 4)?;
    app.apply_rule(&rule("loose", &json!({"app": "web"}), &json!({"maxUnavailableValue": "100%"})))?;
    app.apply_rule(&rule("strict", &json!({"app": "web"}), &json!({"minAvailableValue": 3})))?;
    app.set_version("v2")?;
    let over = more_than_one_is_ever_out(&app)?;
    ensure!(!over, "minAvailable 3 of 4 allows one at a time, but more were out of service");
    app.rollout_status().map(drop)
}

#[test]
fn a_wider_budget_operates_several_pods_at_a_time() -> anyhow::Result<()> {
    // Two agents need not be equally quick, so a pod is out for longer than one of them may stand still.
    let shape = Shape { replicas: 4, ..Shape::default() }.out_for(5);
    let app = App::start(&Stack::attach()?.cluster, "t-rule-wide", &shape)?;
    app.apply_rule(&rule("half", &json!({"app": "web"}), &json!({"maxUnavailableValue": "50%"})))?;
    let mut pods = app.pods.follow();
    app.set_version("v2")?;
    pods.wait("two pods out of service at once", PATIENCE, |pods| (out_of_service(pods) == 2).then_some(()))?;
    app.rollout_status()?;
    app.wait_version("v2", 4)
}

#[test]
fn an_impossible_value_is_rejected_by_the_api_server() -> anyhow::Result<()> {
    let app = start("t-rule-bad", 1)?;
    for value in [json!("150%"), json!("half"), json!(-1), json!("5"), json!(2_147_483_648_u64)] {
        let object = rule("bad", &json!({"app": "web"}), &json!({"maxUnavailableValue": value}));
        let error = app.kubectl.feed(&["apply"], &object).err().map(|error| error.to_string()).unwrap_or_default();
        ensure!(
            error.contains("maxUnavailableValue") && error.contains("should "),
            "{value} was answered by: {error:?}"
        );
    }
    let unknown = json!({"apiVersion": "apps.kusionstack.io/v1alpha1", "kind": "PodTransitionRule", "metadata": {"name": "unknown"},
        "spec": {"selector": {}, "rules": [{"name": "r", "maxUnavailable": 1}]}});
    let error = app.kubectl.feed(&["apply"], &unknown).err().map(|error| error.to_string()).unwrap_or_default();
    ensure!(error.contains("unknown field"), "an unknown field was answered by: {error:?}");
    Ok(())
}

#[test]
fn a_drain_annotation_that_cannot_be_read_blocks_and_is_named() -> anyhow::Result<()> {
    let template = json!({"metadata": {"annotations": {"hitless.dev/drain": "{\"minSecond\":3}"}}});
    let shape = Shape { patch: json!({"spec": {"template": template}}), ..Shape::default() };
    let app = App::start(&Stack::attach()?.cluster, "t-bad-drain", &shape)?;
    let early = app.wait_event("InvalidDrain")?;
    ensure!(early.contains("minSecond"), "before anything is wished the Event says: {early}");
    app.set_version("v2")?;
    let note = app.wait_event_saying("RolloutBlocked", "minSecond")?;
    ensure!(note.contains("hitless.dev/drain"), "the Event does not say where it is wrong: {note}");
    ensure!(app.pods.objects().values().all(|pod| image_of(pod) == echo_image("v1")), "a pod moved");
    Ok(())
}
