use hitless_api::clone_set::LifecycleHook;
use k8s_openapi::api::core::v1::Pod;

use super::*;

const LABEL: &str = "example.com/registered";
const FINALIZER: &str = "example.com/registry";

/// Whether the label and the finalizer are on the pod.
type On = (bool, bool);

const BOTH: On = (true, true);
const HALF: On = (true, false);
const NONE: On = (false, false);

fn pod(state: &str, (label, finalizer): On, node: Option<&str>) -> PodView {
    let mut pod = json!({"metadata": {"name": "web-aaaaa", "uid": "u", "resourceVersion": "7", "labels": {}}, "spec": {"containers": []}});
    if !state.is_empty() {
        pod["metadata"]["labels"][names::LIFECYCLE_STATE] = json!(state);
    }
    if label {
        pod["metadata"]["labels"][LABEL] = json!("yes");
    }
    if finalizer {
        pod["metadata"]["finalizers"] = json!(["other.example.com/x", FINALIZER]);
    }
    pod["spec"]["nodeName"] = json!(node);
    PodView::from(&serde_json::from_value::<Pod>(pod).unwrap())
}

fn hook() -> LifecycleHook {
    let finalizers_handler = vec![FINALIZER.to_owned()];
    LifecycleHook {
        labels_handler: [(LABEL.to_owned(), "yes".to_owned())].into(),
        finalizers_handler,
        ..LifecycleHook::default()
    }
}

fn all() -> Lifecycle {
    Lifecycle { pre_normal: Some(hook()), pre_delete: Some(hook()), in_place_update: Some(hook()) }
}

fn after(hooks: &Lifecycle, state: &str, is_on: On, doing: Doing) -> &'static str {
    let pod = pod(state, is_on, Some("n1"));
    next(hooks, &pod, doing, false).unwrap_or(State::of(&pod)).as_str()
}

/// facts/openkruise.md §2.8: "hooked" is any of the hook, "all hooked" is all of it.
#[test]
fn each_row_of_upstreams_table() {
    let rows = [
        ("PreparingNormal", HALF, Doing::Nothing, "PreparingNormal"),
        ("PreparingNormal", BOTH, Doing::Nothing, "Normal"),
        ("", HALF, Doing::Updating, "PreparingUpdate"),
        ("Normal", BOTH, Doing::Updating, "PreparingUpdate"),
        ("PreparingNormal", BOTH, Doing::Updating, "PreparingUpdate"),
        ("Normal", NONE, Doing::Updating, "Updating"),
        ("PreparingDelete", HALF, Doing::Updating, "PreparingUpdate"),
        ("PreparingUpdate", HALF, Doing::Updating, "PreparingUpdate"),
        ("PreparingUpdate", NONE, Doing::Updating, "Updating"),
        ("PreparingUpdate", HALF, Doing::Nothing, "Updated"),
        ("PreparingUpdate", BOTH, Doing::Nothing, "Normal"),
        ("Updating", NONE, Doing::Updating, "Updating"),
        ("Updating", NONE, Doing::Nothing, "Updated"),
        ("Updating", BOTH, Doing::Nothing, "Normal"),
        ("Updated", HALF, Doing::Nothing, "Updated"),
        ("Updated", BOTH, Doing::Nothing, "Normal"),
        ("Updated", NONE, Doing::Updating, "PreparingUpdate"),
        ("Normal", HALF, Doing::Leaving, "PreparingDelete"),
        ("Updated", BOTH, Doing::Leaving, "PreparingDelete"),
        ("PreparingDelete", NONE, Doing::Leaving, "PreparingDelete"),
        ("Normal", NONE, Doing::Leaving, "Normal"),
        ("PreparingDelete", HALF, Doing::Nothing, "PreparingNormal"),
        ("Normal", NONE, Doing::Nothing, "Normal"),
        ("Sideways", NONE, Doing::Nothing, "Normal"),
    ];
    for (state, is_on, doing, wanted) in rows {
        assert_eq!(after(&all(), state, is_on, doing), wanted, "{state} {is_on:?} {doing:?}");
    }
}

#[test]
fn without_a_hook_the_state_only_goes_back_to_normal() {
    let none = Lifecycle::default();
    for state in ["", "Normal", "PreparingUpdate", "Updating", "Updated"] {
        assert_eq!(after(&none, state, NONE, Doing::Nothing), "Normal", "{state}");
    }
    assert_eq!(after(&none, "", BOTH, Doing::Updating), "Normal", "no write");
    assert_eq!(after(&none, "", BOTH, Doing::Leaving), "Normal", "no write");
    let unscheduled = pod("PreparingNormal", NONE, None);
    assert_eq!(next(&none, &unscheduled, Doing::Nothing, false), None, "upstream waits for a node");
    assert_eq!(after(&none, "PreparingNormal", NONE, Doing::Nothing), "Normal");
}

#[test]
fn who_is_named_stays_preparing_for_its_deletion() {
    let pod = pod("PreparingDelete", BOTH, Some("n1"));
    assert_eq!(next(&all(), &pod, Doing::Nothing, true), None);
    assert_eq!(next(&all(), &pod, Doing::Nothing, false), Some(State::PreparingNormal));
}

#[test]
fn a_state_is_written_with_its_time_and_a_pod_that_is_asked_once_more_gets_the_hook_back() {
    let now: Timestamp = "2026-11-30T09:00:00.7Z".parse().unwrap();
    let patch = |state: &str, is_on: On, next: State| patch(&all(), &pod(state, is_on, Some("n1")), next, now);
    let plain = json!({"metadata": {"uid": "u", "resourceVersion": "7",
        "labels": {"lifecycle.apps.kruise.io/state": "Updated"},
        "annotations": {"lifecycle.apps.kruise.io/timestamp": "2026-11-30T09:00:01Z"}}});
    assert_eq!(patch("Updating", NONE, State::Updated), plain);
    let again = patch("Updated", NONE, State::PreparingUpdate);
    assert_eq!(
        (&again["metadata"]["labels"][LABEL], &again["metadata"]["finalizers"]),
        (&json!("yes"), &json!([FINALIZER]))
    );
    // Finalizers of others stay, and those that are all there are not written.
    let kept = patch("Updated", (false, true), State::PreparingUpdate);
    assert_eq!((&kept["metadata"]["labels"][LABEL], &kept["metadata"]["finalizers"]), (&json!("yes"), &Value::Null));
}
