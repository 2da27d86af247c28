//! Pods that are held, and their Services. As with the rules, what a Service needs is read a second time here.

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::pod::{PodView, PortView};
use hitless_api::{Grant, GrantMode, NodeTransitionStatus, Outcome};
use hitless_rollout::mode::{Mode, ServiceView, Target};
use hitless_rollout::round::Step;
use hitless_rollout::round::write::{ledger_content, ledger_of, node_content};
use hitless_rollout::snapshot::{NodeTransitionView, Snapshot};
use jiff::Timestamp;

use super::{Checks, Operation, image_number};
use crate::clock::{Micros, NEVER};
use crate::counts::HoldEvent;
use crate::server::{Server, key};
use crate::watch::Key;

/// A container that is replaced in a Hold, as it was right before the image patch.
pub(super) struct Replaced {
    container: String,
    image: String,
}

impl Replaced {
    fn of(pod: &PodView) -> Option<Self> {
        let container = pod.containers.first()?;
        let id = container.status.as_ref().map(|status| status.container_id.clone());
        Some(Self { container: id.unwrap_or_default(), image: container.image.clone() })
    }

    /// The pod, which is Ready, runs what its spec says: another container, or the images before.
    pub(super) fn is_over(&self, pod: &PodView) -> bool {
        let Some(container) = pod.containers.first() else { return true };
        let Some(status) = &container.status else { return false };
        let is_its_image = image_number(&container.image) == image_number(&status.image_id);
        pod.observed_generation >= pod.generation
            && is_its_image
            && (status.container_id != self.container || container.image == self.image)
    }
}

/// A Service that a granted Hold needs open.
struct Needed {
    service: Key,
    uid: String,
}

#[derive(Default)]
pub(super) struct Services {
    /// uid of each Service, and when it was open last; [`NEVER`]: it is.
    open: BTreeMap<Key, (String, Option<Micros>)>,
    /// By id and time of the grant.
    needed: BTreeMap<(String, Timestamp), Vec<Needed>>,
    /// When places were taken, by the API server's clock, and by id and time of the operation.
    pub(super) placed: BTreeMap<(String, Timestamp), Micros>,
    /// Operations of pods to which a load balancer sent connections for a Service, as their controller saw it.
    pub(super) controlled: BTreeSet<(String, Timestamp)>,
}

impl Services {
    /// The Service was open at some time since then, or is another one, or gone.
    fn was_open(&self, needed: &Needed, since: Micros) -> bool {
        let known = self.open.get(&needed.service).filter(|(uid, _)| *uid == needed.uid);
        known.is_none_or(|(_, last)| last.is_some_and(|last| last >= since))
    }
}

/// Its pods get connections only while they are Ready, because its owner wants it.
fn goes_by_readiness(service: &ServiceView) -> bool {
    service.has_address && !(service.open && service.held_by.is_none())
}

impl Checks {
    /// A Service is as `view` says now.
    pub(crate) fn service(&mut self, now: Micros, key: &Key, view: &ServiceView) {
        let (uid, last) = self.services.open.entry(key.clone()).or_default();
        if *uid != view.version.uid {
            (*uid, *last) = (view.version.uid.clone(), None);
        }
        match (view.open, *last) {
            (true, _) => *last = Some(NEVER),
            (false, Some(NEVER)) => *last = Some(now),
            (false, _) => {}
        }
    }

    pub(crate) fn service_gone(&mut self, key: &Key) {
        self.services.open.remove(key);
    }

