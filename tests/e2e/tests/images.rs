//! Images that are on no node yet: nothing leaves service, and nobody is held, before the image is there.
//!
//! The kubelet pulls one image at a time, so nobody shares the nodes with a pull that takes long.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use anyhow::ensure;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hitless_cluster::Fault;
use hitless_e2e::app::{PATIENCE, Shape, is_opened};
use hitless_e2e::until::until_answered;
use hitless_e2e::{Scene, Stack, Watch};
use serde_json::{Value, json};

static NODES: RwLock<()> = RwLock::new(());

fn with_others() -> RwLockReadGuard<'static, ()> {
    NODES.read().unwrap_or_else(PoisonError::into_inner)
}

fn alone() -> RwLockWriteGuard<'static, ()> {
    NODES.write().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes of a large image's second layer.
const LARGE: usize = 2_000_000;

/// Namespace `t-images-<name>`.
fn start(name: &str, shape: Shape) -> anyhow::Result<Scene> {
    Scene::start("images", name, shape)
}

fn push_new(scene: &Scene) -> anyhow::Result<String> {
    scene.push("new", &[], None)
}

fn push_large(scene: &Scene) -> anyhow::Result<String> {
    scene.push("new", &[], Some(LARGE))
}

fn replicas(replicas: u32) -> Shape {
    Shape { replicas, ..Shape::default() }
}

#[test]
fn a_tag_that_does_not_exist_takes_nobody_out_and_a_good_one_heals_it() -> anyhow::Result<()> {
    let _nodes = with_others();
    let scene = start("bad-tag", replicas(1))?;
    scene.app.set_version("no-such-tag")?;
    scene.ensure_blocked("not found")?;
    let good = push_new(&scene)?;
    scene.app.set_version(&good)?;
    scene.finish(&good)
}

#[test]
fn a_registry_that_refuses_takes_nobody_out_and_the_rollout_starts_when_it_works_again() -> anyhow::Result<()> {
    let _nodes = with_others();
    let scene = start("refused", replicas(3))?;
    let version = push_new(&scene)?;
    let words = "the registry is being repaired";
    let refuse = Fault::Refuse { status: 503, message: words.to_owned(), heads: false };
    let fault = scene.stack.cluster.fault(&scene.repository, &refuse)?;
    scene.app.set_version(&version)?;
    scene.ensure_blocked(words)?;
    fault.clear()?;
    scene.finish(&version)
}

/// The pods' template names a Secret from the start, which is made only when the registry has asked for it.
#[test]
fn a_registry_that_wants_a_login_takes_nobody_out_and_is_given_the_pods_own() -> anyhow::Result<()> {
    let _nodes = with_others();
    let patch = json!({"spec": {"template": {"spec": {"imagePullSecrets": [{"name": "login"}]}}}});
    let scene = start("login", Shape { patch, ..replicas(2) })?;
    let version = push_new(&scene)?;
    let (user, password) = ("user", "pass");
    let login = Fault::Login { user: user.to_owned(), password: password.to_owned() };
    let fault = scene.stack.cluster.fault(&scene.repository, &login)?;
    scene.app.set_version(&version)?;
    scene.ensure_blocked("authorization")?;
    let auth = STANDARD.encode(format!("{user}:{password}"));
    let config = json!({"auths": {"hitless.test": {"username": user, "password": password, "auth": auth}}});
    scene.app.kubectl.feed(
        &["create"],
        &json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"},
            "type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": config.to_string()}}),
    )?;
    scene.finish(&version)?;
    // The registry asked for it until the end.
    fault.clear()?;
    Ok(())
}

fn policy(scene: &Scene) -> String {
    format!("images-test-{}", scene.app.kubectl.namespace())
}

