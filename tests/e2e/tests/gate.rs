//! The gate on a real cluster: rules that overlap, approvers, windows, budgets of the whole cluster, disruption budgets, checks
//! before a pod returns; and what `kubectl hitless why` says of each.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use hitless_e2e::app::{OWN, PATIENCE, Shape, all_ready, condition, image_of, is_ready};
use hitless_e2e::approver::{Approver, Manner};
use hitless_e2e::stack::echo_image;
use hitless_e2e::watch::Objects;
use hitless_e2e::{App, Stack, Watch};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

fn start(stack: &Stack, namespace: &str, replicas: u32) -> anyhow::Result<App> {
    App::start(&stack.cluster, namespace, &Shape { replicas, ..Shape::default() })
}

fn rule(name: &str, rules: &Value) -> Value {
    json!({"apiVersion": "apps.kusionstack.io/v1alpha1", "kind": "PodTransitionRule", "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "rules": rules}})
}

fn budget(name: &str, spec: &Value) -> Value {
    let mut object = json!({"apiVersion": "hitless.dev/v1alpha1", "kind": "TransitionBudget", "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": "web"}}}});
    for (field, value) in spec.as_object().into_iter().flatten() {
        object["spec"][field] = value.clone();
    }
    object
}

fn out_of_service(pods: &Objects) -> usize {
    pods.values().filter(|pod| condition(pod, "hitless.dev/InService") == Some("False")).count()
}

fn all_on(pods: &Objects, version: &str) -> bool {
    pods.values().all(|pod| image_of(pod) == echo_image(version) && is_ready(pod))
}

/// Waits until `why` says all of this: its words change with what the controller has seen, and before that the image may have to be
/// fetched.
fn wait_why(stack: &Stack, app: &App, words: &[&str]) -> anyhow::Result<()> {
    let text = stack.wait_says(app, &["why", "deployment/web"], words)?;
    // Shown by `--nocapture`.
    println!("kubectl hitless why deployment/web -n {}\n{text}", app.kubectl.namespace());
    Ok(())
}

/// Nothing of the rollout to v2 has happened to any pod, and does not within three seconds.
fn nothing_moves(app: &App) -> anyhow::Result<()> {
    let moved = app.pods.never(Duration::from_secs(3), |pods| (!all_on(pods, "v1")).then_some(()));
    ensure!(moved.is_none(), "a pod moved");
    Ok(())
}

#[test]
fn rules_that_would_wait_for_each_other_do_not() -> anyhow::Result<()> {
    let stack = Stack::attach()?;
    let app = start(&stack, "t-gate-overlap", 4)?;
    // With a place held in one while it waits for the other, two pods would block each other for ever.
    for name in ["left", "right"] {
        let one = json!([{"name": "one", "availablePolicy": {"maxUnavailableValue": 1}}]);
        app.apply_rule(&rule(name, &one))?;
    }
    app.set_version("v2")?;
    app.pods.wait("a pod out of service", PATIENCE, |pods| (out_of_service(pods) == 1).then_some(()))?;
    // It names who holds the budget, too.
    wait_why(&stack, &app, &["- left/one: at most 1 of 4 pods", "- right/one: at most 1 of 4 pods", "eserved"])?;
    let over = app.pods.wait("the rollout to end", PATIENCE, |pods| {
        let over = out_of_service(pods) > 1;
        (over || all_on(pods, "v2")).then_some(over)
    })?;
    ensure!(!over, "two pods were out of service at once");
    app.rollout_status().map(drop)
}

#[test]
fn an_approver_that_is_dead_refuses_and_takes_its_time() -> anyhow::Result<()> {
    let stack = Stack::attach()?;
    let app = start(&stack, "t-gate-approver", 3)?;
    let approver = Approver::start(&stack.cluster, Manner::Dead)?;
    let webhook = json!({"clientConfig": {"url": approver.url, "caBundle": approver.ca_bundle}});
    app.apply_rule(&rule("change", &json!([{"name": "board", "webhook": webhook}])))?;
    app.apply_rule(&rule("budget", &json!([{"name": "one", "availablePolicy": {"maxUnavailableValue": 1}}])))?;
    app.set_version("v2")?;
    app.wait_held()?;
    // It is named by the administrator and no Service of this namespace, so nobody but the log says what became of the request.
    wait_why(&stack, &app, &["change/board", "can't be asked", "no usable answer"])?;
    nothing_moves(&app)?;
    approver.set(Manner::Refuses("frozen until the audit is over".to_owned()));
    wait_why(&stack, &app, &["change/board", "frozen until the audit is over"])?;
    nothing_moves(&app)?;
    approver.set(Manner::Approves(Duration::from_secs(2)));
    let early = app.pods.wait("the rollout to end", PATIENCE, |pods| {
        // Whoever is out of service has been approved.
        let passed = approver.approved();
        let early = pods
            .iter()
            .any(|(name, pod)| condition(pod, "hitless.dev/InService") == Some("False") && !passed.contains(name));
        (early || all_on(pods, "v2")).then_some(early)
    })?;
    ensure!(!early, "a pod went that the approver had not let go: {:?}", approver.approved());
    let mut passed = approver.approved();
    passed.sort();
    passed.dedup();
    let pods: Vec<String> = app.pods.objects().keys().cloned().collect();
    ensure!(passed == pods, "approved were {passed:?}, but the pods are {pods:?}");
    app.rollout_status().map(drop)
}