    /// A controller has written to a Service.
    pub(crate) fn service_written(&mut self, server: &Server, before: &ServiceView, after: &ServiceView) {
        self.counted.add(if after.held_by.is_some() { HoldEvent::ServiceOpened } else { HoldEvent::ServiceClosed });
        if before.open && before.held_by.is_none() {
            let what = format!("Service {}, which its owner wants open, was written to", before.name);
            return self.fail(server.now, what);
        }
        if after.open {
            return;
        }
        let at = key(&after.namespace, &after.name);
        let held = server.transitions.values().flat_map(|node| node.view.unfinished()).find(|grant| {
            let needed = self.services.needed.get(&(grant.id.clone(), grant.granted.0));
            let needs = needed.is_some_and(|all| all.iter().any(|needed| needed.service == at));
            let Some(pod) = server.pods.get(grant.pod.uid.as_str()).map(|pod| &*pod.view) else { return false };
            let others = server.pods.values().map(|pod| &*pod.view).filter(|other| other.id.uid != pod.id.uid);
            let others = others.filter(|other| other.available() && is_sent_to(after, pod, other));
            let is_only = !stand_in(after, pod, others);
            let is_there = !pod.terminating;
            needs && is_only && is_there
        });
        if let Some(grant) = held {
            let what = format!("Service {} was closed while pod {} is held", after.name, grant.pod.name);
            self.fail(server.now, what);
        }
    }

    /// A controller has decided: Services of pods that are to be held must be seen open by it, where nobody else serves.
    pub(crate) fn decided(&mut self, now: Micros, snapshot: &Snapshot, steps: &[Step]) {
        self.beside_companions(now, snapshot, steps);
        self.left_out(now, snapshot, steps);
        for step in steps {
            let Some(spec) = node_content(&step.write) else { continue };
            let known = snapshot.node_transitions.get(&step.write.on.name).map(|known| known.spec.grants.as_slice());
            let is_new = |grant: &&Grant| {
                let mut known = known.into_iter().flatten();
                !known.any(|other| other.id == grant.id && other.granted == grant.granted)
            };
            let new = || spec.grants.iter().filter(is_new);
            for grant in new().filter(|grant| grant.mode == GrantMode::Leave) {
                if let Some(service) = deserted(snapshot, steps, grant) {
                    let what = format!(
                        "pod {} leaves, and Service {} has nobody else there ({})",
                        grant.pod.name, service, grant.mode_reason
                    );
                    self.fail(now, what);
                }
            }
            for grant in new().filter(|grant| grant.mode == GrantMode::Hold) {
                self.counted.add(HoldEvent::Granted);
                match needed(snapshot, steps, grant) {
                    Ok(needed) => _ = self.services.needed.insert((grant.id.clone(), grant.granted.0), needed),
                    Err(closed) => {
                        let what = format!("pod {} is granted a Hold, and Service {closed} is closed", grant.pod.name);
                        self.fail(now, what);
                    }
                }
            }
        }
    }

    /// An image of a pod that is held is about to be patched forward.
    pub(super) fn held_images(&mut self, server: &Server, before: &PodView, operation: &Operation) {
        let name = &before.id.name;
        if before.terminating {
            self.fail(server.now, format!("an image of pod {name} was patched while the pod is being deleted"));
        }
        let key = (operation.id.clone(), operation.granted);
        let since = self.services.placed.get(&key).copied().unwrap_or_default();
        let needed = self.services.needed.get(&key);
        let closed = needed
            .into_iter()
            .flatten()
            .find(|needed| !self.services.was_open(needed, since))
            .map(|each| each.service.clone());
        if let Some(service) = closed {
            let what = format!("pod {name} is replaced in a Hold, and Service {service} was never open for that");
            self.fail(server.now, what);
        }
    }

    /// Admission has let the patch pass.
    pub(crate) fn replaced(&mut self, server: &Server, before: &PodView, operation: &Operation) {
        if !operation.forward || !operation.held {
            return;
        }
        let truth = self.truth(&before.id.uid);
        let is_free = truth.free && !truth.had_room;
        truth.out = Some(operation.id.clone());
        truth.replaced = Replaced::of(before);
        // Nobody waits for its being raised: it was never lowered.
        truth.raised = true;
        if is_free {
            self.free_place(server, before);
        }
    }

