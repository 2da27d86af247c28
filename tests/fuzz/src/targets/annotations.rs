//! Annotations of a pod: how it is drained, in which mode, its hooks, which rules it skips; and a DrainPolicy beside them.

use std::collections::BTreeSet;

use hitless_api::names::annotations::{DRAIN, HOOKS, MODE, SKIP_RULES};
use hitless_api::pod::PodView;
use hitless_api::{DesiredMode, DrainOverrides, DrainSpec, Hook, InvalidDrain};
use hitless_gate::Candidate;
use k8s_openapi::api::core::v1::Pod;

use crate::Target;
use crate::json::written;
use crate::parts::{BETWEEN, joined, texts};

pub(crate) const TARGET: Target = Target { name: "annotations", run, seeds, words: &WORDS };

const WORDS: [&str; 40] = [
    BETWEEN,
    "\"minSeconds\":",
    "\"stragglerAfterSeconds\":",
    "\"stragglers\":",
    "\"Wait\"",
    "\"Close\"",
    "\"Destroy\"",
    "\"Abort\"",
    "\"deadlineSeconds\":",
    "\"idleAfterSeconds\":",
    "\"holdCapMilliseconds\":",
    "\"ports\":",
    "\"port\":",
    "\"treat\":",
    "\"http1\"",
    "\"http2\"",
    "\"tcp\"",
    "\"udp\"",
    "\"ignore\"",
    "Auto",
    "Leave",
    "Hold",
    "\"name\":",
    "\"when\":",
    "\"BeforeDrain\"",
    "\"AfterDrain\"",
    "\"AfterStart\"",
    "\"http\":",
    "\"path\":",
    "\"method\":",
    "\"scheme\":",
    "\"exec\":",
    "\"container\":\"web\"",
    "\"command\":",
    "\"timeoutSeconds\":",
    "\"retries\":",
    "\"failurePolicy\":",
    "\"Ignore\"",
    "\"skipRules\":",
    "null",
];

const POD: &str = r#"{"metadata": {"name": "a", "namespace": "shop", "uid": "u"}, "spec": {"containers": [
    {"name": "web", "ports": [{"containerPort": 80, "name": "http"}, {"containerPort": 81}, {"containerPort": 53, "protocol": "UDP"}]}]}}"#;

