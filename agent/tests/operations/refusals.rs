//! What is refused, and how an operation ends whose pod changes under it.

use std::collections::BTreeMap;

use hitless_agent::decide::{OperationView, decide};
use hitless_agent::decision::{Action, Decision};
use hitless_agent::memory::Memory;
use hitless_agent::view::{Missing, NodeIdentity, NodePod, Observation, PodLookup};
use hitless_api::grant::ImageChange;
use hitless_api::{Change, Grant, GrantMode, GrantOp, Outcome, Phase, PostCheck, Transition};
use jiff::{SignedDuration, Timestamp};

use crate::world::{grant, pod, start};

struct Situation {
    grant: Grant,
    pod: NodePod,
    missing: Option<Missing>,
    node_uid: &'static str,
    reported: Option<Transition>,
    busy: bool,
    now: Timestamp,
}

impl Situation {
    fn usual() -> Self {
        Self {
            grant: grant(start()),
            pod: pod::running(start()),
            missing: None,
            node_uid: "node-uid",
            reported: None,
            busy: false,
            now: start(),
        }
    }

    fn decide(&self) -> Decision {
        let node = NodeIdentity { name: "n1".into(), uid: self.node_uid.into() };
        decide(
            &OperationView {
                grant: &self.grant,
                granted_node_uid: "node-uid",
                node: &node,
                pod: self.missing.map_or(PodLookup::Found(&self.pod), PodLookup::Missing),
                reported: self.reported.as_ref(),
                memory: &Memory::default(),
                observation: &Observation::None,
                busy: self.busy,
            },
            self.now,
        )
    }

    fn report(&self, phase: Phase) -> Transition {
        Transition::at(&self.grant, phase, hitless_api::MicroTime(start()))
    }

    fn begun(mut self) -> Self {
        let id = self.grant.id.clone();
        pod::set_in_service(&mut self.pod, false, "Leaving", &id, self.now);
        self
    }
}

fn container(situation: &mut Situation) -> &mut ImageChange {
    situation.grant.containers.get_mut(pod::CONTAINER).unwrap()
}

type Prepare = fn(&mut Situation);

#[test]
fn the_usual_grant_lowers_in_service() {
    let decision = Situation::usual().decide();
    assert_eq!((decision.action, decision.result), (Some(Action::LeaveService), None));
}

#[test]
fn every_reason_to_refuse() {
    let cases: [(&str, Prepare); 16] = [
        ("UnsupportedOp", |s| s.grant.op = GrantOp::Unknown("Resize".into())),
        ("UnsupportedMode", |s| {
            s.grant.mode = GrantMode::Hold;
            s.grant.post_check = Some(PostCheck::Pending);
        }),
        ("UnsupportedMode", |s| s.grant.mode = GrantMode::Unknown("Dance".into())),
        ("NodeUIDMismatch", |s| s.node_uid = "a new node"),
        ("NoChange", |s| container(s).to = pod::FROM.into()),
        ("NoChange", |s| s.grant.containers.clear()),
        ("Expired", |s| s.now = start().checked_add(SignedDuration::from_secs(91)).unwrap()),
        ("Busy", |s| s.busy = true),
        ("WrongNode", |s| s.pod.view.node = Some("n2".into())),
        ("NotSupported", |s| s.pod.view.host_network = true),
        ("NotSupported", |s| {
            s.pod.view.annotations.insert("kubernetes.io/config.mirror".into(), "x".into());
        }),
        ("NoReadinessGate", |s| s.pod.view.gated = false),
        ("UnknownContainer", |s| {
            s.grant.containers.insert("other".into(), ImageChange { from: "a".into(), to: "b".into() });
        }),
        ("ImageChanged", |s| s.pod.view.containers[0].image = "web:v0".into()),
        ("UnsupportedAnnotation", |s| {
            s.grant.annotations.insert("cluster-autoscaler.kubernetes.io/a".into(), Change::default());
        }),
        ("MetadataChanged", |s| {
            let change = Change { from: Some("1".into()), to: Some("2".into()) };
            s.grant.annotations.insert("hitless.dev/revision".into(), change);
        }),
    ];
    for (reason, prepare) in cases {
        let mut situation = Situation::usual();
        prepare(&mut situation);
        let decision = situation.decide();
        assert_eq!(decision.result, Some((Outcome::Refused, reason.to_owned())));
        assert_eq!(decision.action, None, "{reason}");
        assert!(!decision.message.is_empty(), "{reason} says why");
    }
}