#[test]
fn only_services_of_the_rules_namespace_are_asked_where_nobody_names_others() -> anyhow::Result<()> {
    let stack = Stack::attach()?;
    let app = start(&stack, "t-gate-reach", 2)?;
    let nodes = stack.system().list(&["nodes"])?;
    let own = stack.cluster.control_plane().to_string();
    let addresses = nodes.iter().flat_map(|node| node["status"]["addresses"].as_array().into_iter().flatten());
    let mut addresses =
        addresses.filter(|each| each["type"] == "InternalIP").filter_map(|each| each["address"].as_str());
    let node: IpAddr = addresses.find(|each| *each != own).context("no node but the control plane")?.parse()?;
    let ask = |url: &str| {
        let webhook = json!({"clientConfig": {"url": url}});
        app.apply_rule(&rule("change", &json!([{"name": "board", "webhook": webhook}])))
    };
    let kubelet = SocketAddr::new(node, 10250);
    ask(&format!("https://{kubelet}/pods"))?;
    app.set_version("v2")?;
    app.wait_held()?;
    wait_why(&stack, &app, &["change/board", &kubelet.to_string(), "add", "HITLESS_APPROVERS"])?;
    // Whether there is such a Service is not said either.
    for service in ["kube-dns.kube-system.svc", "absent.t-gate-other.svc"] {
        ask(&format!("http://{service}/"))?;
        wait_why(&stack, &app, &["change/board", &format!("to add {service} to that setting"), "hitless-controller"])?;
    }
    ask("http://web.t-gate-reach.svc/")?;
    wait_why(&stack, &app, &["change/board", "the answer is"])?;
    nothing_moves(&app)
}

#[test]
fn selectors_that_nobody_understands_are_refused() -> anyhow::Result<()> {
    let stack = Stack::attach()?;
    let kubectl = stack.system().in_namespace("default");
    let objects = |selector: &Value| {
        let object = |api: &str, kind: &str, spec: Value| json!({"apiVersion": api, "kind": kind, "metadata": {"name": "bad"}, "spec": spec});
        let within = json!([{"name": "a", "filter": {"labelSelector": selector}, "labelCheck": {"requires": {"matchLabels": {"a": "b"}}}}]);
        let required = json!([{"name": "a", "labelCheck": {"requires": selector}}]);
        [
            object("hitless.dev/v1alpha1", "TransitionBudget", json!({"selector": selector, "paused": true})),
            object("hitless.dev/v1alpha1", "DrainPolicy", json!({"selector": selector, "mode": "Leave"})),
            object("apps.kusionstack.io/v1alpha1", "PodTransitionRule", json!({"selector": selector, "rules": []})),
            object("apps.kusionstack.io/v1alpha1", "PodTransitionRule", json!({"selector": {}, "rules": within})),
            object("apps.kusionstack.io/v1alpha1", "PodTransitionRule", json!({"selector": {}, "rules": required})),
            object("apps.kusionstack.io/v1alpha1", "PodDecoration", json!({"selector": selector, "template": {}})),
        ]
    };
    let create = |object: &Value| kubectl.feed(&["create", "--dry-run=server"], object);
    for (requirement, words) in [
        (json!({"key": "app", "operator": "in", "values": ["web"]}), "Unsupported value: \"in\""),
        (json!({"key": "app", "operator": "NotIn"}), "need values"),
        (json!({"key": "app", "operator": "In", "values": []}), "need values"),
        (json!({"key": "app", "operator": "Exists", "values": ["web"]}), "take no values"),
    ] {
        for object in objects(&json!({"matchExpressions": [requirement]})) {
            let said = create(&object).err().with_context(|| format!("it is taken: {object}"))?;
            ensure!(format!("{said:#}").contains(words), "{object}: {said:#}");
        }
    }
    let right = json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}, {"key": "b", "operator": "DoesNotExist"}]});
    for object in objects(&right) {
        create(&object)?;
    }
    Ok(())
}

#[test]
fn outside_its_window_a_rollout_waits_and_says_until_when() -> anyhow::Result<()> {
    let stack = Stack::attach()?;
    let app = start(&stack, "t-gate-window", 2)?;
    let at = |hours: i64| {
        let time = Timestamp::now().saturating_add(SignedDuration::from_hours(hours)).unwrap_or_default();
        time.strftime("%H:%M").to_string()
    };
    let later = json!({"windows": [{"start": at(2), "end": at(3), "timeZone": "UTC"}]});
    app.kubectl.feed(&["apply"], &budget("night", &later))?;
    app.set_version("v2")?;
    app.wait_held()?;
    wait_why(&stack, &app, &["- budget:night/windows: no window is open; the next one opens at"])?;
    nothing_moves(&app)?;
    let frozen = Timestamp::now().saturating_add(SignedDuration::from_hours(1))?;
    let blackout = json!({"windows": [{"start": at(-1), "end": at(1)}],
        "blackouts": [{"start": "2026-01-01T00:00:00.000000Z", "end": format!("{frozen:.6}"), "reason": "holidays"}]});
    app.kubectl.feed(&["apply"], &budget("night", &blackout))?;
    wait_why(&stack, &app, &["budget:night/windows", "holidays"])?;
    nothing_moves(&app)?;
    let now = json!({"windows": [{"start": at(-1), "end": at(1)}]});
    app.kubectl.feed(&["apply"], &budget("night", &now))?;
    app.rollout_status()?;
    app.wait_version("v2", 2)
}

