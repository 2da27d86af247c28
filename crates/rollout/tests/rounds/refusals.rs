//! What the API server does not accept, as the controller knows it and as it stands on the workload.

use std::collections::BTreeMap;
use std::sync::Arc;

use hitless_rollout::prefetch::NodeImages;
use hitless_rollout::round::{NotFetched, Round, WaitReason};
use hitless_rollout::snapshot::{NodeView, OwnWrites, Snapshot};
use hitless_workloads::{Object, Request};
use jiff::SignedDuration;

use crate::blips::{Is, V1, rollout};
use crate::scene::{decide, now, written};

const WORDS: &str = "admission webhook \"policy\" denied the request: every pod needs the label app";

/// A StatefulSet of three whose next image is on no node.
pub(crate) fn unfetched() -> Snapshot {
    let mut snapshot = rollout([(V1, Is::Ready), (V1, Is::Ready), (V1, Is::Ready)]);
    let bare = NodeView { images: NodeImages::default(), ..NodeView::clone(&snapshot.nodes["n1"]) };
    snapshot.nodes = BTreeMap::from([("n1".to_owned(), Arc::new(bare))]);
    snapshot
}

/// As the controller knows it that was refused so often.
fn refused(words: &str, tries: u32) -> Snapshot {
    let snapshot = unfetched();
    let creates = decide(&snapshot);
    let mut own = OwnWrites::default();
    for write in written(&creates, "prefetch") {
        for _ in 0..tries {
            own.refuse(write, words, now());
        }
    }
    assert_eq!(own.refused.len(), 1, "{:?}", creates.steps);
    Snapshot { own_writes: own, ..snapshot }
}

/// What the round writes down, or takes away.
fn told(round: &Round) -> Option<String> {
    written(round, "tell-refused").first().map(|write| match &write.request {
        Request::Patch(patch) => format!("{patch:?}"),
        other => panic!("{other:?}"),
    })
}

/// As somebody sees it who has only what stands on the workload.
fn read(snapshot: &Snapshot, value: &str) -> Snapshot {
    let with = |object: &Arc<Object>| {
        let mut object = Object::clone(object);
        if object.stateful_set().is_some() {
            object.annotations.insert("hitless.dev/refused".to_owned(), value.to_owned());
        }
        Arc::new(object)
    };
    let objects = snapshot.objects.iter().map(with).collect();
    Snapshot { objects, own_writes: OwnWrites::default(), ..snapshot.clone() }
}

fn value(seconds_ago: i64, words: &str) -> String {
    let at = now().checked_sub(SignedDuration::from_secs(seconds_ago)).unwrap();
    let at = hitless_api::MicroTime(at);
    serde_json::json!([{"image": "web:v2", "words": words, "tries": 2, "at": at}]).to_string()
}

fn waiting(round: &Round) -> Vec<&WaitReason> {
    round.verdicts.iter().filter_map(|verdict| verdict.waiting.as_ref()).collect()
}

fn is_refused(round: &Round) -> bool {
    let is_it = |waiting: &&WaitReason| matches!(waiting, WaitReason::ImageNotFetched { why: NotFetched::Refused(words), .. } if words == WORDS);
    waiting(round)
        .iter()
        .any(|waiting| is_it(waiting) && waiting.lasting() == hitless_rollout::round::Lasting::ByChange)
}

#[test]
fn a_refusal_stands_on_the_workload_and_says_the_same_to_whoever_reads_it() {
    assert_eq!(told(&decide(&refused(WORDS, 1))), None, "one with the container's own requests may be accepted");
    let controller = refused(WORDS, 2);
    let round = decide(&controller);
    assert!(is_refused(&round), "{:?}", waiting(&round));
    let text = told(&round).unwrap();
    assert!(text.contains("every pod needs the label app") && text.contains("web:v2"), "{text}");
    // The command line, and the next leader.
    let seen = decide(&read(&controller, &value(0, WORDS)));
    assert_eq!(waiting(&seen), waiting(&round));
    assert_eq!(told(&seen), None, "it stands there");
}

#[test]
fn what_was_refused_long_ago_is_asked_for_again_and_stands_there_as_the_last_answer() {
    let old = decide(&read(&unfetched(), &value(301, WORDS)));
    assert!(!is_refused(&old), "{:?}", waiting(&old));
    assert_eq!(told(&old), None);
    let of_another = value(301, WORDS).replace("web:v2", "web:v9");
    assert!(told(&decide(&read(&unfetched(), &of_another))).is_some(), "nobody asks for it any more");
    let still = Snapshot { own_writes: refused(WORDS, 2).own_writes, ..read(&unfetched(), &value(100, WORDS)) };
    assert_eq!(told(&decide(&still)), None, "not with each attempt");
    let still = Snapshot { own_writes: refused(WORDS, 2).own_writes, ..read(&unfetched(), &value(121, WORDS)) };
    assert!(told(&decide(&still)).is_some());
}

#[test]
fn where_a_quota_has_no_room_whoever_reads_it_sees_that_the_pod_goes_without() {
    let quota = "exceeded quota: q, requested: pods=1, used: pods=4, limited: pods=4";
    let seen = decide(&read(&unfetched(), &value(10, quota)));
    let waits = waiting(&seen);
    assert!(!waits.iter().any(|waiting| waiting.reason().starts_with("Image")), "{waits:?}");
    let by_controller = decide(&refused(quota, 2));
    assert_eq!(waiting(&by_controller), waits);
}

/// Nothing goes without them there.
#[test]
fn where_images_are_only_fetched_what_had_no_room_is_said_and_asked_for_again() {
    let quota = "exceeded quota: q, requested: pods=1, used: pods=4, limited: pods=4";
    let only = |seconds_ago: i64| {
        let mut snapshot = read(&unfetched(), &value(seconds_ago, quota));
        for object in snapshot.objects.iter_mut().filter(|object| object.stateful_set().is_some()) {
            Arc::make_mut(object).annotations.insert("hitless.dev/prefetch".to_owned(), "only".to_owned());
        }
        let round = decide(&snapshot);
        let is_asked = !written(&round, "prefetch").is_empty();
        // The others wait for their turn.
        let first = waiting(&round).into_iter().map(WaitReason::reason).find(|reason| *reason != "NotItsTurn");
        (first.unwrap(), is_asked)
    };
    assert_eq!(only(10), ("ImageNotFetched", true), "its images are not on its node");
    assert_eq!(only(301), ("ImagePulling", true));
}
