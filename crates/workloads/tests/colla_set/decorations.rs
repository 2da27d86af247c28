//! PodDecorations: what pods get, when it changes, and when it goes.

mod crowd;
mod partition;
mod refusals;
mod replacement;

use hitless_workloads::Plan;
use serde_json::{Value, json};

use crate::cluster::{Cluster, Seen, settle};

fn key(name: &str) -> (String, String) {
    ("PodDecoration".to_owned(), name.to_owned())
}

/// Somebody makes or changes a PodDecoration that selects all pods.
pub(crate) fn decorate(cluster: &mut Cluster, name: &str, spec: &Value) {
    let version = cluster.next_version();
    let mut object = cluster.objects.get(&key(name)).cloned().unwrap_or_else(|| {
        json!({"apiVersion": "apps.kusionstack.io/v1alpha1", "kind": "PodDecoration",
            "metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}-{version}"), "generation": 0}})
    });
    let generation = object["metadata"]["generation"].as_i64().unwrap() + 1;
    object["metadata"]["generation"] = json!(generation);
    object["metadata"]["resourceVersion"] = json!(version);
    object["spec"] = json!({"selector": {"matchLabels": {"app": "web"}}});
    for (field, value) in spec.as_object().into_iter().flatten() {
        object["spec"][field] = value.clone();
    }
    cluster.objects.insert(key(name), object);
}

/// Somebody deletes a PodDecoration.
pub(crate) fn undecorate(cluster: &mut Cluster, name: &str) {
    cluster.objects.remove(&key(name));
    cluster.collect_garbage();
}

pub(crate) fn sidecar(name: &str, image: &str) -> Value {
    json!({"template": {"containers": [{"name": name, "image": image, "injectPolicy": "AfterPrimaryContainer"}]}})
}

fn running(replicas: i64, more: &Value) -> Cluster {
    let mut cluster = Cluster::with(replicas, more);
    decorate(&mut cluster, "log", &sidecar("log", "log:v1"));
    settle(&mut cluster, true);
    cluster
}

