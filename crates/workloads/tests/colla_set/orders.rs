//! Any order: stale views, controllers that are killed between two writes, two that think they lead, pods that others delete.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::json;

use crate::cluster::{Cluster, Seen, carry_out_plan, settle};

const REPLICAS: i64 = 3;

#[derive(Clone, Copy, Debug)]
enum Event {
    /// A controller acts on what it sees, and is killed after so many writes.
    Act {
        who: usize,
        writes: usize,
    },
    /// A controller's view of objects, or of pods, gets up to date.
    Objects(usize),
    Pods(usize),
    /// A kubelet starts or ends a pod.
    Kubelet(usize),
    /// Somebody deletes a pod.
    Delete(usize),
    /// The template changes, in place or not.
    Image(u8),
    Command(u8),
    /// Agents carry out what a controller wishes.
    Operate(usize),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let who = 0..2_usize;
    let event = prop_oneof![
        6 => (who.clone(), 0..8_usize).prop_map(|(who, writes)| Event::Act { who, writes }),
        3 => who.clone().prop_map(Event::Objects),
        3 => who.clone().prop_map(Event::Pods),
        3 => (0..6_usize).prop_map(Event::Kubelet),
        1 => (0..6_usize).prop_map(Event::Delete),
        1 => (1..4_u8).prop_map(Event::Image),
        1 => (1..3_u8).prop_map(Event::Command),
        2 => who.prop_map(Event::Operate),
    ];
    prop::collection::vec(event, 0..120)
}

fn pod_key(cluster: &Cluster, index: usize) -> Option<(String, String)> {
    let keys: Vec<_> = cluster.objects.keys().filter(|(kind, _)| kind == "Pod").cloned().collect();
    keys.get(index % keys.len().max(1)).cloned()
}

fn happen(event: Event, cluster: &mut Cluster, seen: &mut [Seen; 2]) {
    match event {
        Event::Act { who, writes } => {
            let plan = seen[who].plan(&cluster.left);
            carry_out_plan(cluster, &mut seen[who], &plan, writes);
        }
        Event::Objects(who) => seen[who].follow_objects(cluster),
        Event::Pods(who) => seen[who].follow_pods(cluster),
        Event::Kubelet(index) => {
            if let Some(key) = pod_key(cluster, index) {
                cluster.kubelet(&key);
            }
        }
        Event::Delete(index) => {
            if let Some((_, name)) = pod_key(cluster, index) {
                cluster.delete_pod(&name);
            }
        }
        Event::Image(version) => {
            cluster
                .change(|spec| spec["template"]["spec"]["containers"][0]["image"] = json!(format!("web:v{version}")));
        }
        Event::Command(version) => {
            cluster.change(|spec| {
                spec["template"]["spec"]["containers"][0]["command"] = json!([format!("/c{version}")]);
            });
        }
        Event::Operate(who) => {
            let plan = seen[who].plan(&cluster.left);
            cluster.operate(&plan);
        }
    }
}

/// What must be true whatever happens.
fn check(events: Vec<Event>) -> Result<(), TestCaseError> {
    let mut cluster = Cluster::with(REPLICAS, &json!({}));
    let mut seen = [Seen::of(&cluster), Seen::of(&cluster)];
    for event in events {
        happen(event, &mut cluster, &mut seen);
        let pods = cluster.pods().len();
        prop_assert!(pods <= 3, "after {event:?} there are {pods} pods");
    }
    settle(&mut cluster, true);
    let image = cluster.set()["spec"]["template"]["spec"]["containers"][0]["image"].clone();
    let contexts = &cluster.objects[&("ResourceContext".to_owned(), "web".to_owned())]["spec"]["contexts"];
    let named: BTreeSet<&str> =
        contexts.as_array().unwrap().iter().filter_map(|each| each["data"]["hitless.dev/pod"].as_str()).collect();
    prop_assert_eq!(cluster.pods().len(), 3);
    prop_assert_eq!(named, cluster.pod_names().into_iter().collect::<BTreeSet<_>>());
    prop_assert!(cluster.images().iter().all(|each| image == *each), "{:?}", cluster.images());
    let has_left = |(key, pod): &(&(String, String), &serde_json::Value)| {
        key.0 == "Pod" && pod["metadata"]["uid"].as_str().is_some_and(|uid| cluster.left.contains(uid))
    };
    prop_assert!(!cluster.objects.iter().any(|each| has_left(&each)), "nobody puts a pod back that has left for good");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn there_is_never_a_pod_too_many_and_in_the_end_all_are_there(events in events()) {
        check(events)?;
    }
}

#[test]
fn a_pod_that_is_seen_leaving_may_be_gone_and_made_anew() {
    let act = |who, writes| Event::Act { who, writes };
    // The second controller makes a pod. Somebody deletes it, and the first controller sees it leave.
    let leaves = [act(1, 1), act(1, 2), Event::Delete(0), Event::Pods(0)];
    // It goes, and the second controller makes it anew, and two more.
    let anew = [Event::Kubelet(0), act(1, 2), act(1, 2), Event::Kubelet(0), Event::Pods(1)];
    // The first controller has read the objects anew, but still sees the pod that is gone.
    let late = [act(1, 2), Event::Objects(0), act(0, 8)];
    check([leaves.to_vec(), anew.to_vec(), late.to_vec()].concat()).unwrap();
}