/// Brings both applications, whose pods have the label `wide`, to v2. One watch sees the pods of both: of two, one may be behind, and
/// its pod be back already when it still shows it out of service.
fn never_two_at_once(stack: &Stack, apps: &[App; 2]) -> anyhow::Result<()> {
    let watch = Watch::start(&stack.system(), &["pods", "--all-namespaces", "-l", &format!("wide,{OWN}")])?;
    watch.wait("the pods of both", PATIENCE, |pods| all_ready(pods, 4).then_some(()))?;
    let mut pods = watch.follow();
    apps.iter().try_for_each(|app| app.set_version("v2"))?;
    let over = pods.wait("both rollouts to end", PATIENCE, |pods| {
        let over = out_of_service(pods) > 1;
        (over || all_on(pods, "v2")).then_some(over)
    })?;
    ensure!(!over, "two pods were out of service at once");
    Ok(())
}

#[test]
fn a_budget_of_the_whole_cluster_holds_across_namespaces() -> anyhow::Result<()> {
    let stack = Stack::attach()?;
    let labels = json!({"spec": {"template": {"metadata": {"labels": {"wide": "yes"}}}}});
    let shape = Shape { replicas: 2, patch: labels, ..Shape::default() };
    let apps =
        [App::start(&stack.cluster, "t-gate-wide-a", &shape)?, App::start(&stack.cluster, "t-gate-wide-b", &shape)?];
    let one = json!({"scope": "Cluster", "selector": {"matchLabels": {"wide": "yes"}}, "maxConcurrent": 1});
    stack.system().feed(&["apply"], &budget("one", &one))?;
    let both = never_two_at_once(&stack, &apps);
    // Other tests' rollouts do not wait for a budget that a failed test has left.
    let deleted = stack.system().run(&["delete", "transitionbudget", "one"]);
    both?;
    deleted?;
    for app in &apps {
        app.rollout_status()?;
    }
    // Places are given back when the last operation has ended, and who tells of its end does not wait for that.
    Watch::start(&stack.system(), &["transitionledgers"])?.wait("no place to be left", PATIENCE, |ledgers| {
        (ledgers.get("cluster")?["spec"]["reservations"] == json!({})).then_some(())
    })
}

#[test]
fn a_disruption_budget_is_never_taken_below_its_bound() -> anyhow::Result<()> {
    let stack = Stack::attach()?;
    let app = start(&stack, "t-gate-pdb", 3)?;
    let pdb = |min: u8| {
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": min}})
    };
    app.kubectl.feed(&["apply"], &pdb(3))?;
    // Else a companion pod would serve meanwhile (tests/companion.rs).
    app.kubectl.run(&["annotate", "deployment/web", "hitless.dev/companion=Never"])?;
    app.set_version("v2")?;
    app.wait_held()?;
    wait_why(&stack, &app, &["- pdb:web: at least 3 of 3 pods have to be available", "waiting alone does not help"])?;
    nothing_moves(&app)?;
    app.kubectl.feed(&["apply"], &pdb(2))?;
    app.rollout_status()?;
    app.wait_version("v2", 3)
}

#[test]
fn an_operated_pod_returns_only_after_its_post_check() -> anyhow::Result<()> {
    let stack = Stack::attach()?;
    let app = start(&stack, "t-gate-post", 2)?;
    let checked = json!([{"name": "checked", "stage": "PostCheck", "labelCheck": {"requires": {"matchLabels": {"checked": "yes"}}}}]);
    app.apply_rule(&rule("smoke", &checked))?;
    app.set_version("v2")?;
    let is_new = |pod: &Value| image_of(pod) == echo_image("v2");
    for number in 1..=2 {
        let name = app.pods.wait("an operated pod out of service", PATIENCE, |pods| {
            let waits = |pod: &Value| {
                is_new(pod)
                    && condition(pod, "ContainersReady") == Some("True")
                    && condition(pod, "hitless.dev/InService") == Some("False")
            };
            pods.iter().find(|(_, pod)| waits(pod)).map(|(name, _)| name.clone())
        })?;
        let back = app.pods.never(Duration::from_secs(3), |pods| {
            (condition(pods.get(&name)?, "hitless.dev/InService") == Some("True")).then_some(())
        });
        ensure!(back.is_none(), "{name} returned without its check");
        app.kubectl.run(&["label", "pod", &name, "checked=yes"])?;
        app.wait_version("v2", number)?;
    }
    app.rollout_status().map(drop)
}
