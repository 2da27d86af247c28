//! What a user of KusionStack sees who applies a CollaSet.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, ensure};
use hitless_e2e::app::{App, Identity, PATIENCE, Shape, all_ready, image_of, is_ready};
use hitless_e2e::traffic::Rate;
use hitless_e2e::{Stack, Traffic, Watch};
use hitless_workloads::image::unpinned;
use serde_json::{Value, json};

fn colla_set(replicas: u32) -> Shape {
    Shape::colla_set(replicas)
}

/// A CollaSet under load.
struct Scene {
    app: App,
    before: Vec<Identity>,
    traffic: Traffic,
}

impl Scene {
    fn start(name: &str, shape: &Shape) -> anyhow::Result<Self> {
        let stack = Stack::attach()?;
        let app = App::start(&stack.cluster, &format!("t-cls-{name}"), &shape.clone().parking())?;
        let traffic = Traffic::start(&stack.cluster, &stack.programs, app.address, Rate::default())?;
        traffic.wait_for_requests(200, PATIENCE)?;
        Ok(Self { before: app.identities(), app, traffic })
    }

    fn patch(&self, patch: &Value) -> anyhow::Result<()> {
        self.app.kubectl.run(&["patch", "collaset", "web", "--type=merge", "-p", &patch.to_string()]).map(drop)
    }

    /// Waits for what the status says.
    fn wait_status(&self, what: &str, is: impl Fn(&Value) -> bool) -> anyhow::Result<Value> {
        self.app.workloads.wait(what, PATIENCE, |all| {
            let web = all.get("web")?;
            let is_seen = web["status"]["observedGeneration"] == web["metadata"]["generation"];
            (is_seen && is(&web["status"])).then(|| web.clone())
        })
    }

    /// No request has failed.
    fn finish(self) -> anyhow::Result<App> {
        self.traffic.wait_for_more(200, PATIENCE)?;
        let report = self.traffic.stop()?;
        ensure!(report.failed() == 0, "requests failed: {:?}", report.failures);
        Ok(self.app)
    }
}

fn ids(app: &App) -> Vec<i32> {
    let pods = app.pods.objects();
    let id = |pod: &Value| pod["metadata"]["labels"]["collaset.kusionstack.io/instance-id"].as_str()?.parse().ok();
    let mut ids: Vec<i32> = pods.values().filter_map(id).collect();
    ids.sort_unstable();
    ids
}

#[test]
fn an_image_reaches_the_same_pods_and_a_command_new_ones_without_a_failed_request() -> anyhow::Result<()> {
    let scene = Scene::start("update", &colla_set(3))?;
    ensure!(ids(&scene.app) == [0, 1, 2], "the ids are {:?}", ids(&scene.app));
    scene.app.set_version("v2")?;
    scene.app.wait_version("v2", 3)?;
    let web = scene.wait_status("the update to be reported", |status| {
        status["updatedAvailableReplicas"] == 3 && status["currentRevision"] == status["updatedRevision"]
    })?;
    ensure!(scene.app.identities() == scene.before, "pods were replaced: {:?}", scene.app.identities());
    let columns = scene.app.kubectl.run(&["get", "collaset", "web"])?;
    ensure!(columns.contains("UPDATED_AVAILABLE") && columns.contains("CURRENT_REVISION"), "{columns}");
    // What no pod can be given in place: all of them are made anew, each after it has left service.
    let pod = json!({"terminationGracePeriodSeconds": 7});
    scene.patch(&json!({"spec": {"template": {"spec": pod}}}))?;
    let revision = web["status"]["updatedRevision"].clone();
    scene.wait_status("new pods", |status| {
        status["updatedRevision"] != revision
            && status["updatedAvailableReplicas"] == 3
            && status["currentRevision"] == status["updatedRevision"]
            && status["terminatingReplicas"] == 0
    })?;
    scene.app.wait_replaced(&scene.before)?;
    scene.app.wait_ready(3)?;
    ensure!(ids(&scene.app) == [0, 1, 2], "the ids are {:?}", ids(&scene.app));
    let revisions = scene.app.kubectl.list(&["controllerrevisions"])?;
    ensure!(revisions.len() == 3, "there are {} revisions", revisions.len());
    scene.finish().map(drop)
}

