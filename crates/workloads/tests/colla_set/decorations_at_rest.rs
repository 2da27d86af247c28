//! PodDecorations that once made pods for ever: labels that contradict them, and revisions that are not there yet.

use hitless_workloads::{Plan, Stage};
use serde_json::{Value, json};

use crate::cluster::{Cluster, Seen, carry_out_plan, settle};
use crate::decorations::{containers, decorate, sidecar, undecorate};

const MARK: &str = "poddecoration.kusionstack.io/pd-log";

fn running(decoration: &Value) -> Cluster {
    let mut cluster = Cluster::with(2, &json!({}));
    decorate(&mut cluster, "log", decoration);
    settle(&mut cluster, true);
    cluster
}

fn next(cluster: &Cluster) -> Plan {
    Seen::of(cluster).plan(&cluster.left)
}

fn refusal(cluster: &Cluster) -> (&'static str, String) {
    let Stage::Refused(because) = next(cluster).stage else { panic!("{:?}", next(cluster).stage) };
    (because.cause.name(), because.text)
}

/// How many pods have the sidecar.
fn decorated(cluster: &Cluster) -> usize {
    cluster.pods().into_iter().filter(|pod| containers(pod).iter().any(|(name, _)| name == "log")).count()
}

#[test]
fn a_template_that_says_what_decorations_a_pod_has_is_refused() {
    let mut cluster = running(&sidecar("log", "log:v1"));
    let uids = cluster.uids();
    cluster.change(|spec| spec["template"]["metadata"]["labels"][MARK] = json!("mine"));
    settle(&mut cluster, true);
    assert_eq!(cluster.uids(), uids);
    let (reason, text) = refusal(&cluster);
    assert!(reason == "InvalidSpec" && text.contains(MARK), "{reason}: {text}");
    cluster.change(|spec| _ = spec["template"]["metadata"]["labels"].as_object_mut().unwrap().remove(MARK));
    settle(&mut cluster, true);
    assert_eq!((cluster.uids(), decorated(&cluster)), (uids, 2));
}

#[test]
fn a_decoration_that_says_what_decorations_a_pod_has_is_refused() {
    let mut cluster = running(&sidecar("log", "log:v1"));
    let uids = cluster.uids();
    let mut spec = sidecar("log", "log:v2");
    spec["template"]["metadata"] = json!([{"labels": {"poddecoration.kusionstack.io/pd-other": "x"}}]);
    decorate(&mut cluster, "log", &spec);
    settle(&mut cluster, true);
    assert_eq!(cluster.uids(), uids);
    let (reason, text) = refusal(&cluster);
    assert!(reason == "InvalidDecoration" && text.contains("pd-other"), "{reason}: {text}");
}

/// Pods of an earlier revision are made anew from that.
#[test]
fn an_earlier_revision_that_says_it_makes_pods_without_it() {
    let mut cluster =
        Cluster::with(2, &json!({"updateStrategy": {"rollingUpdate": {"byPartition": {"partition": 2}}}}));
    settle(&mut cluster, true);
    cluster.change(|spec| spec["template"]["spec"]["containers"][0]["image"] = json!("web:v2"));
    settle(&mut cluster, true);
    let pods = cluster.pod_names().into_iter().map(ToOwned::to_owned).collect::<Vec<_>>();
    let revision = cluster.pods()[0]["metadata"]["labels"]["controller-revision-hash"].as_str().unwrap().to_owned();
    let revision = cluster.objects.get_mut(&("ControllerRevision".to_owned(), revision)).unwrap();
    revision["data"]["spec"]["template"]["metadata"]["labels"][MARK] = json!("mine");
    for pod in &pods {
        cluster.label(pod, MARK, Some("mine"));
    }
    settle(&mut cluster, true);
    assert_eq!(cluster.images(), ["web:v1", "web:v1"]);
    assert!(cluster.pods().iter().all(|pod| pod["metadata"]["labels"][MARK].is_null()));
}

/// Admission labels every pod as soon as it is made: until nothing is left to do.
fn settle_admitted(cluster: &mut Cluster, label: &str) {
    for _ in 0..20 {
        let before = cluster.uids();
        settle(cluster, true);
        for pod in cluster.pod_names().into_iter().map(ToOwned::to_owned).collect::<Vec<_>>() {
            cluster.label(&pod, label, Some("a"));
        }
        if before == cluster.uids() {
            return;
        }
    }
    panic!("it never comes to rest");
}