#[test]
fn which_decorations_a_pod_has_is_written_with_the_image() {
    let mut situation = Situation::usual();
    let change = Change { from: None, to: Some("[]".into()) };
    situation.grant.annotations.insert("poddecoration.kusionstack.io/revisions".into(), change);
    let decision = situation.decide();
    assert_eq!(decision.result, None, "{}", decision.message);
    assert!(decision.action.is_some());
}

#[test]
fn a_grant_is_not_refused_once_it_has_begun() {
    let cases: [Prepare; 3] = [
        |s| s.now = start().checked_add(SignedDuration::from_secs(91)).unwrap(),
        |s| s.grant.mode = GrantMode::Hold,
        |s| s.node_uid = "a new node",
    ];
    for prepare in cases {
        let mut situation = Situation::usual().begun();
        prepare(&mut situation);
        assert!(situation.decide().result.is_none_or(|(outcome, _)| outcome != Outcome::Refused));
    }
}

#[test]
fn a_way_back_that_was_announced_and_not_begun_does_not_spoil_what_was_done_instead() {
    let mut situation = Situation::usual();
    situation.pod.view.containers[0].image = pod::TO.into();
    let mark = hitless_agent::decide::mark(&situation.grant);
    pod::set_in_service(&mut situation.pod, true, "InService", &mark, start());
    let rollback = Some("PostCheckTimedOut".to_owned());
    situation.reported = Some(Transition { rollback, ..situation.report(Phase::Returning) });
    assert_eq!(situation.decide().result, Some((Outcome::Done, "Done".to_owned())));
}

#[test]
fn a_grant_within_the_clock_skew_is_begun() {
    let mut situation = Situation::usual();
    situation.now = start().checked_add(SignedDuration::from_secs(90)).unwrap();
    assert_eq!(situation.decide().action, Some(Action::LeaveService));
}

#[test]
fn pods_that_are_not_there() {
    for (missing, outcome, reason) in [
        (Missing::Gone, Outcome::Cancelled, "PodGone"),
        (Missing::OtherUid, Outcome::Refused, "PodUIDMismatch"),
        (Missing::OtherNode, Outcome::Refused, "WrongNode"),
    ] {
        let mut situation = Situation::usual();
        situation.missing = Some(missing);
        assert_eq!(situation.decide().result, Some((outcome, reason.to_owned())));
        // In the middle of the operation all of them mean that the pod is gone.
        situation.reported = Some(situation.report(Phase::Draining));
        assert_eq!(situation.decide().result, Some((Outcome::Cancelled, "PodGone".to_owned())));
    }
}

#[test]
fn pods_that_end_in_the_middle() {
    let cases: [(&str, Prepare); 2] =
        [("PodTerminating", |s| s.pod.view.terminating = true), ("PodFinished", |s| s.pod.view.finished = true)];
    for (reason, prepare) in cases {
        let mut situation = Situation::usual().begun();
        prepare(&mut situation);
        let decision = situation.decide();
        assert_eq!(decision.result, Some((Outcome::Cancelled, reason.to_owned())));
        assert_eq!(decision.action, None);
    }
}

#[test]
fn an_image_that_somebody_else_changes_in_the_middle_ends_the_operation_and_the_pod_returns() {
    let mut situation = Situation::usual().begun();
    situation.pod.view.containers[0].image = "web:v9".into();
    let Some(Action::ReturnToService { reason, message }) = situation.decide().action else { panic!("not raised") };
    assert_eq!(reason, "ImageChanged");
    pod::set_in_service(&mut situation.pod, true, &reason, &message, start());
    assert_eq!(situation.decide().result, Some((Outcome::Failed, "ImageChanged".to_owned())));
}

#[test]
fn all_containers_of_a_grant_go_together() {
    let mut situation = Situation::usual().begun();
    let mut sidecar = situation.pod.view.containers[0].clone();
    sidecar.name = "sidecar".into();
    situation.pod.view.containers.push(sidecar);
    let change = ImageChange { from: pod::FROM.into(), to: pod::TO.into() };
    situation.grant.containers = BTreeMap::from([(pod::CONTAINER.into(), change.clone()), ("sidecar".into(), change)]);
    situation.pod.view.conditions.remove("Ready");
    situation.pod.view.containers[1].image = pod::TO.into();
    // One has the image before, the other the one after: not our patch.
    assert!(
        matches!(situation.decide().action, Some(Action::ReturnToService { reason, .. }) if reason == "ImageChanged")
    );
}
