//! Pods that are held, and their Services (CONTRACT 5): one that has no other endpoint is opened before the grant, seen open, and
//! closed when the operation has ended. All of it follows from what stands in Services, grants and ledgers; a leader that comes
//! later goes on where this one stopped.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use hitless_api::names::annotations;
use hitless_api::pod::PodView;
use hitless_api::{Grant, GrantMode, PortTreatment};
use jiff::{SignedDuration, Timestamp};

use super::blocked::Waiting;
use super::completion::Ended;
use super::draft::Draft;
use super::intents::Wishes;
use super::write::{ServiceWrite, Step, Write};
use crate::service::ServiceView;
use crate::snapshot::Snapshot;

/// A pod has been Ready for so long before its Service is closed: those who make its endpoints may see the pod later than we do.
const READY_FOR: SignedDuration = SignedDuration::from_secs(1);
/// A pod that does not become Ready after its operation keeps its Service open for so long.
const NOT_READY_FOR: SignedDuration = SignedDuration::from_secs(10);

pub(super) struct Holds<'a> {
    snapshot: &'a Snapshot,
    /// Services with a selector, by namespace.
    services: HashMap<&'a str, Vec<&'a ServiceView>>,
    pods: OnceCell<Pods<'a>>,
    /// Operations that hold their pod, or are about to.
    live: BTreeSet<String>,
    /// Services that must be open, with the operation that needs it.
    needed: BTreeMap<(&'a str, &'a str), (&'a ServiceView, String)>,
}

struct Pods<'a> {
    by_owner: HashMap<&'a str, Vec<&'a PodView>>,
    /// Of namespaces with Services.
    by_namespace: HashMap<&'a str, Vec<&'a PodView>>,
}

/// Whether an operation may begin now, as far as Services are concerned.
pub(super) enum Begin<'a> {
    Now {
        /// Services of a held pod that must stay as they are, to be told to [`Holds::hold`].
        open: Vec<&'a ServiceView>,
        /// What clients will notice all the same.
        note: Option<String>,
    },
    /// First these Services are to be open.
    Opening(Vec<&'a ServiceView>),
    /// Something else has to end first.
    Wait(Waiting),
}

/// What one Service of a pod that is held needs.
enum Need {
    /// Somebody else takes its connections, or nobody looks at readiness.
    Nothing,
    Open,
    /// It can't be opened because of this pod, which must not get any connection.
    CannotOpen(String),
    /// Until this pod is back, or gone.
    WaitFor(String),
}

impl<'a> Holds<'a> {
    pub(super) fn new(snapshot: &'a Snapshot) -> Self {
        let mut services: HashMap<&str, Vec<&ServiceView>> = HashMap::new();
        for service in snapshot.services.iter().filter(|service| !service.selector.is_empty()) {
            services.entry(service.namespace.as_str()).or_default().push(service);
        }
        Self { snapshot, services, pods: OnceCell::new(), live: BTreeSet::new(), needed: BTreeMap::new() }
    }

