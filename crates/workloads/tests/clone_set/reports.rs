//! The condition `Progressing`.

use serde_json::json;

use super::cluster::{Cluster, NOW, Seen, carry_out_plan, rest, settle};

const LATE: &str = "2026-11-23T00:02:00Z";

fn progressing(cluster: &Cluster) -> (String, String) {
    let all = cluster.set()["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let condition = all.into_iter().find(|condition| condition["type"] == "Progressing").unwrap_or_default();
    let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    (text("status"), text("reason"))
}

fn at(cluster: &mut Cluster, now: &str) {
    let mut seen = Seen::of(cluster);
    let plan = seen.plan_at(&cluster.left, now);
    carry_out_plan(cluster, &mut seen, &plan, usize::MAX);
}

fn says(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

#[test]
fn the_deadline_runs_from_progress_and_a_new_template_ends_it() {
    let fields = json!({"progressDeadlineSeconds": 60, "updateStrategy": {"type": "InPlaceIfPossible"}});
    let mut cluster = Cluster::running(3, &fields);
    assert_eq!(progressing(&cluster), says("True", "CloneSetAvailable"));
    cluster.image("web:v2");
    let plan = rest(&mut cluster, true);
    assert_eq!(progressing(&cluster), says("True", "CloneSetUpdated"));
    let plan_wakes = Seen::of(&cluster).plan(&cluster.left).wake_at;
    assert_eq!(plan_wakes.map(|wake| wake.to_string()).as_deref(), Some("2026-11-23T00:01:00Z"));
    // One pod of three: that is progress, however late.
    cluster.operate(&plan, 1);
    // The journal first, the status in the round after.
    at(&mut cluster, LATE);
    at(&mut cluster, LATE);
    assert_eq!(progressing(&cluster), says("True", "CloneSetUpdated"));
    let much_later = "2026-11-23T00:03:30Z";
    at(&mut cluster, much_later);
    assert_eq!(progressing(&cluster), says("False", "ProgressDeadlineExceeded"));
    at(&mut cluster, "2026-11-23T00:09:00Z");
    assert_eq!(progressing(&cluster), says("False", "ProgressDeadlineExceeded"), "it stays until something gets on");
    cluster.image("web:v3");
    rest(&mut cluster, true);
    assert_eq!(progressing(&cluster), says("True", "CloneSetUpdated"));
    settle(&mut cluster);
    assert_eq!(progressing(&cluster), says("True", "CloneSetAvailable"));
}

#[test]
fn pauses_and_partitions_have_reasons_of_their_own() {
    let fields =
        json!({"progressDeadlineSeconds": 60, "updateStrategy": {"type": "InPlaceIfPossible", "partition": 2}});
    let mut cluster = Cluster::running(3, &fields);
    cluster.image("web:v2");
    settle(&mut cluster);
    assert_eq!((progressing(&cluster), cluster.count("web:v2")), (says("True", "ProgressPartitionAvailable"), 1));
    cluster.change(|spec| spec["updateStrategy"]["paused"] = json!(true));
    at(&mut cluster, NOW);
    assert_eq!(progressing(&cluster), says("True", "CloneSetPaused"));
    cluster.change(|spec| spec["progressDeadlineSeconds"] = json!(null));
    at(&mut cluster, NOW);
    assert_eq!(progressing(&cluster), says("", ""));
}
