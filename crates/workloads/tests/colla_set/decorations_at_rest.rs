//! PodDecorations that once made pods for ever: labels that contradict them, and revisions that are not there yet.

use hitless_workloads::{Plan, Stage};
use serde_json::{Value, json};

use crate::cluster::{Cluster, Seen, settle};
use crate::decorations::{containers, decorate, sidecar};

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
    (because.reason, because.text)
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
