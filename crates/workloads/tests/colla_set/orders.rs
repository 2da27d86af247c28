//! Any order: stale views, controllers that are killed between two writes, two that think they lead, pods that others delete, label
//! and exclude.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::json;

use crate::cluster::{Cluster, Seen, carry_out_plan, settle};
use crate::decorations::{containers, decorate, sidecar, undecorate};

const REPLICAS: i64 = 3;
/// More than wanted while pods are replaced.
const SURGE: usize = 1;

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
    /// Agents carry out what a controller wants.
    Operate(usize),
    /// Another number of pods is wanted.
    Replicas(i64),
    /// Somebody wants a pod replaced, or wants that no more.
    Replace(usize, bool),
    /// Somebody takes a pod out of the CollaSet.
    Exclude(usize),
    /// Pods are updated in another way.
    Policy(bool),
    /// Somebody makes or changes a PodDecoration: the image of its sidecar, what it is started with, and how many pods keep theirs.
    Decorate(u8, u8, u8),
    /// Somebody deletes it.
    Undecorate,
}

fn usual() -> impl Strategy<Value = Event> {
    let who = 0..2_usize;
    prop_oneof![
        6 => (who.clone(), 0..8_usize).prop_map(|(who, writes)| Event::Act { who, writes }),
        3 => who.clone().prop_map(Event::Objects),
        3 => who.clone().prop_map(Event::Pods),
        3 => (0..6_usize).prop_map(Event::Kubelet),
        1 => (1..4_u8).prop_map(Event::Image),
        1 => (1..3_u8).prop_map(Event::Command),
        2 => who.prop_map(Event::Operate),
    ]
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![17 => usual(), 1 => (0..6_usize).prop_map(Event::Delete)];
    prop::collection::vec(event, 0..120)
}

fn events_of_users() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        16 => usual(),
        1 => (1..5_i64).prop_map(Event::Replicas),
        2 => (0..6_usize, any::<bool>()).prop_map(|(index, is_wanted)| Event::Replace(index, is_wanted)),
        1 => (0..6_usize).prop_map(Event::Exclude),
        1 => any::<bool>().prop_map(Event::Policy),
        1 => (1..4_u8, 0..2_u8, 0..3_u8).prop_map(|(image, args, kept)| Event::Decorate(image, args, kept)),
        1 => Just(Event::Undecorate),
    ];
    (any::<bool>(), prop::collection::vec(event, 0..150), (0..6_usize).prop_map(Event::Delete)).prop_map(
        |(deletes, mut events, deletion)| {
            if deletes {
                let at = events.len() / 2;
                events.insert(at, deletion);
            }
            events
        },
    )
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
                cluster.others_delete = true;
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
        Event::Replicas(replicas) => cluster.change(|spec| spec["replicas"] = json!(replicas)),
        Event::Replace(index, is_wanted) => {
            if let Some((_, name)) = pod_key(cluster, index) {
                cluster.label(&name, "collaset.kusionstack.io/to-replace", is_wanted.then_some("true"));
            }
        }
        Event::Exclude(index) => {
            if let Some((_, name)) = pod_key(cluster, index) {
                cluster.label(&name, "collaset.kusionstack.io/to-exclude", Some("true"));
            }
        }
        Event::Policy(replaces) => cluster.change(|spec| {
            let policy = if replaces { "Replace" } else { "InPlaceIfPossible" };
            spec["updateStrategy"] = json!({"podUpgradePolicy": policy});
        }),
        Event::Decorate(image, args, kept) => {
            let mut spec = sidecar("log", &format!("log:v{image}"));
            spec["template"]["containers"][0]["args"] = json!([args.to_string()]);
            spec["updateStrategy"] = json!({"rollingUpdate": {"partition": kept}});
            decorate(cluster, "log", &spec);
        }
        Event::Undecorate => undecorate(cluster, "log"),
    }
}