/// A pod that is to be made has no such label, so it would be made anew for ever.
#[test]
fn a_label_that_admission_sets_selects_nobody() {
    let zone = "topology.kubernetes.io/zone";
    for (operator, count) in [("Exists", 0), ("DoesNotExist", 2)] {
        let selector = json!({"matchExpressions": [{"key": zone, "operator": operator}]});
        let mut spec = sidecar("log", "log:v1");
        spec["selector"] = selector.clone();
        let mut cluster = running(&spec);
        settle_admitted(&mut cluster, zone);
        assert_eq!(decorated(&cluster), count, "{operator}");
        let matched = &cluster.objects[&("PodDecoration".to_owned(), "log".to_owned())]["status"]["matchedPods"];
        assert_eq!(*matched, count, "{operator}");
    }
}

/// The same for those that get a changed template.
#[test]
fn a_label_that_admission_sets_opens_nothing_to_a_change() {
    let zone = "topology.kubernetes.io/zone";
    for partition in [0, 1] {
        let mut cluster = running(&sidecar("log", "log:v1"));
        settle_admitted(&mut cluster, zone);
        let uids = cluster.uids();
        let mut spec = sidecar("log", "log:v1");
        spec["template"]["containers"][0]["args"] = json!(["-v"]);
        let selector = json!({"matchLabels": {zone: "a"}});
        spec["updateStrategy"] = json!({"rollingUpdate": {"partition": partition, "selector": selector}});
        decorate(&mut cluster, "log", &spec);
        settle_admitted(&mut cluster, zone);
        assert_eq!((cluster.uids(), decorated(&cluster)), (uids, 2), "{partition}");
    }
}

/// Its pods have what it gives, and nobody knows yet that they do.
#[test]
fn one_that_is_deleted_and_made_again_costs_no_pod() {
    let mut cluster = running(&sidecar("log", "log:v1"));
    let uids = cluster.uids();
    undecorate(&mut cluster, "log");
    decorate(&mut cluster, "log", &sidecar("log", "log:v1"));
    // Even where the CollaSet has something to change.
    cluster.change(|spec| spec["template"]["spec"]["containers"][0]["image"] = json!("web:v2"));
    cluster.change(|spec| spec["replicas"] = json!(3));
    let mut seen = Seen::of(&cluster);
    let (mut rounds, mut is_known) = (0, false);
    while !is_known {
        let plan = seen.plan(&cluster.left);
        is_known = cluster.objects.iter().any(|((kind, _), object)| {
            kind == "ControllerRevision" && object["metadata"]["ownerReferences"][0]["kind"] == "PodDecoration"
        });
        let makes_pods = plan.writes.iter().any(|write| write.verb == "create-pod");
        assert!(is_known || (plan.desired.is_empty() && !makes_pods), "{plan:?}");
        assert!(!matches!(plan.stage, Stage::Refused(_)), "{plan:?}");
        // The revision is the last that comes.
        let others = plan.writes.iter().filter(|write| !write.on.name.starts_with("log"));
        let plan = Plan { writes: if rounds < 5 { others.cloned().collect() } else { plan.writes }, ..plan };
        carry_out_plan(&mut cluster, &mut seen, &plan, usize::MAX);
        rounds += 1;
    }
    assert!(rounds > 5);
    settle(&mut cluster, true);
    assert!(uids.iter().all(|uid| cluster.uids().contains(uid)));
    assert_eq!((cluster.images(), decorated(&cluster)), (vec!["web:v2".to_owned(); 3], 3));
}

#[test]
fn any_weight_that_the_api_server_takes_counts() {
    let mut cluster = Cluster::with(1, &json!({}));
    for (name, weight) in [("last", i32::MIN), ("first", i32::MAX)] {
        let mut spec = sidecar(name, "x:v1");
        spec["weight"] = json!(weight);
        decorate(&mut cluster, name, &spec);
    }
    settle(&mut cluster, true);
    let names: Vec<String> = containers(cluster.pods()[0]).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["web", "first", "last"]);
}
