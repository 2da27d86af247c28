//! `why` says of each pod what the controller's round does: whatever the cluster looks like.

mod cluster;

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::Grant;
use hitless_rollout::gate_cache::GateCache;
use hitless_rollout::round::write::{node_content, service};
use hitless_rollout::round::{Round, WaitReason, round};
use hitless_rollout::snapshot::Snapshot as Cluster;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use serde_json::Value;

use super::*;
use cluster::{Draw, draw, now};

/// Snapshots over which all reasons have to come up.
const DRAWS: usize = 2_000;

/// Every reason. A new one is added here, and has to come up.
const REASONS: [&str; 26] = [
    "InProgress",
    "ReleasePending",
    "PodNotCached",
    "Rules",
    "Obstacle",
    "InvalidDrain",
    "NoReadinessGate",
    "HooksUnsupported",
    "ServicePublishing",
    "ServiceOpen",
    "ServiceBusy",
    "TooLarge",
    "HostNetwork",
    "StaticPod",
    "Job",
    "Terminating",
    "NotScheduled",
    "NodeGone",
    "AgentNotReady",
    "NodeFull",
    "ImagePulling",
    "ImageNotFetched",
    "Learning",
    "PrefetchOnly",
    "LedgerFull",
    "Halted",
];

/// The name of the variant in [`REASONS`].
fn variant(waiting: &WaitReason) -> &'static str {
    match waiting {
        WaitReason::Obstacle(_) => "Obstacle",
        WaitReason::InProgress
        | WaitReason::ReleasePending
        | WaitReason::PodNotCached
        | WaitReason::Rules
        | WaitReason::Drain(_)
        | WaitReason::NoReadinessGate(_)
        | WaitReason::HooksUnsupported { .. }
        | WaitReason::ServicePublishing(_)
        | WaitReason::ServiceOpen(_)
        | WaitReason::ServiceBusy { .. }
        | WaitReason::SiblingAway(_)
        | WaitReason::TooLarge(_)
        | WaitReason::HostNetwork
        | WaitReason::StaticPod
        | WaitReason::Job
        | WaitReason::Terminating
        | WaitReason::NotScheduled
        | WaitReason::NodeGone(_)
        | WaitReason::PullSecretsChanged(_)
        | WaitReason::Behind { .. }
        | WaitReason::AgentNotReady { .. }
        | WaitReason::NoAgentPossible(_)
        | WaitReason::NodeFull(_)
        | WaitReason::ImagePulling { .. }
        | WaitReason::ImageNotFetched { .. }
        | WaitReason::Learning(_)
        | WaitReason::Companion { .. }
        | WaitReason::MadeAnew
        | WaitReason::PrefetchOnly
        | WaitReason::Paused { .. }
        | WaitReason::Dependency(_)
        | WaitReason::Reload
        | WaitReason::NamespaceUnread(_)
        | WaitReason::OwnerUnreadable(_)
        | WaitReason::LeftToForeignManager(_)
        | WaitReason::LedgerFull
        | WaitReason::Pool { .. }
        | WaitReason::AgentTooOld { .. }
        | WaitReason::NotDrained(_)
        | WaitReason::ApplicationRefused(_)
        | WaitReason::Natively(_)
        | WaitReason::LossExpected(_)
        | WaitReason::Halted { .. } => waiting.reason(),
    }
}

/// What `why pod/NAME -o json` prints.
fn printed(snapshot: &Snapshot, name: &str) -> Value {
    let named = Named { kind: Some(TargetKind::Pod), name: name.to_owned() };
    let answer = serde_json::to_value(explain(snapshot, &named, now()).unwrap()).unwrap();
    answer["pods"][0].clone()
}

/// Grants that the round adds, by uid.
fn granted(cluster: &Cluster, round: &Round) -> BTreeMap<String, Grant> {
    let is_known = |grant: &Grant| {
        let mut known = cluster.node_transitions.values().flat_map(|node| &node.spec.grants);
        known.any(|known| known.id == grant.id && known.granted == grant.granted)
    };
    let written = round.steps.iter().filter_map(|step| node_content(&step.write)).flat_map(|spec| spec.grants);
    let new = written.filter(|grant| !is_known(grant));
    new.map(|grant| (grant.pod.uid.clone(), grant)).collect()
}

/// Compares the two, and returns the reasons that came up.
fn compare(draw: &Draw) -> Result<BTreeSet<&'static str>, TestCaseError> {
    let (snapshot, names) = cluster::snapshot(draw);
    let cluster = snapshot.observed(now());
    let decided = round(&cluster, &mut GateCache::new(snapshot.settings.clone()), now());
    prop_assert_eq!(decided.deposed, None);
    let granted = granted(&cluster, &decided);
    let opens = decided.steps.iter().any(|step| service::content(&step.write).is_some_and(|(open, _)| open));
    let mut reasons = BTreeSet::new();
    for name in &names {
        let said = printed(&snapshot, name);
        let uid = format!("uid-{name}");
        let first = said["obstacles"][0]["reason"].as_str();
        let is_denied = said["rules"].as_array().into_iter().flatten().any(|rule| rule["verdict"] == "Denied");
        let Some(verdict) = decided.verdicts.iter().find(|verdict| verdict.pod.uid == uid) else {
            prop_assert!(!granted.contains_key(&uid), "{name} is granted without a verdict");
            reasons.extend(REASONS.iter().filter(|reason| first == Some(**reason)));
            continue;
        };
        match &verdict.waiting {
            None => prop_assert_eq!((first, is_denied), (None, false), "{}", said),
            Some(WaitReason::Rules) => prop_assert_eq!((first, is_denied), (None, true), "{}", said),
            Some(waiting) => prop_assert_eq!(first, Some(waiting.reason()), "{}", said),
        }
        reasons.extend(verdict.waiting.as_ref().map(variant));
        let is_opened = opens && matches!(verdict.waiting, Some(WaitReason::ServicePublishing(_)));
        prop_assert_eq!(said["allowed"].as_bool(), Some(granted.contains_key(&uid) || is_opened), "{}", said);
        if let Some(grant) = granted.get(&uid) {
            reasons.insert("Granted");
            prop_assert_eq!(said["mode"].as_str(), Some(grant.mode.as_str()), "{}", said);
            prop_assert_eq!(said["modeReason"].as_str(), Some(grant.mode_reason.as_str()), "{}", said);
        }
    }
    Ok(reasons)
}

#[test]
fn every_reason_comes_up_and_is_the_controllers() {
    let mut runner = TestRunner::deterministic();
    let mut seen = BTreeSet::new();
    for _ in 0..DRAWS {
        let draw = draw().new_tree(&mut runner).unwrap().current();
        match compare(&draw) {
            Ok(reasons) => seen.extend(reasons),
            Err(error) => panic!("{error}\n{draw:?}"),
        }
    }
    let missing: Vec<&str> = REASONS.into_iter().chain(["Granted"]).filter(|reason| !seen.contains(reason)).collect();
    assert!(missing.is_empty(), "never came up: {missing:?}");
}

proptest! {
    #![proptest_config(Config::with_cases(200))]

    #[test]
    fn why_says_of_each_pod_what_the_round_does(draw in draw()) {
        compare(&draw)?;
    }
}