/// What must be true whatever happens: `more` than wanted may be there at most.
fn check(events: Vec<Event>, more: usize) -> Result<(), TestCaseError> {
    let mut cluster = Cluster::with(REPLICAS, &json!({}));
    let mut seen = [Seen::of(&cluster), Seen::of(&cluster)];
    let mut most = 3;
    for event in events {
        happen(event, &mut cluster, &mut seen);
        most = most.max(usize::try_from(cluster.set()["spec"]["replicas"].as_i64().unwrap()).unwrap());
        // Whose id is given up is about to be deleted, as those are that a ReplicaSet does not count any more.
        let given_up = cluster.given_up();
        let stays = |pod: &&&serde_json::Value| !given_up.contains(pod["metadata"]["name"].as_str().unwrap());
        let pods = cluster.own_pods().iter().filter(stays).count();
        prop_assert!(pods <= most + more, "after {event:?} there are {pods} pods, wanted were {most} at most");
    }
    settle(&mut cluster, true);
    let spec = &cluster.set()["spec"];
    let image = spec["template"]["spec"]["containers"][0]["image"].clone();
    let contexts = &cluster.objects[&("ResourceContext".to_owned(), "web".to_owned())]["spec"]["contexts"];
    let alive: BTreeSet<&str> =
        contexts.as_array().unwrap().iter().filter_map(|each| each["data"]["hitless.dev/pod"].as_str()).collect();
    let own = cluster.own_pods();
    let decoration = cluster.objects.get(&("PodDecoration".to_owned(), "log".to_owned()));
    let wanted = decoration.map(|decoration| &decoration["spec"]["template"]["containers"][0]["image"]);
    let kept = decoration.and_then(|decoration| {
        usize::try_from(decoration["spec"]["updateStrategy"]["rollingUpdate"]["partition"].as_u64()?).ok()
    });
    let with = |is: &dyn Fn(&str) -> bool| {
        own.iter().filter(|pod| containers(pod).iter().any(|(name, image)| name == "log" && is(image))).count()
    };
    let least = own.len().saturating_sub(kept.unwrap_or_default());
    let (now, all) = (with(&|image| wanted.is_some_and(|wanted| *wanted == image)), with(&|_| true));
    prop_assert!(if wanted.is_some() { now >= least } else { all == 0 }, "{now} of {all} have the sidecar {wanted:?}");
    prop_assert_eq!(i64::try_from(own.len()).unwrap(), spec["replicas"].as_i64().unwrap());
    let names: BTreeSet<&str> = own.iter().map(|pod| pod["metadata"]["name"].as_str().unwrap()).collect();
    prop_assert_eq!(alive, names);
    for pod in own {
        prop_assert_eq!(&pod["spec"]["containers"][0]["image"], &image);
        let labels = pod["metadata"]["labels"].as_object().unwrap();
        let told = ["to-replace", "replace-pair-new-id", "replace-pair-origin-name", "replaced-by-replace-update"];
        prop_assert!(
            told.iter().all(|name| !labels.contains_key(&format!("collaset.kusionstack.io/{name}"))),
            "{labels:?}"
        );
    }
    let has_left =
        |pod: &&serde_json::Value| pod["metadata"]["uid"].as_str().is_some_and(|uid| cluster.left.contains(uid));
    prop_assert!(!cluster.own_pods().iter().any(has_left), "nobody puts a pod back that has left for good");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, ..ProptestConfig::default() })]

    #[test]
    fn there_is_never_a_pod_too_many_and_in_the_end_all_are_there(events in events()) {
        check(events, 0)?;
    }

    #[test]
    fn who_scales_replaces_and_excludes_gets_it_and_never_a_pod_too_many(events in events_of_users()) {
        check(events, SURGE)?;
    }
}

#[test]
fn a_pod_that_is_seen_leaving_may_be_gone_and_made_anew() {
    let act = |who, writes| Event::Act { who, writes };
    // The second controller makes a pod. Somebody deletes it, and the first controller sees it leave.
    let leaves = [act(1, 2), act(1, 3), Event::Delete(0), Event::Pods(0)];
    // It goes, and the second controller makes it anew, and two more.
    let anew = [Event::Kubelet(0), act(1, 3), act(1, 3), Event::Kubelet(0), Event::Pods(1)];
    // The first controller has read the objects anew, but still sees the pod that is gone.
    let late = [act(1, 3), Event::Objects(0), act(0, 8)];
    check([leaves.to_vec(), anew.to_vec(), late.to_vec()].concat(), 0).unwrap();
}
