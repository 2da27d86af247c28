use std::sync::Arc;

use hitless_api::PodRef;
use hitless_workloads::Operation;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use crate::round::facts::images::*;

fn pod() -> PodView {
    let pod: Pod = serde_json::from_value(json!({"metadata": {"namespace": "shop", "name": "set-0", "uid": "u"},
        "spec": {"nodeName": "n1", "containers": [{"name": "web", "image": "r.io/web:v1"}]}}))
    .unwrap();
    PodView::from(&pod)
}

/// The pod leaves for good, and the one in its place has v2.
fn anew(pod: &PodView) -> PodIntent {
    let intent = PodIntent::drain(pod);
    let mut operation = Operation::clone(&intent.operation);
    let change = ImageChange { from: "r.io/web:v1".to_owned(), to: "r.io/web:v2".to_owned() };
    operation.fetch = BTreeMap::from([("web".to_owned(), change)]);
    PodIntent { operation: Arc::new(operation), ..intent }
}

fn ended(pull: &Pull, attempt: u32, reason: &str) -> PrefetchView {
    let (reason, message) = (reason.to_owned(), format!("{reason}: words"));
    PrefetchView {
        pod: PodRef { namespace: "shop".to_owned(), name: format!("fetch-{attempt}"), uid: format!("f{attempt}") },
        key: pull.key(),
        attempt,
        node: "n1".to_owned(),
        image: pull.image.clone(),
        rewritten: None,
        given: None,
        created: None,
        deleting: false,
        state: if reason.starts_with("OutOf") {
            PrefetchState::Rejected { reason, message }
        } else {
            PrefetchState::Failed { reason, message }
        },
    }
}

/// In place, with something that changes.
fn in_place(pod: &PodView) -> PodIntent {
    let mut operation = Operation::clone(&PodIntent::assumed(pod).operation);
    let change = hitless_api::Change { from: None, to: Some("b".to_owned()) };
    operation.annotations = BTreeMap::from([("a".to_owned(), change)]);
    operation.containers = anew(pod).operation.fetch.clone();
    PodIntent { operation: Arc::new(operation), ..anew(pod) }
}

/// Whether the pod waits for its image in this snapshot, and what is told if it goes without.
fn waits(snapshot: &Snapshot, now: Timestamp, pod: &PodView, intent: &PodIntent) -> (bool, Option<String>) {
    let images = Images::new(snapshot, now);
    let told = images.not_fetched(pod, intent).map(|(_, words)| words.into_owned());
    (images.waiting(pod, intent).is_some() || images.waiting_for_answer(pod, intent).is_some(), told)
}

/// A node that is full, or a quota that is used up, turns the prefetch pod away and not the image.
#[test]
fn a_pod_goes_without_where_no_prefetch_pod_finds_room() {
    let pod = pod();
    for intent in [anew(&pod), in_place(&pod)] {
        let pull = pulls(&pod, &intent).next().unwrap();
        let with = |attempts: &[(u32, &str)], refused: Option<(u32, &str)>| {
            let prefetches =
                attempts.iter().map(|(attempt, reason)| Arc::new(ended(&pull, *attempt, reason))).collect();
            let mut snapshot = Snapshot { prefetches, ..Snapshot::default() };
            let refusal = refused.map(|(tries, words)| {
                let image = Some((pull.namespace.clone(), pull.image.clone()));
                (pull.key(), Refusal { words: words.to_owned(), tries, at: Timestamp::UNIX_EPOCH, image })
            });
            snapshot.own_writes.refused.extend(refusal);
            snapshot
        };
        let waits =
            |attempts: &[(u32, &str)], refused| waits(&with(attempts, refused), Timestamp::UNIX_EPOCH, &pod, &intent);
        assert_eq!(waits(&[], None), (true, None));
        assert_eq!(waits(&[(1, "OutOfpods")], None), (true, None), "it is tried again");
        let told = Some("OutOfpods: OutOfpods: words".to_owned());
        assert_eq!(waits(&[(2, "OutOfpods"), (1, "OutOfpods")], None), (false, told));
        // Of the image nobody knows anything good.
        assert_eq!(waits(&[(4, "OutOfcpu"), (3, "ErrImagePull")], None), (true, None));
        assert_eq!(waits(&[(7, "ErrImagePull")], None), (true, None));
        let signed = "admission webhook \"images\" denied the request: unsigned";
        let quota =
            "pods \"fetch-1\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=4, limited: pods=4";
        assert!(waits(&[], Some((1, quota))).0, "the container's own resources may be within");
        assert_eq!(waits(&[], Some((2, quota))), (false, Some(quota.to_owned())));
        // Some time later it is asked again, but not before the rules have let the pod go.
        let (known, later) = (with(&[], Some((2, quota))), Timestamp::from_second(301).unwrap());
        let images = Images::new(&known, later);
        assert_eq!(images.waiting(&pod, &intent), None);
        assert_eq!(images.waiting_for_answer(&pod, &intent).unwrap().reason(), "ImagePulling");
        assert!(Images::new(&with(&[], Some((2, signed))), later).waiting(&pod, &intent).is_some());
        assert!(!waits(&[], Some((2, "minimum memory usage per Container is 16Mi, but request is 1Mi"))).0);
        // That may mean the image: its native controller's pod tells.
        assert!(waits(&[], Some((2, signed))).0);
        let refused = with(&[], Some((2, signed)));
        let refused = Images::new(&refused, Timestamp::UNIX_EPOCH).refusals.by_others();
        assert_eq!(refused.into_values().collect::<Vec<_>>(), [signed]);
        assert!(Images::new(&with(&[], Some((2, quota))), Timestamp::UNIX_EPOCH).refusals.by_others().is_empty());
    }
}