pub(crate) fn containers(pod: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    pod["spec"]["containers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|each| (text(&each["name"]), text(&each["image"])))
        .collect()
}

/// Images of the containers of all pods with this name.
fn images(cluster: &Cluster, name: &str) -> Vec<String> {
    let all = cluster.pods().into_iter().flat_map(containers);
    let mut images: Vec<String> = all.filter(|(known, _)| known == name).map(|(_, image)| image).collect();
    images.sort_unstable();
    images
}

fn revision(cluster: &Cluster, field: &str) -> String {
    cluster.objects[&key("log")]["status"][field].as_str().unwrap_or_default().to_owned()
}

fn labels(cluster: &Cluster) -> Vec<String> {
    let label = |pod: &Value| {
        pod["metadata"]["labels"]["poddecoration.kusionstack.io/pd-log"].as_str().unwrap_or_default().to_owned()
    };
    let mut labels: Vec<String> = cluster.pods().into_iter().map(label).collect();
    labels.sort_unstable();
    labels
}

fn next(cluster: &Cluster) -> Plan {
    Seen::of(cluster).plan(&cluster.left)
}

#[test]
fn pods_are_made_with_it_and_it_reports_them() {
    let mut cluster = Cluster::with(2, &json!({}));
    decorate(&mut cluster, "log", &sidecar("log", "log:v1"));
    let mut seen = Seen::of(&cluster);
    for _ in 0..3 {
        let plan = seen.plan(&cluster.left);
        let revisions = |kind: &str| cluster.objects.keys().filter(|(known, _)| known == kind).count();
        let makes_pods = plan.writes.iter().any(|write| write.verb == "create-pod");
        assert!(!makes_pods || revisions("ControllerRevision") == 2, "no pod is made before what it gets is known");
        crate::cluster::carry_out_plan(&mut cluster, &mut seen, &plan, usize::MAX);
    }
    settle(&mut cluster, true);
    let name = revision(&cluster, "updatedRevision");
    for pod in cluster.pods() {
        assert_eq!(containers(pod), [("web".into(), "web:v1".into()), ("log".into(), "log:v1".into())]);
        let annotation = pod["metadata"]["annotations"]["poddecoration.kusionstack.io/revisions"].as_str().unwrap();
        let listed: Value = serde_json::from_str(annotation).unwrap();
        assert_eq!(listed, json!([{"name": "log", "revision": name}]));
    }
    assert_eq!(labels(&cluster), [name.as_str(); 2]);
    let status = &cluster.objects[&key("log")]["status"];
    for field in ["matchedPods", "injectedPods", "updatedPods", "updatedReadyPods", "updatedAvailablePods"] {
        assert_eq!(status[field], 2, "{field}");
    }
    assert_eq!((&status["currentRevision"], &status["observedGeneration"]), (&json!(name), &json!(1)));
    assert_eq!(status["details"][0]["collaSet"], "web");
    assert_eq!(status["details"][0]["pods"][0]["revision"], json!(name));
}

#[test]
fn another_image_of_a_sidecar_goes_in_place() {
    let mut cluster = running(2, &json!({}));
    let (before, uids) = (revision(&cluster, "updatedRevision"), cluster.uids());
    decorate(&mut cluster, "log", &sidecar("log", "log:v2"));
    settle(&mut cluster, true);
    let after = revision(&cluster, "updatedRevision");
    assert_ne!(before, after);
    assert_eq!((cluster.uids(), images(&cluster, "log")), (uids, vec!["log:v2".to_owned(); 2]));
    assert_eq!((images(&cluster, "web"), labels(&cluster)), (vec!["web:v1".to_owned(); 2], vec![after.clone(); 2]));
    for pod in cluster.pods() {
        let annotation = pod["metadata"]["annotations"]["poddecoration.kusionstack.io/revisions"].as_str().unwrap();
        assert!(annotation.contains(&after), "{annotation}");
    }
    assert_eq!(revision(&cluster, "currentRevision"), after);
}

/// Upstream's scenario "in-place update main container with sidecar".
#[test]
fn the_pods_own_container_goes_in_place_beside_a_sidecar() {
    let mut cluster = running(2, &json!({}));
    let uids = cluster.uids();
    cluster.change(|spec| spec["template"]["spec"]["containers"][0]["image"] = json!("web:v2"));
    settle(&mut cluster, true);
    assert_eq!((cluster.uids(), images(&cluster, "web")), (uids, vec!["web:v2".to_owned(); 2]));
    assert_eq!(images(&cluster, "log"), ["log:v1", "log:v1"]);
}

#[test]
fn whatever_else_differs_makes_pods_anew_once_they_have_left_service() {
    let mut cluster = running(2, &json!({}));
    let uids = cluster.uids();
    let mut spec = sidecar("log", "log:v1");
    spec["template"]["containers"][0]["env"] = json!([{"name": "A", "value": "1"}]);
    decorate(&mut cluster, "log", &spec);
    // Nobody drains them.
    settle(&mut cluster, false);
    assert_eq!(cluster.uids(), uids, "pods that serve are not deleted");
    settle(&mut cluster, true);
    assert!(cluster.uids().iter().all(|uid| !uids.contains(uid)));
    assert!(cluster.pods().iter().all(|pod| pod["spec"]["containers"][1]["env"][0]["value"] == "1"));
}

#[test]
fn once_it_is_gone_pods_are_made_anew_without_it() {
    let mut cluster = running(2, &json!({}));
    let uids = cluster.uids();
    undecorate(&mut cluster, "log");
    settle(&mut cluster, true);
    assert!(cluster.uids().iter().all(|uid| !uids.contains(uid)));
    assert_eq!((images(&cluster, "log"), labels(&cluster)), (Vec::<String>::new(), vec![String::new(); 2]));
}

#[test]
fn the_heavier_one_comes_first_and_then_the_name_decides() {
    let mut cluster = Cluster::with(1, &json!({}));
    for (name, weight) in [("b", 0), ("a", 0), ("heavy", 9)] {
        let mut spec = sidecar(name, "x:v1");
        spec["weight"] = json!(weight);
        spec["template"]["metadata"] = json!([{"labels": {"first": name}}]);
        decorate(&mut cluster, name, &spec);
    }
    settle(&mut cluster, true);
    let names: Vec<String> = containers(cluster.pods()[0]).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["web", "heavy", "a", "b"]);
    assert_eq!(cluster.pods()[0]["metadata"]["labels"]["first"], "heavy", "a value that is there is kept");
}

