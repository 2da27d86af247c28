//! Before anything is done: the pod's volumes have the content of ConfigMaps and Secrets that the grant names. The kubelet writes it
//! when it looks at the pod, which it does at once after a change of the pod's metadata, and otherwise every minute or so.
//!
//! Where the grant names nothing, because the controller may not read them, the kubelet is asked all the same. A new pod would have the
//! present content. A container that is started anew may read the old one; and one that mounts a file by `subPath` does not start if the
//! kubelet replaces that file right then (`no such file or directory`), which the kubelet tries again after ten seconds only.

use std::collections::BTreeSet;

use hitless_api::{MountedConfig, Phase, TransitionResult};
use jiff::SignedDuration;

use super::operation::Operation;
use crate::decision::{Action, Decision, WaitingFor};
use crate::instant::after_seconds;
use crate::memory::VolumesState;

/// Between two looks.
const PAUSE: SignedDuration = SignedDuration::from_millis(300);

/// The kubelet's volume manager looks at what is wanted, and brings it about, every 100 ms.
const RENEWED: SignedDuration = SignedDuration::from_secs(1);

/// What is waited for; `None`: nothing. `mounts`: containers with files of ConfigMaps and Secrets.
pub(super) fn wait(operation: &Operation<'_>, mounts: &BTreeSet<String>) -> Option<Decision> {
    // Nobody is served from old content, and its volumes could not be found: what it is given may be what it needs to run again.
    if !operation.any_runs() {
        return None;
    }
    if operation.grant.config.is_none() {
        return renew(operation, mounts);
    }
    let (memory, now) = (operation.memory, operation.now);
    let looked = memory.volumes.as_ref();
    let words = match looked.map(|looked| &looked.state) {
        Some(VolumesState::AsExpected) => return None,
        Some(VolumesState::Failed(why)) => format!("they can't be read: {why}"),
        Some(VolumesState::Other) => "the kubelet has not written it yet".to_owned(),
        None => "they have not been read yet".to_owned(),
    };
    let deadline = after_seconds(memory.seen.unwrap_or(now), MountedConfig::WAIT_SECONDS);
    if now >= deadline {
        let text = format!("the pod's volumes do not have what its ConfigMaps and Secrets contain: {words}");
        return Some(Decision::refused(TransitionResult::CONFIG_NOT_MOUNTED, text));
    }
    let waiting = Decision::at(Phase::Granted).until(deadline);
    let waiting = waiting.saying(format!("waits until the pod's volumes have the new content; {words}"));
    let waiting = waiting.waiting_for(WaitingFor::Volumes(words));
    let Some(looked) = looked else { return Some(waiting.doing(Action::LookAtVolumes)) };
    // A policy of an earlier version lets nobody ask; then it takes the kubelet's time.
    if memory.volumes_wanted.is_none() && operation.denied(&Action::WantVolumes).is_none() {
        return Some(waiting.doing(Action::WantVolumes));
    }
    let again = looked.at.saturating_add(PAUSE).unwrap_or(now);
    Some(if now >= again { waiting.doing(Action::LookAtVolumes) } else { waiting.waking_at(again) })
}

/// The kubelet is asked to write what is new, and has the time for it: of a pod that leaves while that is drained.
fn renew(operation: &Operation<'_>, mounts: &BTreeSet<String>) -> Option<Decision> {
    if !operation.containers().any(|container| mounts.contains(&container.name)) {
        return None;
    }
    let waiting = Decision::at(Phase::Granted);
    let Some(asked) = operation.memory.volumes_wanted else {
        // A policy of an earlier version lets nobody ask.
        return operation.denied(&Action::WantVolumes).is_none().then(|| waiting.doing(Action::WantVolumes));
    };
    let until = asked.saturating_add(RENEWED).unwrap_or(asked);
    let text = "waits until the kubelet has written what is new in the pod's ConfigMaps and Secrets";
    (operation.is_hold() && operation.now < until).then(|| waiting.waking_at(until).saying(text))
}
