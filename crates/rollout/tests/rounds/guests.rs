//! Labels that an administrator wants the pods to have that fetch images.

use std::collections::BTreeMap;
use std::sync::Arc;

use hitless_rollout::prefetch::Settings;
use hitless_rollout::round::Round;
use hitless_rollout::snapshot::Snapshot;
use k8s_openapi::api::core::v1::Service;
use serde_json::json;

use crate::refusals::unfetched;
use crate::scene::{decide, written};

fn with(labels: &str, selector: &serde_json::Value) -> Snapshot {
    let service: Service = serde_json::from_value(
        json!({"metadata": {"name": "front", "namespace": "shop"}, "spec": {"selector": selector}}),
    )
    .unwrap();
    let settings = Settings { labels: labels.parse().unwrap(), ..Settings::default() };
    let services = vec![Arc::new((&service).into())];
    Snapshot { prefetch_settings: Arc::new(settings), services, ..unfetched() }
}

/// Labels of the pod that is made, and what is told of it.
fn made(round: &Round) -> (Vec<String>, Option<&str>) {
    let labels: BTreeMap<String, String> = written(round, "prefetch")[0].content("/metadata/labels").unwrap();
    // Those that each has are labels of projects.
    let extra = labels.into_keys().filter(|name| !name.contains('/')).collect();
    let told = round.events.iter().find(|event| event.reason == "PrefetchLabelsLeftOut");
    (extra, told.map(|event| event.text.as_str()))
}

#[test]
fn a_pod_that_fetches_has_the_labels_that_are_wanted_and_those_of_a_service_are_left_out_and_told() {
    let round = decide(&with("team=a,app", &json!({"app": "none of them"})));
    let (labels, told) = made(&round);
    assert_eq!((labels, told), (vec!["app".to_owned(), "team".to_owned()], None));
    let round = decide(&with("team=a,app", &json!({"app": "web"})));
    let (labels, told) = made(&round);
    assert_eq!(labels, ["team"]);
    assert!(told.unwrap().contains("app, by which Service front would select them"), "{told:?}");
    let event = round.events.iter().find(|event| event.reason == "PrefetchLabelsLeftOut").unwrap();
    assert_eq!(event.regarding.kind.as_deref(), Some("StatefulSet"));
}