fn seeds() -> Vec<Vec<u8>> {
    let drain = r#"{"minSeconds": 2, "stragglerAfterSeconds": 30, "stragglers": "Abort", "deadlineSeconds": 90, "idleAfterSeconds": 5,
        "holdCapMilliseconds": 900, "ports": [{"port": 80, "treat": "ignore"}, {"port": 9000, "treat": "http2"}]}"#;
    let http = r#"[{"name": "ask", "when": "BeforeDrain", "http": {"port": 80, "path": "/hook"}, "retries": 0}]"#;
    let exec = r#"[{"name": "run", "when": "AfterDrain", "exec": {"container": "web", "command": ["sh", "-c", "true"]}, "failurePolicy": "Ignore"}]"#;
    let ports: Vec<String> = (1..=64).map(|port| format!(r#"{{"port": {port}, "treat": "tcp"}}"#)).collect();
    let many = format!(r#"{{"ports": [{}]}}"#, ports.join(","));
    vec![
        joined(&[drain, "Hold", http, "{}", r#"{"skipRules": ["a", "b"]}"#]),
        joined(&[r#"{"deadlineSeconds": 90}"#, "Leave", exec, drain, ""]),
        joined(&["{}", "auto", "[]", &many]),
        joined(&[&many]),
    ]
}

fn run(data: &[u8]) {
    let texts = texts(data);
    let mut pod = PodView::from(&serde_json::from_str::<Pod>(POD).expect("the pod of this target"));
    for (name, text) in [DRAIN, MODE, HOOKS].into_iter().zip(&texts) {
        pod.annotations.insert(name.to_owned(), text.clone());
    }
    if let Some(skips) = texts.get(4) {
        pod.annotations.insert(SKIP_RULES.to_owned(), skips.clone());
    }
    let policy = texts.get(3).and_then(|text| serde_json::from_str::<DrainOverrides>(text).ok());

    let wrong: BTreeSet<&str> = InvalidDrain::in_annotations(&pod).into_iter().map(|(name, _)| name).collect();
    drain(&pod, policy.as_ref(), wrong.contains(DRAIN));
    assert_eq!(DesiredMode::of(&pod).is_err(), wrong.contains(MODE));
    hooks(&pod, wrong.contains(HOOKS));
    skips(&pod);
}

/// `pod` with another text in an annotation.
fn with(pod: &PodView, name: &str, text: String) -> PodView {
    let mut pod = pod.clone();
    pod.annotations.insert(name.to_owned(), text);
    pod
}

fn drain(pod: &PodView, policy: Option<&DrainOverrides>, is_wrong: bool) {
    let spec = match DrainSpec::of(pod) {
        Ok(spec) => spec,
        Err(error) => return assert!(is_wrong && !error.to_string().is_empty()),
    };
    assert!(!is_wrong);
    assert!(spec.min_seconds <= DrainSpec::LONGEST_MIN_SECONDS, "{spec:?}");
    assert!((1..=DrainSpec::LONGEST_HOLD_MILLISECONDS).contains(&spec.hold_cap_milliseconds), "{spec:?}");
    let day = DrainSpec::LONGEST_DEADLINE_SECONDS;
    assert!(spec.deadline_seconds <= day && spec.straggler_after_seconds <= day, "{spec:?}");
    assert!(spec.idle_after_seconds.is_none_or(|seconds| (1..=day).contains(&seconds)), "{spec:?}");
    let ports: BTreeSet<u16> = spec.ports.iter().map(|known| known.port).collect();
    assert!(ports.len() == spec.ports.len() && ports.len() <= DrainSpec::MAX_PORTS, "{spec:?}");
    assert_eq!(DrainSpec::of(&with(pod, DRAIN, written(&spec))), Ok(spec), "written as an annotation it says the same");

    // The annotation is stronger than a policy, in each of its fields and ports.
    let own = pod.annotations.get(DRAIN).and_then(|text| serde_json::from_str::<DrainOverrides>(text).ok());
    let (Some(policy), Some(own)) = (policy, own) else { return };
    let both = DrainSpec::resolve(pod, &[policy], |_| None).expect("only the annotation can be wrong");
    assert!(own.min_seconds.is_none_or(|wanted| wanted == both.min_seconds));
    assert!(own.deadline_seconds.is_none_or(|wanted| wanted == both.deadline_seconds));
    assert!(own.stragglers.is_none_or(|wanted| wanted == both.stragglers));
    assert!(both.ports.len() <= DrainSpec::MAX_PORTS);
    for port in own.ports.iter().map(|wanted| wanted.port) {
        let wanted = own.ports.iter().rfind(|wanted| wanted.port == port).map(|wanted| wanted.treat);
        assert_eq!(Some(both.treatment(port)), wanted, "port {port} of the annotation, beside a policy");
    }
}

fn hooks(pod: &PodView, is_wrong: bool) {
    let hooks = match Hook::of(pod) {
        Ok(hooks) => hooks,
        Err(error) => return assert!(is_wrong && !error.to_string().is_empty()),
    };
    let names: BTreeSet<&str> = hooks.iter().map(|hook| hook.name.as_str()).collect();
    assert!(!is_wrong && names.len() == hooks.len() && names.len() <= Hook::MAX);
    assert!(hooks.iter().all(|hook| hook.call().is_some()), "it says what is called");
    assert!(hooks.iter().filter_map(|hook| hook.exec.as_ref()).all(|exec| exec.container == "web"));
    let text = written(&hooks);
    assert!(text.len() <= Hook::LARGEST_TOGETHER, "{} bytes", text.len());
    assert_eq!(Hook::of(&with(pod, HOOKS, text)), Ok(hooks), "written as an annotation they are the same");
}

/// Nobody is excused by what can't be read.
fn skips(pod: &PodView) {
    let text = pod.annotations.get(SKIP_RULES).map_or("", String::as_str);
    let read = hitless_gate::facts::parse_skipped_rules(text);
    assert_eq!(Candidate::of(pod, "u.update").skips, read.unwrap_or_default());
}
