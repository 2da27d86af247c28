//! Any order: two controllers that see the cluster late and are killed between any two writes, kubelets, agents, and a user who scales, updates
//! and deletes pods.

use proptest::prelude::*;
use serde_json::json;

use super::cluster::{Cluster, Seen, carry_out_plan, settle};

#[derive(Clone, Copy, Debug)]
enum Step {
    /// One of the controllers sees the objects, or the pods, as they are now.
    FollowObjects(usize),
    FollowPods(usize),
    /// It carries out so many writes of its plan.
    Act(usize, usize),
    Kubelets,
    /// Agents do so much of what is wished.
    Operate(usize),
    Scale(usize),
    Image(bool),
    Partition(usize),
    DeletePod(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..2_usize).prop_map(Step::FollowObjects),
        4 => (0..2_usize).prop_map(Step::FollowPods),
        8 => (0..2_usize, 0..8_usize).prop_map(|(who, most)| Step::Act(who, most)),
        4 => Just(Step::Kubelets),
        3 => (1..3_usize).prop_map(Step::Operate),
        1 => (0..5_usize).prop_map(Step::Scale),
        1 => any::<bool>().prop_map(Step::Image),
        1 => (0..4_usize).prop_map(Step::Partition),
        1 => (0..5_usize).prop_map(Step::DeletePod),
    ]
}

fn run(fields: &serde_json::Value, steps: &[Step]) {
    let mut cluster = Cluster::with(3, fields);
    let surge = 1;
    let mut seen = [Seen::of(&cluster), Seen::of(&cluster)];
    // As many pods as were ever wanted at a time may be there, and the extra one.
    let mut most = 3;
    for step in steps {
        match *step {
            Step::FollowObjects(who) => seen[who].follow_objects(&cluster),
            Step::FollowPods(who) => seen[who].follow_pods(&cluster),
            Step::Act(who, count) => {
                let plan = seen[who].plan(&cluster.left);
                carry_out_plan(&mut cluster, &mut seen[who], &plan, count);
            }
            Step::Kubelets => cluster.kubelets(),
            Step::Operate(count) => {
                let plan = Seen::of(&cluster).plan(&cluster.left);
                cluster.operate(&plan, count);
            }
            Step::Scale(replicas) => {
                most = most.max(replicas);
                cluster.change(|spec| spec["replicas"] = json!(replicas));
            }
            Step::Image(is_new) => cluster.image(if is_new { "web:v2" } else { "web:v1" }),
            Step::Partition(kept) => cluster.change(|spec| spec["updateStrategy"]["partition"] = json!(kept)),
            Step::DeletePod(index) => {
                if let Some(name) = cluster.pod_names().into_iter().nth(index) {
                    cluster.delete_pod(&name);
                }
            }
        }
        let there = cluster.pod_names().difference(&cluster.given_up()).count();
        assert!(there <= most + surge, "{there} pods, and {most} were wanted at most");
    }
    settle(&mut cluster);
    let wanted = usize::try_from(cluster.set()["spec"]["replicas"].as_i64().unwrap()).unwrap();
    assert_eq!(cluster.pods().len(), wanted);
    let claims: std::collections::BTreeSet<String> =
        cluster.pod_names().into_iter().map(|pod| format!("data-{pod}")).collect();
    if fields.get("volumeClaimTemplates").is_some() {
        assert_eq!(cluster.names("PersistentVolumeClaim"), claims);
    }
    let kept = cluster.set()["spec"]["updateStrategy"]["partition"].as_u64().unwrap_or_default();
    let image = cluster.set()["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap().to_owned();
    let updated = cluster.count(&image);
    assert!(
        updated + usize::try_from(kept).unwrap() >= wanted,
        "{updated} of {wanted} are at {image}, and {kept} may stay"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn no_pod_is_too_many_and_none_is_stuck_in_place(steps in prop::collection::vec(step(), 1..60)) {
        run(&json!({"updateStrategy": {"type": "InPlaceIfPossible", "maxSurge": 1}}), &steps);
    }

    #[test]
    fn no_pod_is_too_many_and_none_is_stuck_by_new_pods(steps in prop::collection::vec(step(), 1..60)) {
        run(&json!({"updateStrategy": {"maxSurge": 1}}), &steps);
    }

    #[test]
    fn no_claim_is_lost_or_left(steps in prop::collection::vec(step(), 1..60)) {
        let claims = json!([{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]);
        run(&json!({"volumeClaimTemplates": claims, "updateStrategy": {}}), &steps);
    }
}