#[test]
fn nobody_waits_for_ever_for_a_sandbox_or_for_room_on_a_disk() {
    let pod = pod();
    let intent = in_place(&pod);
    let pull = pulls(&pod, &intent).next().unwrap();
    let at = |seconds| Timestamp::from_second(seconds).unwrap();
    let mut attempt = ended(&pull, 1, "");
    (attempt.state, attempt.created) = (PrefetchState::NotBegun, Some(at(0)));
    let stuck = Snapshot { prefetches: vec![Arc::new(attempt)], ..Snapshot::default() };
    assert!(waits(&stuck, at(59), &pod, &intent).0);
    let (waits_on, told) = waits(&stuck, at(60), &pod, &intent);
    assert!(!waits_on && told.unwrap().contains("no sandbox for pod fetch-1"));

    let pressure = Some(NodePressure { condition: "DiskPressure", since: Some(at(0)) });
    let node = crate::snapshot::NodeView { name: "n1".to_owned(), pressure, ..Default::default() };
    let full = Snapshot { nodes: BTreeMap::from([("n1".to_owned(), Arc::new(node))]), ..Snapshot::default() };
    assert!(waits(&full, at(119), &pod, &intent).0);
    assert_eq!(waits(&full, at(120), &pod, &intent), (false, Some("node n1 has DiskPressure".to_owned())));
}

/// In an air-gapped cluster the template's name leads nowhere, and admission of new pods makes a mirror's of it.
#[test]
fn a_pod_that_goes_without_gets_the_name_that_admission_has_made_of_its_image_in_another_pod() {
    let pod = pod();
    let intent = in_place(&pod);
    let pull = pulls(&pod, &intent).next().unwrap();
    let renamed = |attempts: Vec<PrefetchView>| {
        let snapshot = Snapshot { prefetches: attempts.into_iter().map(Arc::new).collect(), ..Snapshot::default() };
        let renamed = Images::new(&snapshot, Timestamp::UNIX_EPOCH).renamed(&pod, &intent);
        renamed.map(|intent| intent.operation.containers["web"].to.clone())
    };
    let mirrored = |attempt: PrefetchView| PrefetchView { rewritten: Some("mirror/web:v2".to_owned()), ..attempt };
    let turned_away = |attempt| ended(&pull, attempt, "OutOfpods");
    let name = Some("mirror/web:v2".to_owned());
    assert_eq!(renamed(vec![mirrored(turned_away(1)), mirrored(turned_away(2))]), name);
    let elsewhere = Pull { node: "n2".to_owned(), ..pull.clone() };
    let mut fetched = mirrored(ended(&elsewhere, 1, ""));
    fetched.state = PrefetchState::Fetched { at: None, image_id: "mirror/web@sha256:2".to_owned() };
    assert_eq!(renamed(vec![turned_away(1), turned_away(2), fetched.clone()]), name);
    // While this node may fetch it still, its own pods tell; and what another namespace's admission does says nothing.
    assert_eq!(renamed(vec![turned_away(1), fetched.clone()]), None);
    fetched.pod.namespace = "bank".to_owned();
    assert_eq!(renamed(vec![turned_away(1), turned_away(2), fetched]), None);
}

/// Its node has the image by the name in the template, for other pods; the pod runs a mirror's.
#[test]
fn what_a_node_has_by_another_name_than_the_pods_own_repository_is_no_proof() {
    let known = |running: &str, attempts: Vec<PrefetchView>| {
        let mut pod = pod();
        pod.containers[0].image = running.to_owned();
        let pull = pulls(&pod, &in_place(&pod)).next().unwrap();
        let images = crate::prefetch::NodeImages::of([["r.io/web:v2"]], &mut crate::prefetch::NamePool::default());
        let node = crate::snapshot::NodeView { name: "n1".to_owned(), images, ..Default::default() };
        let snapshot = Snapshot {
            nodes: BTreeMap::from([("n1".to_owned(), Arc::new(node))]),
            prefetches: attempts.into_iter().map(Arc::new).collect(),
            ..Snapshot::default()
        };
        Images::new(&snapshot, Timestamp::UNIX_EPOCH).known(&pull) == ImageState::There
    };
    assert!(known("r.io/web:v1", Vec::new()));
    assert!(!known("mirror.io/web:v1", Vec::new()));
    let pod = pod();
    let pull = pulls(&pod, &in_place(&pod)).next().unwrap();
    // Admission leaves it as it is: the template has another repository than before.
    let mut fetched = ended(&pull, 1, "");
    fetched.state = PrefetchState::Fetched { at: None, image_id: "r.io/web@sha256:2".to_owned() };
    assert!(known("mirror.io/web:v1", vec![fetched]));
    // A full node takes no prefetch pod: what it has is all that can be known.
    assert!(known("mirror.io/web:v1", vec![ended(&pull, 1, "OutOfpods"), ended(&pull, 2, "OutOfpods")]));
}
