//! `kubectl delete -k manifests` in mid-rollout leaves nothing stuck, and nobody without a pod that serves.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::ensure;
use hitless_e2e::app::{self, COMPANIONS, Identity, PATIENCE, Shape, condition};
use hitless_e2e::volumes::{self, Volumes};
use hitless_e2e::watch::States;
use hitless_e2e::{App, Stack, Watch};
use serde_json::{Value, json};

/// One after the other: there is one installation to remove. In this order, because an API server does not find the parameters of a policy
/// about Deployments any more that was deleted and made anew, so no companion pod is let in after that (manifests/README.md).
#[test]
fn after_an_uninstall_nothing_is_held_out_of_service_or_stuck_also_where_the_namespace_stays() -> anyhow::Result<()> {
    without_a_controller()?;
    replaced_in_the_foreground()?;
    with_its_namespace()?;
    without_its_namespace()
}

/// A CollaSet with one pod and one claim, which is to outlive it.
fn with_a_claim(stack: &Stack, name: &str) -> anyhow::Result<(App, Volumes)> {
    let policy = json!({"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"}});
    let spec = json!({"volumeClaimTemplates": volumes::templates(name, "1Gi"), "scaleStrategy": policy});
    let shape = Shape { patch: json!({"spec": spec}), ..Shape::colla_set(1) };
    let app = App::create(&stack.cluster, name, &shape)?;
    let volumes = Volumes::make(&app.kubectl, name, &["1Gi"])?;
    app.wait_ready(1)?;
    Ok((app, volumes))
}

/// The guard is installed, and nobody is there who takes the finalizer of a CollaSet off: its namespace can be deleted all the same.
fn without_a_controller() -> anyhow::Result<()> {
    let stack = Stack::attach()?;
    let (mut app, _volumes) = with_a_claim(&stack, "t-uninstall-nobody")?;
    stack.scale_controller(0)?;
    let outcome = (|| {
        let namespace = app.kubectl.namespace().to_owned();
        app.kubectl.run(&["delete", "namespace", &namespace, "--wait=false"])?;
        let sets = Watch::start(&app.kubectl, &["collasets"])?;
        sets.wait("a CollaSet that is being deleted", PATIENCE, |sets| {
            sets.get("web")?["metadata"]["deletionTimestamp"].is_string().then_some(())
        })?;
        let doctor = stack.hitless_output(&app, &["doctor"])?;
        let words = String::from_utf8_lossy(&doctor.stdout).into_owned();
        ensure!(
            words.contains("t-uninstall-nobody/web") && words.contains("kubectl hitless cleanup -A --yes"),
            "{words}"
        );
        stack.hitless(&app, &["cleanup", "--yes"])?;
        app.kubectl.run(&["wait", &format!("namespace/{namespace}"), "--for=delete", "--timeout=120s"])?;
        app.keep();
        Ok(())
    })();
    stack.scale_controller(2)?;
    outcome
}

/// After an uninstall: everything is as it was, and can be deleted.
fn ensure_kept(app: &App, before: &[Identity]) -> anyhow::Result<()> {
    const DEFINITION: &str = "collasets.apps.kusionstack.io";
    let kubectl = &app.kubectl;
    let is_kept = || -> anyhow::Result<()> {
        let claims = kubectl.list(&["persistentvolumeclaims"])?;
        let is_there =
            |claim: &Value| claim["status"]["phase"] == "Bound" && claim["metadata"]["deletionTimestamp"].is_null();
        ensure!(claims.len() == 1 && claims.iter().all(is_there), "{claims:?}");
        Ok(())
    };
    is_kept()?;
    let set = kubectl.get(&["collaset", "web"])?;
    ensure!(set["metadata"]["finalizers"].is_null() && set["metadata"]["deletionTimestamp"].is_null(), "{set}");
    ensure!(app.identities() == before, "the pods are {:?}", app.identities());
    let refused = kubectl.refused(&["delete", "crd", DEFINITION])?;
    ensure!(
        refused.contains("kubectl get collasets.apps.kusionstack.io -A")
            && refused.contains("hitless.dev/delete=confirmed"),
        "{refused}"
    );
    kubectl.run(&["annotate", "crd", DEFINITION, "hitless.dev/delete=confirmed"])?;
    kubectl.run(&["delete", "crd", DEFINITION, "--wait=true", "--timeout=60s"])?;
    app.pods.wait("the pods to go with the definition", PATIENCE, |pods| pods.is_empty().then_some(()))?;
    is_kept()
}