#[test]
fn scaling_and_a_deleted_pod_cost_no_request_and_no_pod_too_many() -> anyhow::Result<()> {
    let scene = Scene::start("scale", &colla_set(3))?;
    scene.app.kubectl.run(&["scale", "collaset/web", "--replicas=5"])?;
    scene.wait_status("five pods", |status| status["availableReplicas"] == 5)?;
    scene.app.wait_answering_at(scene.app.address)?;
    scene.app.kubectl.run(&["scale", "collaset/web", "--replicas=2"])?;
    scene.wait_status("two pods", |status| status["replicas"] == 2 && status["terminatingReplicas"] == 0)?;
    let app = scene.finish()?;
    app.wait_ready(2)?;
    Watch::start(&app.kubectl, &["resourcecontexts"])?.wait("the ids of two pods", PATIENCE, |contexts| {
        let ids = contexts.get("web")?["spec"]["contexts"].as_array()?;
        (ids.len() == 2 && ids.iter().all(|each| each["data"]["Owner"] == "web")).then_some(())
    })?;
    // Somebody deletes a pod: another one takes its id.
    let gone = app.identities().first().context("no pod")?.clone();
    app.kubectl.run(&["delete", "pod", &gone.name, "--wait=false"])?;
    app.pods.wait("another pod", PATIENCE, |pods| {
        let is_new = pods.values().all(|pod| pod["metadata"]["uid"] != gone.uid.as_str());
        (is_new && all_ready(pods, 2)).then_some(())
    })
}

#[test]
fn a_partition_keeps_pods_at_their_version_and_who_is_deleted_comes_back_at_it() -> anyhow::Result<()> {
    let partition =
        |kept: u32| json!({"spec": {"updateStrategy": {"rollingUpdate": {"byPartition": {"partition": kept}}}}});
    let stack = Stack::attach()?;
    let app = App::start(&stack.cluster, "t-cls-partition", &Shape { patch: partition(2), ..colla_set(3) })?;
    let before = app.identities();
    app.set_version("v2")?;
    app.wait_version("v2", 1)?;
    let old = app.pods.wait("two old pods", PATIENCE, |pods| {
        let mut old = pods.iter().filter(|(_, pod)| image_of(pod) == app.image("v1"));
        old.next().map(|(name, _)| name.clone())
    })?;
    ensure!(app.identities() == before, "pods were replaced");
    app.kubectl.run(&["delete", "pod", &old, "--wait=true"])?;
    app.wait_ready(3)?;
    let count = |version: &str| {
        let image = app.image(version);
        app.pods.objects().values().filter(|pod| image_of(pod) == image).count()
    };
    ensure!((count("v1"), count("v2")) == (2, 1), "{} of v1 and {} of v2", count("v1"), count("v2"));
    app.kubectl.run(&["patch", "collaset", "web", "--type=merge", "-p", &partition(0).to_string()])?;
    app.wait_version("v2", 3)?;
    let why = stack.hitless(&app, &["status", "collaset/web"])?;
    ensure!(why.contains("collaset"), "status says: {why}");
    Ok(())
}

#[test]
fn what_admission_refuses_is_said_on_the_collaset_and_nothing_is_lost() -> anyhow::Result<()> {
    let scene = Scene::start("refused", &colla_set(2))?;
    // A quota that is full already: another pod is refused, those that are there stay.
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "full"}, "spec": {"hard": {"pods": "2"}}});
    scene.app.kubectl.feed(&["apply"], &quota)?;
    scene.app.kubectl.run(&["wait", "resourcequota/full", "--for=jsonpath={.status.used.pods}=2", "--timeout=60s"])?;
    scene.app.kubectl.run(&["scale", "collaset/web", "--replicas=3"])?;
    let words = scene.app.wait_event_saying("WriteRefused", "exceeded quota")?;
    println!("WriteRefused: {words}");
    scene.app.kubectl.run(&["delete", "resourcequota", "full"])?;
    scene.wait_status("the third pod", |status| status["availableReplicas"] == 3)?;
    scene.finish().map(drop)
}

