//! Nothing is begun before the pod's volumes have what the grant names.

use hitless_agent::decide::{OperationView, decide};
use hitless_agent::decision::{Action, Decision};
use hitless_agent::memory::Memory;
use hitless_agent::view::{NodeIdentity, NodePod, Observation, PodLookup};
use hitless_api::{Grant, GrantMode, MountedConfig, Outcome, Phase};
use jiff::{SignedDuration, Timestamp};

use crate::world::{grant, pod, start};

fn expecting(mode: GrantMode) -> Grant {
    let config = MountedConfig { volumes: [("files".to_owned(), Vec::new())].into(), digest: "d".to_owned() };
    let ttl_seconds = Grant::DEFAULT_TTL_SECONDS + MountedConfig::WAIT_SECONDS;
    Grant { config: Some(Box::new(config)), mode, ttl_seconds, ..grant(start()) }
}

fn decided(grant: &Grant, memory: &Memory, now: Timestamp) -> Decision {
    decided_of(&pod::running(start()), grant, memory, now)
}

fn decided_of(pod: &NodePod, grant: &Grant, memory: &Memory, now: Timestamp) -> Decision {
    let node = NodeIdentity { name: "n1".into(), uid: "node-uid".into() };
    let view = OperationView {
        grant,
        granted_node_uid: "node-uid",
        node: &node,
        pod: PodLookup::Found(pod),
        reported: None,
        memory,
        observation: &Observation::None,
        busy: false,
    };
    decide(&view, now)
}

fn after(milliseconds: i64) -> Timestamp {
    start() + SignedDuration::from_millis(milliseconds)
}

#[test]
fn the_volumes_are_looked_at_the_kubelet_is_asked_once_and_then_the_operation_begins() {
    for (mode, begins) in [(GrantMode::Leave, Action::LeaveService), (GrantMode::Hold, Action::FetchPod)] {
        let (grant, mut memory) = (expecting(mode), Memory::default());
        memory.see(&grant, start());
        let first = decided(&grant, &memory, start());
        assert_eq!((first.phase, first.action), (Phase::Granted, Some(Action::LookAtVolumes)));
        memory.looked_at_volumes(Ok(false), after(10));
        assert_eq!(decided(&grant, &memory, after(10)).action, Some(Action::WantVolumes));
        memory.done(&Action::WantVolumes, after(20));
        let waiting = decided(&grant, &memory, after(20));
        assert_eq!((&waiting.action, waiting.wake_at), (&None, Some(after(310))));
        assert!(waiting.message.contains("the kubelet has not written it yet"), "{waiting:?}");
        assert_eq!(decided(&grant, &memory, after(310)).action, Some(Action::LookAtVolumes));
        memory.looked_at_volumes(Ok(true), after(320));
        let begun = decided(&grant, &memory, after(320));
        assert_eq!(begun.action, Some(begins), "{begun:?}");
    }
}

/// The controller may not read what its ConfigMaps contain.
#[test]
fn the_kubelet_is_asked_to_renew_files_before_a_pod_that_mounts_some_is_operated() {
    for (mode, begins) in [(GrantMode::Leave, Action::LeaveService), (GrantMode::Hold, Action::FetchPod)] {
        let (grant, mut memory) = (Grant { mode: mode.clone(), ..grant(start()) }, Memory::default());
        let mut pod = pod::running(start());
        memory.see(&grant, start());
        let decided = |pod: &NodePod, memory: &Memory, now| decided_of(pod, &grant, memory, now);
        pod.config_mounts = ["another".to_owned()].into();
        assert_eq!(decided(&pod, &memory, start()).action, Some(begins.clone()), "a container that stays mounts them");
        pod.config_mounts = [pod.view.containers[0].name.clone()].into();
        let asks = decided(&pod, &memory, start());
        assert_eq!((asks.phase, asks.action), (Phase::Granted, Some(Action::WantVolumes)));
        memory.done(&Action::WantVolumes, after(20));
        if mode == GrantMode::Hold {
            let waiting = decided(&pod, &memory, after(1019));
            assert_eq!((&waiting.action, waiting.wake_at), (&None, Some(after(1020))), "{waiting:?}");
            assert_eq!(decided(&pod, &memory, after(1020)).action, Some(begins));
        } else {
            assert_eq!(decided(&pod, &memory, after(20)).action, Some(begins), "it has the time of the drain");
        }
    }
}

#[test]
fn a_pod_of_which_nothing_runs_is_not_kept_from_what_may_cure_it() {
    let mut pod = pod::running(start());
    pod.view.containers[0].status.as_mut().unwrap().running_since = None;
    let decision = decided_of(&pod, &expecting(GrantMode::Leave), &Memory::default(), start());
    assert_eq!(decision.action, Some(Action::LeaveService), "{decision:?}");
}

#[test]
fn what_is_never_written_is_refused_for_now_with_the_reason() {
    let (grant, mut memory) = (expecting(GrantMode::Leave), Memory::default());
    memory.see(&grant, start());
    memory.done(&Action::WantVolumes, start());
    memory.looked_at_volumes(Err("no such directory".to_owned()), after(119_000));
    assert_eq!(decided(&grant, &memory, after(119_999)).result, None);
    let refused = decided(&grant, &memory, after(120_000));
    assert_eq!(refused.result, Some((Outcome::Refused, "ConfigNotMounted".to_owned())));
    assert!(refused.message.contains("no such directory"), "{refused:?}");
}