/// An admission policy of somebody else for new pods of that namespace with that image; there until it is removed.
fn with_policy(scene: &Scene, kind: &str, image: &str, spec: &Value) -> anyhow::Result<()> {
    let version = if kind.starts_with("Mutating") { scene.stack.mutating_policies()? } else { None };
    let api = format!("admissionregistration.k8s.io/{}", version.unwrap_or("v1"));
    let namespace = scene.app.kubectl.namespace();
    let rules = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]);
    let mut made = json!({"apiVersion": api, "kind": kind, "metadata": {"name": policy(scene)}, "spec": spec});
    made["spec"]["matchConstraints"] = json!({"resourceRules": rules,
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}});
    made["spec"]["matchConditions"] =
        json!([{"name": "image", "expression": format!("object.spec.containers[0].image == {image:?}")}]);
    let binding = json!({"apiVersion": api, "kind": format!("{kind}Binding"), "metadata": {"name": policy(scene)},
        "spec": if kind.starts_with("Validating") { json!({"policyName": policy(scene), "validationActions": ["Deny"]}) }
            else { json!({"policyName": policy(scene)}) }});
    scene.app.kubectl.feed(&["create"], &made)?;
    scene.app.kubectl.feed(&["create"], &binding)?;
    Ok(())
}

/// Waits until the API server says that of a new pod with that image: a policy comes into force a moment after it was made.
fn wait_in_force(scene: &Scene, image: &str, words: &str) -> anyhow::Result<()> {
    until_answered(|| {
        let made = scene.app.kubectl.run(&["run", "probe", "--image", image, "--dry-run=server", "-o", "json"]);
        let said = made.unwrap_or_else(|error| format!("{error:#}"));
        ensure!(said.contains(words), "the API server says: {said}");
        Ok(())
    })
}

fn without_policy(scene: &Scene, kind: &str) -> anyhow::Result<()> {
    for kind in [format!("{kind}binding"), kind.to_owned()] {
        scene.app.kubectl.run(&["delete", &kind, &policy(scene)])?;
    }
    Ok(())
}

/// Checks of signatures often look at pods only when they are made, so a new pod of the Deployment's own has to show what they say.
#[test]
fn an_image_that_admission_refuses_in_new_pods_takes_nobody_out() -> anyhow::Result<()> {
    let _nodes = with_others();
    let scene = start("admission", replicas(2))?;
    let version = push_new(&scene)?;
    let image = scene.app.image(&version);
    let refuses = json!({"validations": [{"expression": "false", "message": "the image is not signed"}]});
    with_policy(&scene, "ValidatingAdmissionPolicy", &image, &refuses)?;
    wait_in_force(&scene, &image, "the image is not signed")?;
    scene.app.set_version(&version)?;
    println!("{}", scene.app.wait_event_saying("NativeRollout", "the image is not signed")?);
    // The ReplicaSet controller's.
    println!("{}", scene.app.wait_event_saying("FailedCreate", "the image is not signed")?);
    scene.ensure_untouched()?;
    without_policy(&scene, "validatingadmissionpolicy")
}

/// As mirrors do it.
#[test]
fn an_image_that_admission_makes_another_one_is_rolled_out_under_that_name() -> anyhow::Result<()> {
    let _nodes = with_others();
    let scene = start("rewritten", replicas(2))?;
    let (asked, given) = (push_new(&scene)?, scene.push("given", &[], None)?);
    let image = scene.app.image(&asked);
    let patch = format!(
        r#"[JSONPatch{{op: "replace", path: "/spec/containers/0/image", value: object.spec.containers[0].image.replace("{asked}", "{given}")}}]"#
    );
    let rewrites = json!({"reinvocationPolicy": "Never", "failurePolicy": "Fail",
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}]});
    with_policy(&scene, "MutatingAdmissionPolicy", &image, &rewrites)?;
    wait_in_force(&scene, &image, &given)?;
    scene.app.set_version(&asked)?;
    scene.app.wait_version(&given, 2)?;
    without_policy(&scene, "mutatingadmissionpolicy")?;
    scene.finish(&given)
}

#[test]
fn a_pull_that_is_cut_in_the_middle_is_tried_again() -> anyhow::Result<()> {
    let _nodes = alone();
    let scene = start("cut", replicas(3))?;
    let version = push_large(&scene)?;
    // Each of the two nodes gives up a pull after four of them.
    let cut = Fault::Cut { after: LARGE as u64 / 2, times: 8 };
    let fault = scene.stack.cluster.fault(&scene.repository, &cut)?;
    scene.app.set_version(&version)?;
    // The kubelet's Event: without it nothing would have been cut.
    println!("{}", scene.app.wait_event_saying("Failed", "EOF")?);
    scene.ensure_untouched()?;
    scene.finish(&version)?;
    fault.clear()?;
    Ok(())
}