    fn selecting(&self, pod: &PodView) -> impl Iterator<Item = &'a ServiceView> {
        let here = self.services.get(pod.id.namespace.as_str()).map_or(&[] as &[&ServiceView], Vec::as_slice);
        here.iter().copied().filter(|service| service.selects(pod))
    }

    /// What the pod's Services say of a port; if they don't agree, what is waited for rather than closed.
    pub(super) fn treatment(&self, pod: &PodView, port: u16) -> Option<PortTreatment> {
        let here = self.services.get(pod.id.namespace.as_str())?;
        let telling = here.iter().filter(|service| !service.treatments.is_empty() && service.selects(pod));
        let said = telling.filter_map(|service| service.treatment(pod, port));
        said.reduce(|one, other| if one == PortTreatment::Http1 { other } else { one })
    }

    /// Whether a Service sends the pod connections whether it is Ready or not, by its owner's wish.
    pub(super) fn always_published(&self, pod: &PodView) -> bool {
        self.selecting(pod).any(|service| service.has_address && service.open && service.held_by.is_none())
    }

    fn pods(&self) -> &Pods<'a> {
        self.pods.get_or_init(|| {
            let (mut by_owner, mut by_namespace) = (HashMap::new(), HashMap::new());
            for pod in self.snapshot.pods.iter().map(|pod| &**pod).filter(|pod| !pod.finished) {
                if let Some(owner) = &pod.owner {
                    by_owner.entry(owner.uid.as_str()).or_insert_with(Vec::new).push(pod);
                }
                if self.services.contains_key(pod.id.namespace.as_str()) {
                    by_namespace.entry(pod.id.namespace.as_str()).or_insert_with(Vec::new).push(pod);
                }
            }
            Pods { by_owner, by_namespace }
        })
    }

    /// The other pods of a Service that selects `pod`.
    fn others<'p>(&'p self, service: &'p ServiceView, pod: &'p PodView) -> impl Iterator<Item = &'a PodView> {
        let here = self.pods().by_namespace.get(pod.id.namespace.as_str()).map_or(&[] as &[&PodView], Vec::as_slice);
        here.iter().copied().filter(|other| other.id.uid != pod.id.uid && service.selects(other))
    }

    /// Whether other pods take the traffic while `pod` is away: in each of its Services one; without Services one of its workload.
    pub(super) fn another_serves(&self, pod: &PodView, taken: &impl Fn(&PodView) -> bool) -> bool {
        let serves = |other: &PodView| other.available() && !taken(other);
        let mut services = self.selecting(pod).filter(|service| service.has_address).peekable();
        if services.peek().is_some() {
            return services.all(|service| self.others(service, pod).any(serves));
        }
        let siblings = pod.owner.as_ref().and_then(|owner| self.pods().by_owner.get(owner.uid.as_str()));
        siblings.into_iter().flatten().any(|other| other.id.uid != pod.id.uid && serves(other))
    }

    fn need(&self, service: &ServiceView, pod: &PodView, taken: &impl Fn(&PodView) -> bool) -> Need {
        if !service.has_address || (service.open && service.held_by.is_none()) {
            return Need::Nothing;
        }
        let (mut waits_for, mut in_the_way) = (None, None);
        for other in self.others(service, pod) {
            match (taken(other) || other.terminating, other.available()) {
                (false, true) => return Need::Nothing,
                (true, _) => waits_for = Some(other.id.name.clone()),
                (false, false) => in_the_way = Some(other.id.name.clone()),
            }
        }
        match (in_the_way, waits_for) {
            (Some(other), _) => Need::CannotOpen(other),
            (None, Some(other)) => Need::WaitFor(other),
            (None, None) => Need::Open,
        }
    }

    /// Whether the pod may be operated in this mode now. `taken`: pods that are being operated.
    pub(super) fn begin(&self, pod: &PodView, mode: &GrantMode, taken: &impl Fn(&PodView) -> bool) -> Begin<'a> {
        if *mode != GrantMode::Hold {
            // It would get connections although it has left.
            let opened = self.selecting(pod).find(|service| service.open && service.held_by.is_some());
            return match opened {
                Some(service) => Begin::Wait(Waiting::ServiceOpen(service.name.clone())),
                None => Begin::Now { open: Vec::new(), note: None },
            };
        }
        let (mut closed, mut open, mut note) = (Vec::new(), Vec::new(), None);
        for service in self.selecting(pod) {
            match self.need(service, pod, taken) {
                Need::Nothing => {}
                Need::Open if service.open => open.push(service),
                Need::Open => closed.push(service),
                Need::CannotOpen(other) => {
                    note = Some(format!(
                        "Service {} can't be opened because of pod {other}, which is not Ready",
                        service.name
                    ));
                }
                Need::WaitFor(other) => {
                    return Begin::Wait(Waiting::ServiceBusy { service: service.name.clone(), pod: other });
                }
            }
        }
        if closed.is_empty() {
            return Begin::Now { open, note };
        }
        closed.extend(open);
        Begin::Opening(closed)
    }

    /// The operation holds its pod, or is about to, and needs these Services open.
    pub(super) fn hold(&mut self, id: &str, services: &[&'a ServiceView]) {
        self.live.insert(id.to_owned());
        for service in services.iter().copied() {
            let at = (service.namespace.as_str(), service.name.as_str());
            self.needed.entry(at).or_insert_with(|| (service, id.to_owned()));
        }
    }

    /// Operations that are under way: their Services stay open, and are opened again if somebody has replaced them meanwhile.
    pub(super) fn keep(&mut self, wishes: &Wishes<'a>, ended: &Ended<'a>) {
        let taken = |pod: &PodView| ended.busy.contains(pod.id.uid.as_str());
        for grant in self.snapshot.node_transitions.values().flat_map(|node| node.unfinished()) {
            if grant.mode != GrantMode::Hold {
                continue;
            }
            let Some(pod) = wishes.pods.get(grant.pod.uid.as_str()).copied().filter(|pod| !pod.terminating) else {
                continue;
            };
            let mut services = Vec::new();
            for service in self.selecting(pod) {
                // Somebody has closed it on purpose, and kept our mark: he would do it again.
                let is_wanted = service.open || service.mark() != Some(grant.id.as_str());
                if is_wanted && matches!(self.need(service, pod, &taken), Need::Open) {
                    services.push(service);
                }
            }
            self.hold(&grant.id, &services);
        }
    }

    /// The writes, after `earlier` ones, and when to look again.
    pub(super) fn steps(
        &self,
        wishes: &Wishes<'_>,
        earlier: &[Step],
        now: Timestamp,
    ) -> (Vec<Step>, Option<Timestamp>) {
        let (mut steps, mut wake_at) = (Vec::new(), None);
        for (service, id) in self.needed.values().filter(|(service, _)| !service.open) {
            let is_ledger =
                |step: &Step| matches!(&step.write, Write::Ledger(write) if write.namespace == service.namespace);
            let needs = earlier.iter().position(is_ledger).into_iter().collect();
            steps.push(Step { write: Write::Service(ServiceWrite::open(service, id)), needs, done: None });
        }
        for service in self.snapshot.services.iter().map(|service| &**service) {
            let Some(id) = service.mark() else { continue };
            if self.live.contains(id) || self.needed.contains_key(&(service.namespace.as_str(), service.name.as_str()))
            {
                continue;
            }
            let due = self.closes_at(id, wishes, now);
            if due > now {
                wake_at = [wake_at, Some(due)].into_iter().flatten().min();
            } else {
                steps.push(Step::alone(Write::Service(ServiceWrite::close(service))));
            }
        }
        (steps, wake_at)
    }

    /// When the Service is closed that was opened for this operation, which has ended.
    fn closes_at(&self, id: &str, wishes: &Wishes<'_>, now: Timestamp) -> Timestamp {
        let uid = Grant::pod_uid_of(id).unwrap_or(id);
        let Some(pod) = wishes.pods.get(uid) else { return now };
        let (since, pause) = if pod.ready() {
            (pod.conditions.get("Ready").and_then(|ready| ready.since), READY_FOR)
        } else {
            let mut reports = self.snapshot.node_transitions.values().flat_map(|node| &node.transitions);
            (reports.find(|report| report.id == id).map(|report| report.since.0), NOT_READY_FOR)
        };
        since.and_then(|since| since.saturating_add(pause).ok()).unwrap_or(now)
    }
}

/// Whether the pod is being operated, or about to be.
pub(super) fn is_taken(pod: &PodView, draft: &Draft<'_>, ended: &Ended<'_>) -> bool {
    draft.reservation(&pod.id.namespace, &pod.id.uid).is_some() || ended.busy.contains(pod.id.uid.as_str())
}

/// How long the pod's workload is away when it is operated, in milliseconds, as far as that was learned.
pub(super) fn gap(deployment: &hitless_workloads::DeploymentView) -> Option<u32> {
    crate::drain::gap::Gaps::parse(deployment.annotations.get(annotations::GAP).map(String::as_str)).longest()
}