/// A Deployment of the controller that goes and comes back is no uninstall: what is held stays held.
fn replaced_in_the_foreground() -> anyhow::Result<()> {
    let stack = Stack::attach()?;
    let app = App::start(&stack.cluster, "t-uninstall-replace", &Shape::default())?;
    let budget = json!({"apiVersion": "hitless.dev/v1alpha1", "kind": "TransitionBudget", "metadata": {"name": "freeze"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "paused": true}});
    app.kubectl.feed(&["apply"], &budget)?;
    app.set_version("v2")?;
    app.wait_held()?;
    let before = app.identities();
    // All that there is meanwhile counts, not only how it ends.
    let let_go = Arc::new(AtomicBool::new(false));
    let noted = Arc::clone(&let_go);
    let workloads = Watch::start_seeing(&app.kubectl, &["deployments"], move |event| {
        noted.fetch_or(event["object"]["spec"]["paused"] != true, Ordering::Relaxed);
    })?;
    workloads.wait("the Deployment", PATIENCE, |seen| (!seen.is_empty()).then_some(()))?;
    stack.replace_controller_in_foreground()?;
    ensure!(!let_go.load(Ordering::Relaxed), "the hold was lifted");
    ensure!(app.identities() == before, "pods were replaced");
    app.kubectl.run(&["delete", "transitionbudget/freeze"])?;
    app.rollout_status()?;
    app.wait_version("v2", 3)
}

fn with_its_namespace() -> anyhow::Result<()> {
    let stack = Stack::attach()?;
    let (set, _volumes) = with_a_claim(&stack, "t-uninstall-set")?;
    let set_pods = set.identities();
    let app = App::start(&stack.cluster, "t-uninstall", &Shape::default())?;
    let single =
        App::start(&stack.cluster, "t-uninstall-companion", &Shape { replicas: 1, mode: None, ..Shape::default() })?;
    let single_serves = Serving::watch(&single)?;
    // Its only pod would be away for longer than clients can be held, so a companion pod serves meanwhile.
    stack.push_echo("echo", "slower", &[("START_DELAY", "8000")], None)?;
    let mut single_pods = single.pods.follow();
    single.set_version("slower")?;
    single_serves.watch.wait("a companion pod in service", PATIENCE, |pods| {
        pods.values()
            .any(|pod| is_companion(pod) && condition(pod, "hitless.dev/InService") == Some("True"))
            .then_some(())
    })?;
    // It is back after some seconds, so it is looked at before anything else takes time.
    wait_out(&mut single_pods)?;
    let mut pods = app.pods.follow();
    app.set_version("v2")?;
    wait_out(&mut pods)?;
    stack.uninstall()?;
    let outcome = (|| {
        for app in [&app, &single] {
            app.wait_unheld()?;
            app.rollout_status()?;
        }
        ensure_kept(&set, &set_pods)?;
        app.pods.wait("every pod to be ready", PATIENCE, |pods| app::all_ready(pods, 3).then_some(()))?;
        single_serves
            .watch
            .wait("no companion pod", PATIENCE, |pods| (!pods.values().any(is_companion)).then_some(()))?;
        single_serves.ensure_always()?;
        // A template change now rolls natively, and new pods are not gated.
        let before = app.identities();
        app.set_version("v3")?;
        app.rollout_status()?;
        app.wait_version("v3", 3)?;
        app.wait_replaced(&before)?;
        let finalizers = app.kubectl.run(&[
            "get",
            "deployments,replicasets,pods",
            "-o",
            "jsonpath={.items[*].metadata.finalizers}",
        ])?;
        ensure!(finalizers.trim().is_empty(), "finalizers are left over: {finalizers}");
        Ok(())
    })();
    stack.install()?;
    outcome
}