    /// An agent's report is about to be stored.
    pub(crate) fn reported(&mut self, known: &NodeTransitionView, next: &NodeTransitionStatus) {
        let ended: Vec<Outcome> = known
            .unfinished()
            .filter(|grant| grant.mode == GrantMode::Hold)
            .filter_map(|grant| Some(next.transitions.iter().find(|each| each.is_of(grant))?.result.as_ref()?.outcome))
            .collect();
        for outcome in ended {
            self.counted.add(match outcome {
                Outcome::Done => HoldEvent::Done,
                Outcome::RolledBack => HoldEvent::RolledBack,
                Outcome::Cancelled => HoldEvent::Cancelled,
                Outcome::Refused => HoldEvent::Refused,
                Outcome::Failed => HoldEvent::Failed,
            });
        }
    }
}

/// Whether clients of the Service get to the pod: it is selected, and has the port, if that is named.
pub(super) fn leads(service: &ServiceView, pod: &PodView) -> bool {
    service.selects(pod) && service.targets.iter().any(|port| leads_by(&port.target, pod))
}

fn leads_by(target: &Target, pod: &PodView) -> bool {
    match target {
        Target::Number(_) => true,
        Target::Name(name) => ports(pod).any(|port| port.name.as_deref() == Some(name)),
    }
}

/// Whether these pods answer clients of the Service instead of `pod`, each port one of them: nobody listens where a port is not declared
/// that `pod` declares.
pub(super) fn stand_in<'p>(
    service: &ServiceView,
    pod: &PodView,
    others: impl Iterator<Item = &'p PodView> + Clone,
) -> bool {
    let declares = |pod: &PodView, number: u16| ports(pod).any(|port| port.port == number);
    let answers = |target: &Target, other: &PodView| match target {
        Target::Number(number) => declares(other, *number) || !declares(pod, *number),
        Target::Name(_) => leads_by(target, other),
    };
    let mut targets = service.targets.iter().map(|port| &port.target).filter(|target| leads_by(target, pod));
    let others = others.filter(|other| service.selects(other));
    targets.all(|target| others.clone().any(|other| answers(target, other)))
}

fn ports(pod: &PodView) -> impl Iterator<Item = &PortView> {
    pod.containers.iter().flat_map(|container| &container.ports)
}

/// Nobody waits for one on a node that does not answer.
pub(super) fn is_lost(snapshot: &Snapshot, pod: &PodView) -> bool {
    let node = pod.node.as_ref().and_then(|node| snapshot.nodes.get(node));
    !pod.available() && node.is_some_and(|node| node.not_ready_since.is_some())
}

/// Its operation is over, and it is not available: nobody has to wait until it is back, if it ever is.
fn is_left_down(snapshot: &Snapshot, pod: &PodView) -> bool {
    let is_own = |grant: &&Grant| grant.pod.uid == pod.id.uid;
    let mut all = snapshot.node_transitions.values();
    let is_over = |view: &NodeTransitionView| {
        view.spec.grants.iter().any(|grant| is_own(&grant)) && !view.unfinished().any(|grant| is_own(&grant))
    };
    !pod.available() && all.any(|view| is_over(view))
}

/// What comes to the node of `pod` may go to `other`, too.
fn is_sent_to(service: &ServiceView, pod: &PodView, other: &PodView) -> bool {
    !service.node_local || pod.node == other.node
}

/// A Service that has nobody else where the pod is, which leaves although it could be held. Where others have somebody, and a Hold
/// would not spare its clients, the pod leaves for the sake of those.
fn deserted(snapshot: &Snapshot, steps: &[Step], grant: &Grant) -> Option<String> {
    let rests_on_others = ["LongGap", "UnknownGap", "LongConnections", "UnheldPort", "StillInFlight", "Companion"]
        .contains(&Mode::word(&grant.mode_reason));
    let pod = snapshot.pods.iter().find(|pod| rests_on_others && pod.id.uid == grant.pod.uid)?;
    let taken = taken(snapshot, steps, &pod.id.namespace);
    let serves = |service: &ServiceView, other: &PodView| {
        let is_there = other.id.uid != pod.id.uid && other.available() && !taken.contains(other.id.uid.as_str());
        is_there && is_sent_to(service, pod, other)
    };
    let services = snapshot.services.iter().filter(|service| leads(service, pod) && goes_by_readiness(service));
    let services: Vec<&ServiceView> = services.map(|service| &**service).collect();
    let is_alone = |service: &&&ServiceView| {
        !stand_in(service, pod, snapshot.pods.iter().map(|other| &**other).filter(|other| serves(service, other)))
    };
    let is_told = grant.mode_reason.contains("but not clients of Service");
    let alone: Vec<&&ServiceView> = services.iter().filter(is_alone).collect();
    let deserted = alone.first().filter(|_| !is_told || alone.len() == services.len());
    deserted.map(|service| described(service, pod, snapshot))
}

