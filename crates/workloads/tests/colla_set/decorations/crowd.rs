//! More PodDecorations in a namespace than are looked at.

use hitless_api::crowd;
use hitless_workloads::Stage;
use serde_json::json;

use super::{decorate, images, key, next, running, sidecar};
use crate::cluster::{Cluster, settle};

/// Somebody makes as many as count, none of which selects a pod.
fn crowd(cluster: &mut Cluster) {
    for number in 0..crowd::MOST {
        let mut spec = sidecar("other", "other:v1");
        spec["selector"] = json!({"matchLabels": {"app": "other"}});
        let name = format!("other-{number:04}");
        decorate(cluster, &name, &spec);
        made_at(cluster, &name, "2026-11-01T00:00:00Z");
    }
}

fn made_at(cluster: &mut Cluster, name: &str, time: &str) {
    if let Some(object) = cluster.objects.get_mut(&key(name)) {
        object["metadata"]["creationTimestamp"] = json!(time);
    }
}

#[test]
fn the_oldest_count_and_pods_that_have_another_one_stay_as_they_are() {
    let mut cluster = running(2, &json!({}));
    made_at(&mut cluster, "log", "2026-10-01T00:00:00Z");
    crowd(&mut cluster);
    let uids = cluster.uids();
    decorate(&mut cluster, "log", &sidecar("log", "log:v2"));
    settle(&mut cluster, true);
    assert_eq!((cluster.uids(), images(&cluster, "log")), (uids.clone(), vec!["log:v2".to_owned(); 2]));
    let last = format!("other-{:04}", crowd::MOST - 1);
    let notes = next(&cluster).notes;
    assert!(notes.iter().any(|note| note.reason == "TooMany" && note.text.contains("501 PodDecorations")), "{notes:?}");

    made_at(&mut cluster, "log", "2026-12-01T00:00:00Z");
    decorate(&mut cluster, "log", &sidecar("log", "log:v3"));
    settle(&mut cluster, true);
    assert_eq!((cluster.uids(), images(&cluster, "log")), (uids, vec!["log:v2".to_owned(); 2]), "none loses it");
    let Stage::Refused(because) = next(&cluster).stage else { panic!("{:?}", next(&cluster).stage) };
    assert!(because.text.contains("log is not among them"), "{}", because.text);
    cluster.objects.remove(&key(&last));
    settle(&mut cluster, true);
    assert_eq!(images(&cluster, "log"), ["log:v3", "log:v3"], "it counts again");
}