/// Nothing of ours stays where the Namespace does, and what a killed controller leaves is cleaned up.
fn without_its_namespace() -> anyhow::Result<()> {
    let stack = Stack::attach()?;
    let app = App::start(&stack.cluster, "t-uninstall-helm", &Shape::default())?;
    let single = App::start(&stack.cluster, "t-uninstall-hold", &Shape { replicas: 1, ..Shape::default() }.holding())?;
    let services = Watch::start(&single.kubectl, &["services"])?;
    let refused = stack.hitless_output(&app, &["cleanup", "--yes"])?;
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    ensure!(refused.status.code() == Some(1) && words.contains("runs and looks after all this"), "{words}");
    // Ready only after the controllers have been told to stop, so its Service is open then.
    stack.push_echo("echo", "slow-again", &[("START_DELAY", "8000")], None)?;
    let (mut states, mut pods) = (services.follow(), app.pods.follow());
    single.set_version("slow-again")?;
    app.set_version("v2")?;
    wait_out(&mut pods)?;
    states.wait("an open Service", PATIENCE, |services| services.values().any(app::is_opened).then_some(()))?;
    stack.uninstall_keeping_namespace()?;
    let outcome = (|| {
        for app in [&app, &single] {
            app.wait_unheld()?;
            app.rollout_status()?;
        }
        app.pods.wait("every pod to be ready", PATIENCE, |pods| app::all_ready(pods, 3).then_some(()))?;
        services.wait("a closed Service", PATIENCE, |services| services.values().all(app::is_closed).then_some(()))?;
        // The account of the uninstall is what a controller takes away last.
        for what in ["serviceaccount", "clusterrole", "clusterrolebinding"] {
            let account = format!("{what}/hitless-uninstall");
            stack.system().run(&["wait", &account, "--for=delete", "--timeout=120s"])?;
        }
        leave_behind(&app)?;
        let found = stack.hitless_output(&app, &["cleanup"])?;
        let words = String::from_utf8_lossy(&found.stdout).into_owned();
        ensure!(found.status.code() == Some(1), "{words}");
        for left in ["Deployment t-uninstall-helm/web", "Service t-uninstall-helm/web", "back in service", "ReplicaSet"]
        {
            ensure!(words.contains(left), "{left} is not in:\n{words}");
        }
        stack.hitless(&app, &["cleanup", "--yes"])?;
        app.wait_unheld()?;
        app.pods.wait("every pod to be ready", PATIENCE, |pods| app::all_ready(pods, 4).then_some(()))?;
        let words = stack.hitless(&app, &["cleanup"])?;
        ensure!(words.contains("nothing is left"), "{words}");
        Ok(())
    })();
    stack.install()?;
    outcome
}

/// What a controller leaves that is killed in mid-rollout, and that nobody starts again.
fn leave_behind(app: &App) -> anyhow::Result<()> {
    let kubectl = &app.kubectl;
    kubectl.run(&["annotate", "deployment/web", "hitless.dev/rollout=held"])?;
    kubectl.run(&["rollout", "pause", "deployment/web"])?;
    kubectl.run(&["label", "replicasets", "--all", "hitless.dev/live=true", "--overwrite"])?;
    kubectl.run(&["annotate", "service/web", "hitless.dev/held-by=nobody.0,false"])?;
    kubectl.run(&["patch", "service/web", "--type=merge", "-p", r#"{"spec":{"publishNotReadyAddresses":true}}"#])?;
    // Pods that were made since have no gate.
    let left = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "left", "labels": {"app": "left"}},
        "spec": {"readinessGates": [{"conditionType": "hitless.dev/InService"}],
            "containers": [{"name": "web", "image": app.image("v1")}]}});
    kubectl.feed(&["create"], &left).map(drop)
}

fn wait_out(pods: &mut States<'_>) -> anyhow::Result<()> {
    pods.wait("a pod out of service", PATIENCE, |pods| {
        pods.values().any(|pod| condition(pod, "hitless.dev/InService") == Some("False")).then_some(())
    })
}

fn is_companion(pod: &Value) -> bool {
    pod["metadata"]["labels"][COMPANIONS].is_string()
}

/// Which pods of an application serve, companion pods among them, at every moment.
struct Serving {
    watch: Watch,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    now: BTreeSet<String>,
    /// The event after which none served any more.
    none_after: Option<Value>,
}

impl Serving {
    fn watch(app: &App) -> anyhow::Result<Self> {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let noted = Arc::clone(&seen);
        let watch = Watch::start_seeing(&app.kubectl, &["pods", "-l", "app=web"], move |event| {
            noted.lock().unwrap_or_else(PoisonError::into_inner).note(event);
        })?;
        watch.wait("a pod", PATIENCE, |pods| pods.values().any(app::is_ready).then_some(()))?;
        Ok(Self { watch, seen })
    }

    fn ensure_always(&self) -> anyhow::Result<()> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        ensure!(seen.none_after.is_none(), "no pod served after {:?}", seen.none_after);
        Ok(())
    }
}

impl Seen {
    fn note(&mut self, event: &Value) {
        let pod = &event["object"];
        let Some(name) = pod["metadata"]["name"].as_str() else { return };
        let serves = event["type"] != "DELETED"
            && app::is_ready(pod)
            && condition(pod, "hitless.dev/InService") != Some("False");
        let was_there = if serves {
            self.now.insert(name.to_owned());
            true
        } else {
            self.now.remove(name)
        };
        if was_there && self.now.is_empty() {
            self.none_after.get_or_insert_with(|| event.clone());
        }
    }
}