/// The Services that are to stay open for this grant; the name of one that is seen closed.
fn needed(snapshot: &Snapshot, steps: &[Step], grant: &Grant) -> Result<Vec<Needed>, String> {
    let Some(pod) = snapshot.pods.iter().find(|pod| pod.id.uid == grant.pod.uid) else { return Ok(Vec::new()) };
    let taken = taken(snapshot, steps, &pod.id.namespace);
    let mut needed = Vec::new();
    for service in snapshot.services.iter().filter(|service| leads(service, pod) && goes_by_readiness(service)) {
        let others = || {
            let all = snapshot.pods.iter().filter(|other| other.id.uid != pod.id.uid && !other.finished);
            all.map(|other| &**other).filter(|other| leads(service, other))
        };
        let is_taken = |other: &PodView| other.terminating || taken.contains(other.id.uid.as_str());
        let is_away = |other: &PodView| is_taken(other) && !is_lost(snapshot, other) && !is_left_down(snapshot, other);
        // One that is not Ready must not get connections, so the Service can't be opened.
        let there = others().filter(|other| !is_away(other));
        let sent_to = there.clone().filter(|other| other.available() && is_sent_to(service, pod, other));
        if there.clone().any(|other| !other.available()) || stand_in(service, pod, sent_to) {
            continue;
        }
        if !service.open {
            return Err(described(service, pod, snapshot));
        }
        let at = key(&service.namespace, &service.name);
        needed.push(Needed { service: at, uid: service.version.uid.clone() });
    }
    Ok(needed)
}

/// The Service, where it leads to, and the ports of `pod` and of the others that it selects.
fn described(service: &ServiceView, pod: &PodView, snapshot: &Snapshot) -> String {
    let of = |pod: &PodView| {
        let ports: Vec<String> =
            ports(pod).map(|port| format!("{}:{}", port.name.as_deref().unwrap_or_default(), port.port)).collect();
        format!("{} on {} with {}", pod.id.name, pod.node.as_deref().unwrap_or_default(), ports.join(", "))
    };
    let others = snapshot.pods.iter().filter(|other| other.id.uid != pod.id.uid && service.selects(other));
    let others: Vec<String> = others.map(|other| of(other)).collect();
    let targets: Vec<&Target> = service.targets.iter().map(|port| &port.target).collect();
    format!(
        "{} (to {targets:?}, local: {}; {}; others: {})",
        service.name,
        service.node_local,
        of(pod),
        others.join("; ")
    )
}

/// Pods that were being operated before this decision, and still are after it.
fn taken<'a>(snapshot: &'a Snapshot, steps: &[Step], namespace: &str) -> BTreeSet<&'a str> {
    let mut writes = steps.iter().map(|step| &step.write);
    let next = writes.find(|write| ledger_of(write) == Some(namespace)).and_then(ledger_content);
    let known = snapshot.ledgers.get(namespace).into_iter().flat_map(|ledger| ledger.spec.reservations.keys());
    let kept = known.filter(|uid| next.as_ref().is_none_or(|next| next.reservations.contains_key(*uid)));
    let running = snapshot.node_transitions.values().flat_map(|node| node.unfinished());
    kept.map(String::as_str).chain(running.map(|grant| grant.pod.uid.as_str())).collect()
}