/// Names of the pods of a CollaSet, without those that are being deleted.
fn owned_by(app: &App, set: &str) -> anyhow::Result<BTreeSet<String>> {
    let pods = app.pods_now()?;
    let is_owned = |pod: &&Value| {
        pod["metadata"]["ownerReferences"][0]["name"] == set && pod["metadata"]["deletionTimestamp"].is_null()
    };
    let name = |pod: &Value| pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    Ok(pods.values().filter(is_owned).map(name).collect())
}

#[test]
fn a_replacement_serves_before_the_old_pod_leaves() -> anyhow::Result<()> {
    let policy = json!({"spec": {"updateStrategy": {"podUpgradePolicy": "Replace"}}});
    let scene = Scene::start("replace", &Shape { patch: policy, ..colla_set(2) })?;
    let mut pods = scene.app.pods.follow();
    scene.app.set_version("v2")?;
    // One more than wanted, and the old one is there until the new one serves.
    pods.wait("a new pod beside both old ones", PATIENCE, |pods| {
        let name =
            |pod: &Value| pod["metadata"]["labels"]["collaset.kusionstack.io/replace-pair-origin-name"].is_string();
        (pods.len() == 3 && pods.values().any(name)).then_some(())
    })?;
    scene.wait_status("only new pods", |status| {
        status["updatedAvailableReplicas"] == 2 && status["replicas"] == 2 && status["terminatingReplicas"] == 0
    })?;
    // Our view of the pods may be behind what was said of them.
    scene.app.wait_replaced(&scene.before)?;
    scene.app.wait_ready(2)?;
    let updated = scene.app.identities();
    let is_new = |pod: &Identity| scene.before.iter().all(|old| old.uid != pod.uid);
    ensure!(updated.len() == 2 && updated.iter().all(is_new), "the pods are {updated:?}, they were {:?}", scene.before);
    // The same by label, as tools ask for it.
    let old = updated.first().context("no pod")?.clone();
    scene.app.kubectl.run(&["label", "pod", &old.name, "collaset.kusionstack.io/to-replace=true"])?;
    scene.app.pods.wait("another pod in its place", PATIENCE, |pods| {
        (pods.values().all(|pod| pod["metadata"]["uid"] != old.uid.as_str()) && all_ready(pods, 2)).then_some(())
    })?;
    scene.finish().map(drop)
}

