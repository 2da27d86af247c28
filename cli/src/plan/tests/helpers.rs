use super::super::helpers::note;
use super::super::target::change;
use super::*;
use crate::scene::{idle, with_annotation};
use crate::trial::{Answer, Tried};
use hitless_rollout::beforehand::{Helper, trials};

const LINE: [&str; 3] = ["deployment/web", "--image", "web:v3"];

/// The plan, where the API server refuses each of these pods in these words; and what is said besides.
fn planned(snapshot: &Snapshot, refused: Helper, words: &str) -> (Report, Vec<String>) {
    let (mut snapshot, arguments) = (snapshot.clone(), arguments(&LINE));
    let changed = change(&snapshot, &arguments.target, &arguments.images, &arguments.labels).unwrap();
    let Way::InPlace(prepared) = changed.way else { panic!("not in place") };
    let found = prepared.find(&arguments.target).unwrap();
    let workload = found.workload.unwrap();
    let all = trials(&prepared.cluster, workload, &found.pods).into_iter().map(|trial| {
        let answer = if trial.helper == refused { Answer::Refused(words.to_owned()) } else { Answer::Accepted };
        let tried = Tried::of(&trial, answer, workload);
        (trial, tried)
    });
    let all: Vec<_> = all.collect();
    let notes = note(&mut snapshot, &all, &["web:v3"].into(), now());
    (live(&snapshot, &LINE).unwrap(), notes)
}

fn deployment() -> Snapshot {
    idle(&[pod("a", "web:v2"), pod("b", "web:v2")])
}

#[test]
fn where_the_pod_that_would_fetch_is_refused_by_a_policy_the_plan_is_native_and_says_so() {
    let policy = "admission webhook \"policy\" denied the request: label team is missing";
    let (report, notes) = planned(&deployment(), Helper::Prefetch, policy);
    assert_eq!(report.way, "Native");
    assert!(report.why.contains(policy) && report.why.contains("web:v3"), "{}", report.why);
    assert!(notes.len() == 1 && notes[0].contains("go natively"), "{notes:?}");
    let (report, _) = planned(&deployment(), Helper::Prefetch, "exceeded quota: q, requested: pods=1");
    assert_eq!(report.way, "InPlace", "the kubelet pulls");
    let only = with_annotation(deployment(), "hitless.dev/update", "in-place-only");
    assert!(planned(&only, Helper::Prefetch, policy).0.why.contains(policy));
}

#[test]
fn where_the_companion_is_refused_no_plan_counts_on_one() {
    let single = with_annotation(idle(&[pod("a", "web:v2")]), "hitless.dev/companion", "Auto");
    let single = with_service(single, &json!({"port": 80}));
    let words = |report: &Report| text::render(report);
    let (without, notes) = planned(&single, Helper::Companion, "exceeded quota: q");
    let with = live(&single, &LINE).unwrap();
    assert!(words(&with).contains("ompanion") && words(&with) != words(&without), "{}", words(&with));
    assert!(notes[0].starts_with("companion pod: would be refused: exceeded quota: q; then its pods"), "{notes:?}");
}