#[test]
fn a_slow_pull_takes_nobody_out_and_holds_nobody_until_the_image_is_there() -> anyhow::Result<()> {
    let _nodes = alone();
    let scene = start("slow", replicas(2))?;
    let services = Watch::start(&scene.app.kubectl, &["services"])?;
    let version = push_large(&scene)?;
    // It would take a hundred seconds.
    let throttle = Fault::Throttle { bytes_per_second: LARGE as u64 / 100 };
    let fault = scene.stack.cluster.fault(&scene.repository, &throttle)?;
    scene.app.set_version(&version)?;
    scene.app.wait_held()?;
    let opened = services.never(Duration::from_secs(10), |services| services.values().any(is_opened).then_some(()));
    ensure!(opened.is_none(), "clients were held for an image that was not there");
    scene.ensure_untouched()?;
    fault.clear()?;
    scene.finish(&version)
}

/// The operation itself needs no room: the kubelet pulls while clients are held.
#[test]
fn a_quota_without_room_for_another_pod_keeps_nobody_from_the_next_version() -> anyhow::Result<()> {
    let _nodes = with_others();
    let scene = start("quota", replicas(2))?;
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "pods"}, "spec": {"hard": {"pods": "2"}}});
    let quotas = Watch::start(&scene.app.kubectl, &["resourcequotas"])?;
    scene.app.kubectl.feed(&["apply"], &quota)?;
    quotas.wait("the quota to be counted", PATIENCE, |quotas| {
        (quotas.get("pods")?["status"]["used"]["pods"] == "2").then_some(())
    })?;
    let version = push_new(&scene)?;
    scene.app.set_version(&version)?;
    println!("{}", scene.app.wait_event_saying("ImageNotFetched", "exceeded quota")?);
    scene.finish(&version)
}

/// Of a namespace with a least size for containers, and of a node that takes no new pods.
#[test]
fn a_limit_range_and_a_cordoned_node_keep_no_image_away() -> anyhow::Result<()> {
    let _nodes = alone();
    let scene = start("least", replicas(2))?;
    let least = json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "least"},
        "spec": {"limits": [{"type": "Container", "min": {"cpu": "10m", "memory": "16Mi"}}]}});
    scene.app.kubectl.feed(&["apply"], &least)?;
    let node = scene.app.kubectl.run(&["get", "pods", "-l", "app=web", "-o", "jsonpath={.items[0].spec.nodeName}"])?;
    scene.app.kubectl.run(&["cordon", node.trim()])?;
    let version = push_new(&scene)?;
    scene.app.set_version(&version)?;
    let done = scene.app.wait_version(&version, 2);
    scene.app.kubectl.run(&["uncordon", node.trim()])?;
    done?;
    scene.finish(&version)
}

/// A tag that is pushed again means other bytes; natively each node might get others.
#[test]
fn a_restart_of_a_tag_that_was_pushed_again_brings_every_pod_to_the_same_new_digest() -> anyhow::Result<()> {
    let _nodes = with_others();
    let (name, version) = ("latest", "latest");
    Stack::attach()?.push_echo(&format!("images/{name}"), version, &[], None)?;
    let scene = start(name, Shape { version, ..replicas(3) })?;
    let old = scene.app.digests()?;
    ensure!(old.len() == 1, "before the restart: {old:?}");
    let now = jiff::Timestamp::now().as_millisecond().to_string();
    let pushed = scene.stack.push_echo(&scene.repository, version, &[("BUILD", now.as_str())], None)?;
    scene.app.roll(|| scene.app.kubectl.run(&["rollout", "restart", "deployment/web"]).map(drop))?;
    let new = scene.app.digests()?;
    ensure!(new.iter().map(String::as_str).eq([pushed.as_str()]), "{old:?} became {new:?}, and {pushed} was pushed");
    scene.finish(version)
}

/// The kubelet remembers for ten minutes what a container has run, and starts the same again later and later.
#[test]
fn a_single_replica_that_goes_to_and_fro_loses_nobody() -> anyhow::Result<()> {
    let _nodes = with_others();
    let scene = start("flips", replicas(1))?;
    let other = push_new(&scene)?;
    for _ in 0..3 {
        for version in [other.as_str(), "v1"] {
            scene.app.set_version(version)?;
            scene.app.wait_version(version, 1)?;
            scene.app.wait_unheld()?;
        }
    }
    scene.finish("v1")
}