#[test]
fn a_claim_outlives_an_update_in_place_and_a_new_pod_and_one_that_is_never_bound_is_said() -> anyhow::Result<()> {
    const CLASS: &str = "t-cls-claims";
    let stack = Stack::attach()?;
    let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": CLASS},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": CLASS,
            "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": "/tmp/t-cls-claims", "type": "DirectoryOrCreate"}}});
    let claims = json!([{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": CLASS,
        "resources": {"requests": {"storage": "1Gi"}}}}]);
    let app = App::create(
        &stack.cluster,
        CLASS,
        &Shape { patch: json!({"spec": {"volumeClaimTemplates": claims}}), ..colla_set(1) },
    )?;
    // Nobody has such a volume yet: it is said, and the pod waits.
    app.wait_event_saying("TargetPending", "unbound")?;
    app.kubectl.feed(&["apply"], &volume)?;
    let outcome = (|| {
        app.wait_ready(1)?;
        let claims = || app.kubectl.list(&["persistentvolumeclaims"]);
        let claim = |when: &str| -> anyhow::Result<Value> {
            let all = claims()?;
            ensure!(all.len() == 1, "{when} there are {} claims: {all:?}", all.len());
            Ok(all[0]["metadata"]["uid"].clone())
        };
        let (first, pods) = (claim("at the start")?, app.identities());
        app.set_version("v2")?;
        app.wait_version("v2", 1)?;
        let after = claim("after an update in place")?;
        ensure!(app.identities() == pods && after == first, "an update in place changes nothing else");
        let grace = json!({"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 7}}}});
        app.kubectl.run(&["patch", "collaset", "web", "--type=merge", "-p", &grace.to_string()])?;
        app.pods.wait("a new pod", PATIENCE, |all| {
            (all.values().all(|pod| pod["metadata"]["uid"] != pods[0].uid.as_str()) && all_ready(all, 1)).then_some(())
        })?;
        ensure!(claim("with a new pod")? == first, "the new pod has another claim");
        // A second pod has no volume: the first one is not disturbed.
        let pods = app.identities();
        app.kubectl.run(&["scale", "collaset/web", "--replicas=2"])?;
        app.workloads.wait("the condition", PATIENCE, |all| {
            let conditions = all.get("web")?["status"]["conditions"].as_array()?.clone();
            conditions.into_iter().find(|each| each["type"] == "Scale" && each["reason"] == "ScaleOutFailed").map(drop)
        })?;
        let second = claims()?.into_iter().find(|claim| claim["metadata"]["uid"] != first);
        let second =
            second.context("the second pod has no claim")?["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        app.kubectl.run(&["scale", "collaset/web", "--replicas=1"])?;
        // A finalizer of Kubernetes keeps a claim for a moment longer than the pod that used it.
        app.kubectl.run(&["wait", &format!("persistentvolumeclaim/{second}"), "--for=delete", "--timeout=120s"])?;
        app.pods.wait("one pod again", PATIENCE, |all| (all.len() == 1).then_some(()))?;
        let after = claim("after scaling in")?;
        ensure!(app.identities() == pods && after == first, "the first pod was disturbed");
        Ok(())
    })();
    app.kubectl.run(&["delete", "persistentvolume", CLASS, "--wait=false"])?;
    outcome
}

#[test]
fn a_deleted_collaset_costs_no_request_and_pods_may_change_their_collaset() -> anyhow::Result<()> {
    let scene = Scene::start("delete", &Shape { patch: json!({"spec": {"paused": true}}), ..colla_set(2) })?;
    let live = scene.app.kubectl.get(&["collaset", "web"])?;
    let mut spec = live["spec"].clone();
    spec["selector"]["matchLabels"]["set"] = json!("other");
    spec["template"]["metadata"]["labels"]["set"] = json!("other");
    let other = json!({"apiVersion": "apps.kusionstack.io/v1alpha1", "kind": "CollaSet", "metadata": {"name": "other"}, "spec": spec});
    scene.app.kubectl.feed(&["apply"], &other)?;
    scene.app.wait_ready(4)?;
    let out = owned_by(&scene.app, "other")?.first().context("no pod")?.clone();
    let exclude = json!({"spec": {"scaleStrategy": {"podToExclude": [out]}}});
    scene.app.kubectl.run(&["patch", "collaset", "other", "--type=merge", "-p", &exclude.to_string()])?;
    scene.app.wait_ready(5)?;
    scene.app.pods.wait("a pod without an owner", PATIENCE, |pods| {
        let pod = pods.get(&out)?;
        (pod["metadata"]["labels"]["collaset.kusionstack.io/orphaned"] == "true").then_some(())
    })?;
    // Its other pods leave service before they go, and it goes last.
    scene.app.kubectl.run(&["delete", "collaset", "other", "--wait=true", "--timeout=120s"])?;
    ensure!(owned_by(&scene.app, "other")?.is_empty(), "pods are left");
    let include = json!({"spec": {"replicas": 3, "scaleStrategy": {"podToInclude": [out]}}});
    scene.patch(&include)?;
    scene.wait_status("the pod that was taken on", |status| status["availableReplicas"] == 3)?;
    let web = owned_by(&scene.app, "web")?;
    ensure!(web.contains(&out) && web.len() == 3, "the pods are {web:?}");
    // One that has ended is an object for a moment more.
    scene.app.pods.wait("no pod too many", PATIENCE, |pods| (pods.len() == 3).then_some(()))?;
    scene.finish().map(drop)
}

/// How many pods were Ready at once at the fewest, since `count` of them were.
struct Fewest {
    known: Arc<Mutex<Option<usize>>>,
    _watch: Watch,
}

impl Fewest {
    fn start(app: &App, count: usize) -> anyhow::Result<Self> {
        let known: Arc<Mutex<Option<usize>>> = Arc::default();
        let (seen, mut ready) = (Arc::clone(&known), BTreeSet::new());
        let watch = Watch::start_seeing(&app.kubectl, &["pods", "-l", "app=web"], move |event| {
            let pod = &event["object"];
            let uid = pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
            if event["type"] != "DELETED" && is_ready(pod) {
                ready.insert(uid)
            } else {
                ready.remove(&uid)
            };
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            if seen.is_some() || ready.len() == count {
                *seen = Some(seen.unwrap_or(count).min(ready.len()));
            }
        })?;
        watch.wait("its pods", PATIENCE, |pods| all_ready(pods, count).then_some(()))?;
        Ok(Self { known, _watch: watch })
    }

    fn get(&self) -> Option<usize> {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Image of that container of a pod, as its owner names it.
fn image_in(pod: &Value, container: &str) -> Option<String> {
    let all = pod["spec"]["containers"].as_array()?;
    all.iter().find(|each| each["name"] == container)?["image"].as_str().map(unpinned)
}

#[test]
fn a_decoration_brings_a_sidecar_by_new_pods_and_its_next_image_in_place_without_a_failed_request() -> anyhow::Result<()>
{
    let scene = Scene::start("decorate", &colla_set(3))?;
    let fewest = Fewest::start(&scene.app, 3)?;
    // The reference server that would listen in an hour: nobody waits for it.
    let decorate = |version: &str| {
        let container = json!({"name": "log", "image": scene.app.image(version), "injectPolicy": "AfterPrimaryContainer",
            "env": [{"name": "START_DELAY", "value": "3600000"}]});
        let template = json!({"metadata": [{"labels": {"logged": "yes"}}], "containers": [container]});
        let decoration = json!({"apiVersion": "apps.kusionstack.io/v1alpha1", "kind": "PodDecoration", "metadata": {"name": "log"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template}});
        scene.app.kubectl.feed(&["apply"], &decoration)
    };
    let wait = |version: &str| {
        let image = scene.app.image(version);
        scene.app.pods.wait(&format!("three pods with the sidecar {version}"), PATIENCE, |pods| {
            let has_it = |pod: &Value| image_in(pod, "log").as_ref() == Some(&image);
            (all_ready(pods, 3) && pods.values().all(has_it)).then_some(())
        })
    };
    let decorations = Watch::start(&scene.app.kubectl, &["poddecorations"])?;
    let reported = |last: &str| {
        decorations.wait("the rollout to be reported", PATIENCE, |all| {
            let status = &all.get("log")?["status"];
            let updated = status["updatedRevision"].as_str().filter(|revision| *revision != last)?;
            let is_through = status["updatedAvailablePods"] == 3 && status["currentRevision"] == updated;
            is_through.then(|| updated.to_owned())
        })
    };
    decorate("v1")?;
    wait("v1")?;
    let before: BTreeSet<&str> = scene.before.iter().map(|pod| pod.uid.as_str()).collect();
    let decorated = scene.app.identities();
    ensure!(
        decorated.iter().all(|pod| !before.contains(pod.uid.as_str())),
        "a pod can't get a container: {decorated:?}"
    );
    ensure!(ids(&scene.app) == [0, 1, 2], "the ids are {:?}", ids(&scene.app));
    let first = reported("")?;
    decorate("v2")?;
    wait("v2")?;
    ensure!(scene.app.identities() == decorated, "pods were replaced: {:?}", scene.app.identities());
    for (name, pod) in scene.app.pods.objects() {
        ensure!(image_in(&pod, "web") == Some(scene.app.image("v1")), "{name} has another image: {}", pod["spec"]);
    }
    let revision = reported(&first)?;
    for pod in scene.app.pods_now()?.values() {
        let label = &pod["metadata"]["labels"]["poddecoration.kusionstack.io/pd-log"];
        ensure!(label == revision.as_str(), "a pod has the revision {label}, and not {revision}");
    }
    let fewest = fewest.get().context("nothing was seen")?;
    ensure!(fewest >= 2, "{fewest} of 3 pods were Ready at once, and one at a time may be away");
    scene.finish().map(drop)
}