#[test]
fn revisions_that_nobody_uses_go_beyond_its_limit() {
    let mut cluster = running(1, &json!({}));
    for version in 2..6 {
        let mut spec = sidecar("log", &format!("log:v{version}"));
        spec["historyLimit"] = json!(1);
        decorate(&mut cluster, "log", &spec);
        settle(&mut cluster, true);
    }
    let own = cluster.objects.iter().filter(|((kind, _), object)| {
        kind == "ControllerRevision" && object["metadata"]["ownerReferences"][0]["kind"] == "PodDecoration"
    });
    assert_eq!(own.count(), 2, "the one that pods have, and one before");
}

/// A pod that is made anew has the same decorations as the one before: otherwise it would be made anew for ever.
#[test]
fn a_label_that_a_decoration_sets_selects_nobody_for_another_one_and_not_for_itself() {
    let mut cluster = Cluster::with(2, &json!({}));
    let mut team = sidecar("log", "log:v1");
    team["template"]["metadata"] =
        json!([{"patchPolicy": "Overwrite", "labels": {"team": "a", "app": "other", "kusionstack.io/control": "no"}}]);
    decorate(&mut cluster, "log", &team);
    let mut mesh = sidecar("mesh", "mesh:v1");
    mesh["selector"] = json!({"matchLabels": {"team": "a"}});
    decorate(&mut cluster, "mesh", &mesh);
    settle(&mut cluster, true);
    let uids = cluster.uids();
    assert_eq!((images(&cluster, "log").len(), images(&cluster, "mesh").len()), (2, 0));
    assert!(cluster.pods().iter().all(|pod| pod["metadata"]["labels"]["team"] == "a"));
    let labels = |pod: &&Value| pod["metadata"]["labels"]["kusionstack.io/control"] == "true";
    assert!(cluster.pods().iter().all(labels), "what is the CollaSet's stays as it is");
    assert_eq!(cluster.objects[&key("log")]["status"]["matchedPods"], 2);
    // What its template says itself selects.
    cluster.change(|spec| spec["template"]["metadata"]["labels"]["team"] = json!("a"));
    settle(&mut cluster, true);
    assert!(cluster.uids().iter().all(|uid| !uids.contains(uid)));
    assert_eq!((images(&cluster, "log").len(), images(&cluster, "mesh").len()), (2, 2));
}

/// What a pod was brought to is told by its labels: who halts a version halts this one, and not the one that corrects it.
#[test]
fn a_decoration_that_is_changed_is_another_revision_to_bring_pods_to() {
    let mut cluster = running(2, &json!({}));
    let first = next(&cluster).target;
    decorate(&mut cluster, "log", &sidecar("log", "log:bad"));
    settle(&mut cluster, false);
    let bad = next(&cluster);
    decorate(&mut cluster, "log", &sidecar("log", "log:v3"));
    settle(&mut cluster, false);
    let good = next(&cluster);
    assert!(first != bad.target && bad.target != good.target && first != good.target);
    assert!(good.leads_to(&good.target) && !good.leads_to(&bad.target));
    let to =
        |plan: &Plan| plan.desired[0].intent.as_ref().unwrap().operation.annotations["hitless.dev/revision"].to.clone();
    assert_eq!((to(&bad), to(&good)), (Some(bad.target), Some(good.target)));
}

#[test]
fn without_its_definition_or_any_of_them_nothing_is_different() {
    let mut cluster = Cluster::with(2, &json!({}));
    settle(&mut cluster, true);
    let plan = next(&cluster);
    assert!(plan.single.is_empty() && plan.behind.is_empty(), "{plan:?}");
    assert_eq!(labels(&cluster), [String::new(), String::new()]);
}
