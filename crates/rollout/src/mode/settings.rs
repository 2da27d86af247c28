//! What would be done to a pod if it were granted: the policies that hold for it, put together with what is known of it.

use hitless_api::node_transition::AgentInfo;
use hitless_api::pod::{ContainerView, PodView, Protocol};
use hitless_api::{
    DesiredMode, DrainSpec, Grant, GrantMode, GrantOp, Hook, Outcome, PortDrain, PortTreatment, Transition,
    TransitionResult, VerifySpec,
};
use hitless_workloads::{Operation, Plan};

use super::choice::{self, Mode, ModeInputs};
use super::not_operable::NotOperable;
use super::policy::Policies;
use super::start::start_seconds;
use super::traffic::{ServiceReadiness, Serving, StandIn, Traffic};
use super::{ConnectionLosses, Gaps};

/// A loss that is longer by so much than the native way's counts where others serve, in milliseconds: that one has some, too, until
/// everybody has heard that a pod is gone.
const CLEARLY: u32 = 1000;

/// What is known of a pod that is to be operated.
#[derive(Clone, Copy)]
pub struct PodContext<'a> {
    /// The pod.
    pub pod: &'a PodView,
    /// What its workload says.
    pub workload: WorkloadFacts<'a>,
    /// A rule of stage PostCheck concerns it.
    pub post_check: bool,
    /// What the agent of its node has said.
    pub agent: AgentStatus<'a>,
    /// What is to be done to it, as far as that is known.
    pub operation: Option<&'a Operation>,
    /// Shortest time out of service before it is operated, in seconds, as its workload wants; 0: it wants none.
    pub delay_seconds: u32,
    /// An image of the operation can't be fetched to the node beforehand.
    pub is_unfetched: bool,
}

impl PodContext<'_> {
    /// As far as the spec tells, the containers that are replaced serve nobody, and another one stays; the agent can look, and has not
    /// seen otherwise.
    fn serves_nobody(&self) -> bool {
        let Some(operation) = self.operation.filter(|operation| !operation.containers.is_empty()) else { return false };
        let is_replaced = |container: &&ContainerView| operation.containers.contains_key(&container.name);
        let mut replaced = self.pod.containers.iter().filter(is_replaced);
        let stays = self.pod.containers.iter().any(|container| !is_replaced(&container));
        let is_silent = stays && replaced.all(|container| !container.declares_service());
        is_silent && self.agent.can_look(&self.pod.id.uid, operation)
    }

    /// A port of the node that leads to one of the containers that are replaced, where connections can be held.
    fn host_port(&self, drain: &DrainSpec) -> Option<u16> {
        let is_replaced = |container: &&ContainerView| {
            self.operation.is_none_or(|operation| operation.containers.contains_key(&container.name))
        };
        let ports = self.pod.containers.iter().filter(is_replaced).flat_map(|container| &container.ports);
        let mut ports = ports.filter(|port| match drain.treatment(port.port) {
            PortTreatment::Http1 | PortTreatment::Http2 | PortTreatment::Tcp => port.protocol == Protocol::Tcp,
            PortTreatment::Udp | PortTreatment::Ignore => false,
        });
        ports.find_map(|port| port.host_port)
    }

    /// A port to which a Service leads by another protocol than TCP: a Hold parks nobody who comes there. Where the pod declares one for
    /// SCTP, nobody at all can be held.
    fn unheld_port(&self, drain: &DrainSpec, traffic: &Traffic<'_>) -> Option<(u16, &'static str)> {
        let declared = self.pod.containers.iter().flat_map(|container| &container.ports);
        let sctp = declared
            .filter(|port| port.protocol == Protocol::Sctp)
            .map(|port| port.port)
            .chain(traffic.ports(self.pod, Protocol::Sctp));
        let all = sctp.map(|port| (port, "SCTP"));
        let mut all = all.chain(traffic.ports(self.pod, Protocol::Udp).into_iter().map(|port| (port, "UDP")));
        all.find(|(port, _)| drain.treatment(*port) != PortTreatment::Ignore)
    }
}

/// What a workload says of how its pods are operated; nothing where a pod has none that is looked after.
#[derive(Clone, Copy, Default)]
pub struct WorkloadFacts<'a> {
    /// Its `progressDeadlineSeconds`, if its kind has the field.
    pub progress_deadline_seconds: Option<u32>,
    /// The longest time of late that its containers were away, in milliseconds (annotation `hitless.dev/gap`).
    pub gap_milliseconds: Option<u32>,
    /// The same until they were ready, of the version that its pods are brought to; `None`: no pod has shown how long that needs
    /// (annotation `hitless.dev/gap-to-ready`).
    pub ready_milliseconds: Option<u32>,
    /// How long pods of that version listened before they were ready, at most.
    pub unready_milliseconds: Option<u32>,
    /// The longest time until they were ready of versions before.
    pub ready_before_milliseconds: Option<u32>,
    /// Connections of one of its pods were lost when it became not Ready.
    pub losses: Option<&'a ConnectionLosses>,
}

impl WorkloadFacts<'_> {
    /// Of the workload that this is planned for.
    #[must_use]
    pub fn of(plan: &Plan) -> Self {
        let (gaps, ready) = (Gaps::parse(plan.gaps.as_deref()), Gaps::parse(plan.gaps_to_ready.as_deref()));
        Self {
            progress_deadline_seconds: plan.progress_deadline_seconds,
            gap_milliseconds: gaps.longest(),
            ready_milliseconds: ready.of(&plan.target),
            unready_milliseconds: ready.since(&gaps, &plan.target),
            ready_before_milliseconds: ready.longest(),
            losses: None,
        }
    }
}

/// What the agent of a node has said, if anything.
#[derive(Clone, Copy, Default)]
pub struct AgentStatus<'a> {
    /// Of itself.
    pub info: Option<&'a AgentInfo>,
    /// Of its operations.
    pub reports: &'a [Transition],
}

impl AgentStatus<'_> {
    /// What it would need for these hooks and does not have, as far as it has said: an agent that does not know hooks would leave
    /// them out without a word.
    fn lacks(&self, hooks: &[Hook]) -> Option<&'static str> {
        let agent = self.info?;
        Hook::features(hooks).find(|feature| !agent.can(feature))
    }

    /// Without `idleAfterSeconds` for an agent that has not listed that feature, because it could not read the grant.
    fn readable(&self, mut drain: DrainSpec) -> DrainSpec {
        if self.info.is_some_and(|agent| !agent.can(DrainSpec::IDLE_AFTER_FEATURE)) {
            drain.idle_after_seconds = None;
        }
        drain
    }

    /// Whether it can hold the pod, as far as it has said.
    fn can_hold(&self, uid: &str) -> Option<bool> {
        let has_refused = self.has_refused(uid, &["UnsupportedMode", TransitionResult::HOLD_FAILED]);
        if has_refused {
            return Some(false);
        }
        // The report of a refusal goes with its grant; the agent remembers it.
        self.info.map(|agent| agent.can("Hold") && !agent.not_held.iter().any(|known| known == uid))
    }

    /// Whether it has seen requests of the pod that take longer than clients can be held.
    fn is_still_in_flight(&self, uid: &str) -> bool {
        self.has_refused(uid, &[TransitionResult::STILL_IN_FLIGHT])
            || self.info.is_some_and(|agent| agent.in_flight.iter().any(|known| known == uid))
    }

    /// Whether it can tell if these containers of the pod serve, and has not said that one does.
    fn can_look(&self, uid: &str, operation: &Operation) -> bool {
        let is_seen = |agent: &AgentInfo| {
            operation.containers.keys().any(|name| agent.serving.contains(&AgentInfo::container(uid, name)))
        };
        self.info.is_some_and(|agent| agent.can(Grant::UNLESS_SERVING_FEATURE) && !is_seen(agent))
            && !self.has_refused(uid, &[TransitionResult::CONTAINER_SERVES])
    }

    /// Whether it has refused to operate the pod, for one of these reasons.
    fn has_refused(&self, uid: &str, reasons: &[&str]) -> bool {
        self.reports.iter().any(|report| {
            let refused = report.result.as_ref().filter(|result| result.outcome == Outcome::Refused);
            refused.is_some_and(|result| reasons.contains(&result.reason.as_str()))
                && Grant::pod_uid_of(&report.id) == Some(uid)
        })
    }
}

/// What holds for a pod that can be operated.
#[derive(Clone, Debug)]
pub struct OperationSettings {
    /// How it is drained.
    pub drain: DrainSpec,
    /// How the result is judged.
    pub verify: VerifySpec,
    /// What it is told or asked meanwhile.
    pub hooks: Vec<Hook>,
    /// What the choice of the mode rests on, but for who else serves at that moment.
    inputs: ModeInputs,
    /// Of versions before, how long its workload was away until it was ready.
    ready_before_milliseconds: Option<u32>,
}

/// What an operation begins with.
#[derive(Debug)]
pub struct Start<'a> {
    /// Leave or Hold.
    pub mode: Mode,
    /// What its Services need before.
    pub begin: ServiceReadiness<'a>,
}

impl Start<'_> {
    /// Of a pod whose labels are changed and nothing else.
    #[must_use]
    pub fn staying() -> Self {
        let reason = format!("{}: nothing in the pod is replaced", Mode::LABELS_ONLY);
        let mode = Mode::of(GrantMode::Stay, reason);
        Self { mode, begin: ServiceReadiness::Now { open: Vec::new(), note: None } }
    }
}

impl OperationSettings {
    /// Of this pod, under these policies.
    ///
    /// # Errors
    /// If it can't be operated before something is mended.
    pub fn of(context: PodContext<'_>, policies: &Policies<'_>, traffic: &Traffic<'_>) -> Result<Self, NotOperable> {
        let PodContext { pod, workload, post_check, agent, operation, delay_seconds, is_unfetched } = context;
        let is_relabel = operation.is_some_and(|operation| operation.op == GrantOp::Relabel);
        let seconds = start_seconds(pod, workload.progress_deadline_seconds);
        let mut resolved = policies.resolve(pod, |port| traffic.treatment(pod, port), seconds)?;
        if is_relabel {
            // It is told of what takes it out of service, or replaces something in it.
            resolved.hooks.clear();
        }
        if let Some(feature) = agent.lacks(&resolved.hooks) {
            return Err(NotOperable::HooksUnsupported(feature));
        }
        let long_lived_port = resolved.drain.long_lived_port();
        // The agent sees which ports are listened to, and not which of them have clients.
        let tcp = traffic.ports(pod, Protocol::Tcp).into_iter();
        let tcp = tcp.map(|port| (port, traffic.treatment(pod, port).unwrap_or(PortTreatment::Tcp)));
        let udp = traffic.ports(pod, Protocol::Udp).into_iter().map(|port| (port, PortTreatment::Udp));
        for (port, treat) in tcp.chain(udp) {
            let ports = &mut resolved.drain.ports;
            if ports.len() < DrainSpec::MAX_PORTS && !ports.iter().any(|known| known.port == port) {
                ports.push(PortDrain { port, treat });
            }
        }
        // Where somebody wants a longer time, that counts.
        if delay_seconds > 0 {
            let drain = &mut resolved.drain;
            drain.min_seconds = drain.min_seconds.max(delay_seconds.min(DrainSpec::LONGEST_MIN_SECONDS));
            drain.straggler_after_seconds = drain.straggler_after_seconds.max(drain.min_seconds);
            drain.deadline_seconds = drain.deadline_seconds.max(drain.min_seconds);
        }
        let inputs = ModeInputs {
            wanted: resolved.mode,
            origin: resolved.mode_origin,
            gated: pod.gated,
            serving: pod.ready(),
            post_check: post_check && !is_relabel,
            hook_after_drain: Hook::need_leave(&resolved.hooks),
            is_delayed: delay_seconds > 0,
            agent_can_hold: agent.can_hold(&pod.id.uid),
            gap_milliseconds: workload.gap_milliseconds,
            ready_milliseconds: workload.ready_milliseconds,
            unready_milliseconds: workload.unready_milliseconds,
            cap_milliseconds: resolved.drain.hold_cap_milliseconds,
            long_lived_port,
            unheld_port: context.unheld_port(&resolved.drain, traffic),
            another_serves: false,
            lone_service: None,
            companion_serves: false,
            node_local_service: None,
            always_published: traffic.always_published(pod),
            host_port: context.host_port(&resolved.drain),
            behind_service: traffic.leading_to(pod).any(|service| service.has_address && !service.is_published()),
            connections_lost: workload.losses.map(ConnectionLosses::words),
            load_balancer_keeps_it: traffic.load_balancer_keeps(pod),
            serves_nobody: context.serves_nobody(),
            still_in_flight: agent.is_still_in_flight(&pod.id.uid),
            is_unfetched,
        };
        // Whether it can be operated at all does not rest on who else serves.
        if !is_relabel {
            choice::choose(&inputs)?;
        }
        let drain = agent.readable(resolved.drain);
        let (verify, hooks) = (resolved.verify, resolved.hooks);
        let ready_before_milliseconds = workload.ready_before_milliseconds;
        Ok(Self { drain, verify, hooks, inputs, ready_before_milliseconds })
    }

    /// Whether a rule of stage PostCheck concerns the pod.
    #[must_use]
    pub fn has_post_check(&self) -> bool {
        self.inputs.post_check
    }

    /// Whether the kubelet pulls an image while the containers are down.
    #[must_use]
    pub fn is_unfetched(&self) -> bool {
        self.inputs.is_unfetched
    }

    /// How long its workload is away when it is operated, in milliseconds, as far as that was learned.
    #[must_use]
    pub fn gap_milliseconds(&self) -> Option<u32> {
        self.inputs.gap_milliseconds
    }

    /// The same until it is ready, as this version has shown, or as versions before it have.
    #[must_use]
    pub fn ready_milliseconds(&self) -> Option<u32> {
        self.inputs.ready_milliseconds.or(self.ready_before_milliseconds)
    }

    /// Whether clients would be refused in this mode, which nobody has wanted, for longer than natively, where a pod of the next version
    /// serves before this one goes. `is_alone`: they have nobody else; then what is unknown is not guessed to be short. Where they have,
    /// one pod may show it, as it is only its own share of them that it costs.
    #[must_use]
    pub fn is_refused_for_long(&self, mode: &Mode, is_alone: bool) -> bool {
        let (gap, cap, word) = (self.inputs.gap_milliseconds, self.inputs.cap_milliseconds, Mode::word(&mode.reason));
        let is_refused = if is_alone {
            let is_for_nobody_else = matches!(word, Mode::ONLY_POD | Mode::ALWAYS_PUBLISHED | Mode::NO_READINESS_GATE);
            let is_served_by_nobody = word == Mode::CANNOT_HOLD && self.inputs.serving;
            (is_for_nobody_else && gap.is_none_or(|gap| gap > cap)) || is_served_by_nobody
        } else {
            let keeps_clients = word == Mode::NO_READINESS_GATE || self.is_kept_by_load_balancer(mode);
            keeps_clients && gap.is_some_and(|gap| gap > cap.saturating_add(CLEARLY))
        };
        self.inputs.wanted == DesiredMode::Auto && is_refused
    }

    /// The same, where natively another pod serves on its node before it goes, and in place some clients of the node have nobody else.
    #[must_use]
    pub fn is_refused_on_its_node(&self, mode: &Mode) -> bool {
        let (gap, cap) = (self.inputs.gap_milliseconds, self.inputs.cap_milliseconds);
        let word = Mode::word(&mode.reason);
        let is_refused = match mode.mode {
            GrantMode::Hold => !mode.unless_serving && gap.is_none_or(|gap| gap > cap),
            // Not where its owner wants it out of service, for a check, a hook or a time.
            GrantMode::Leave => Mode::REST_ON_OTHERS.contains(&word) || word == Mode::CANNOT_HOLD,
            GrantMode::Stay | GrantMode::Unknown(_) => false,
        };
        self.inputs.wanted == DesiredMode::Auto && self.inputs.serving && is_refused
    }

    /// It leaves because another pod serves, and a load balancer outside of the cluster sends it connections all the same.
    fn is_kept_by_load_balancer(&self, mode: &Mode) -> bool {
        let word = Mode::word(&mode.reason);
        let rests_on_pods = word != Mode::COMPANION && Mode::REST_ON_OTHERS.contains(&word);
        self.inputs.load_balancer_keeps_it.is_some() && rests_on_pods
    }

    /// Why a companion pod would not spare this pod's clients, as a clause for people: some of them get to the pod whoever else serves.
    #[must_use]
    pub fn shares_with_companion(&self) -> Option<String> {
        if !self.inputs.gated {
            return Some("the pod has no readiness gate, so it would get connections beside it".to_owned());
        }
        let shown_by = self.inputs.load_balancer_keeps_it.as_ref()?;
        Some(format!("{shown_by} shows a load balancer that would send the pod connections beside it"))
    }

    /// What clients would see in place, as a clause for people. `alone`: that they have nobody else, in words.
    #[must_use]
    pub fn loss(&self, mode: &Mode, alone: Option<&str>) -> String {
        let cap = self.inputs.cap_milliseconds;
        let held = format!("new connections would wait for {cap} ms and be refused then");
        let gap = self.inputs.gap_milliseconds.map_or_else(
            || "how long its workload is away is not known".to_owned(),
            |gap| format!("its workload was away for {gap} ms"),
        );
        match (&mode.mode, alone) {
            (GrantMode::Hold, Some(alone)) => format!("{alone}, and in place {held}: {gap}"),
            (GrantMode::Hold, None) => format!("it can't leave service, and in place {held}: {gap}"),
            (GrantMode::Leave | GrantMode::Stay | GrantMode::Unknown(_), Some(alone)) => {
                format!("{alone}, and in place new connections would be refused until it is back")
            }
            (GrantMode::Leave | GrantMode::Stay | GrantMode::Unknown(_), None) => {
                let shown_by = self.inputs.load_balancer_keeps_it.as_deref().unwrap_or_default();
                format!("{shown_by} shows a load balancer whose {held}: {gap}")
            }
        }
    }

    /// For a pod that leaves service whoever else serves, for this reason.
    #[must_use]
    pub fn leave<'a>(
        &self,
        reason: &str,
        pod: &PodView,
        traffic: &Traffic<'a>,
        serving: &impl Fn(&PodView) -> Serving,
    ) -> Start<'a> {
        let mode = Mode::of(GrantMode::Leave, reason.to_owned());
        let begin = traffic.begin(pod, &mode.mode, serving);
        Start { mode, begin }
    }

    /// Leave or Hold, and whether Services have to be opened before. `pod` is the one that this is of; `serving` says how the
    /// others are; `companion_serves`: one of them is the companion pod of its workload, or will be.
    ///
    /// # Errors
    /// Those of [`Self::of`].
    pub fn start<'a>(
        &self,
        pod: &PodView,
        traffic: &Traffic<'a>,
        serving: &impl Fn(&PodView) -> Serving,
        companion_serves: bool,
    ) -> Result<Start<'a>, NotOperable> {
        // Who else serves matters to nobody but Auto.
        let asks = self.inputs.wanted == DesiredMode::Auto;
        let stand_in = if asks { traffic.stand_in_while_unready(pod, serving) } else { StandIn::None };
        let named = |service: &str| Some(service.to_owned());
        let (another_serves, lone_service, node_local_service) = match stand_in {
            StandIn::Serves => (true, None, None),
            StandIn::ExceptFor(service) => (true, named(service), None),
            StandIn::ExceptOnNode(service) => (true, named(service), named(service)),
            StandIn::OnOtherNodes(service) => (false, None, named(service)),
            StandIn::None => (false, None, None),
        };
        let known = self.inputs.clone();
        let inputs = ModeInputs { another_serves, lone_service, companion_serves, node_local_service, ..known };
        let mut mode = choice::choose(&inputs)?;
        let begin = traffic.begin(pod, &mode.mode, serving);
        if let ServiceReadiness::Now { note: Some(note), .. } = &begin {
            mode.reason = format!("{}; {note}", mode.reason);
        }
        Ok(Start { mode, begin })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mode::ServiceView;
    use hitless_workloads::PodIntent;
    use k8s_openapi::api::core::v1::{Pod, Service};
    use serde_json::{Value, json};
    use std::sync::Arc;

    fn pod(annotations: &Value) -> PodView {
        let pod = json!({
            "metadata": {"namespace": "shop", "name": "a", "uid": "a", "annotations": annotations},
            "spec": {"containers": [], "readinessGates": [{"conditionType": "hitless.dev/InService"}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}
        });
        PodView::from(&serde_json::from_value::<Pod>(pod).unwrap())
    }

    fn mode(pod: &PodView, agent: AgentStatus<'_>) -> Result<(GrantMode, String), NotOperable> {
        mode_of(pod, &PodIntent::assumed(pod).operation, agent)
    }

    fn mode_of(
        pod: &PodView,
        operation: &Operation,
        agent: AgentStatus<'_>,
    ) -> Result<(GrantMode, String), NotOperable> {
        let traffic = Traffic::new(&[], &[]);
        let workload = WorkloadFacts::default();
        let context = PodContext {
            pod,
            workload,
            post_check: false,
            agent,
            operation: Some(operation),
            delay_seconds: 0,
            is_unfetched: false,
        };
        let settings = OperationSettings::of(context, &Policies::default(), &traffic)?;
        let mode = settings.start(pod, &traffic, &|other| Serving::of(other, false), false)?.mode;
        Ok((mode.mode, Mode::word(&mode.reason).to_owned()))
    }

    fn agent(features: &[&str]) -> AgentInfo {
        serde_json::from_value(json!({"version": "1", "bootID": "b", "features": features})).unwrap()
    }

    #[test]
    fn what_the_agent_says_counts_and_what_it_has_refused() {
        let (able, unable) = (agent(&["Leave", "Hold"]), agent(&["Leave"]));
        let says = |info| AgentStatus { info, reports: &[] };
        let chosen = |agent| mode(&pod(&json!({})), agent).unwrap();
        assert_eq!(chosen(says(None)), (GrantMode::Hold, "OnlyPod".to_owned()));
        assert_eq!(chosen(says(Some(&able))), (GrantMode::Hold, "OnlyPod".to_owned()));
        assert_eq!(chosen(says(Some(&unable))), (GrantMode::Leave, "AgentCannotHold".to_owned()));
        let refused = |id: &str| -> Vec<Transition> {
            let result = json!({"outcome": "Refused", "reason": "HoldFailed"});
            let report = json!({"id": id, "granted": "2026-01-01T00:00:00.000000Z", "phase": "Granted",
                "since": "2026-01-01T00:00:00.000000Z", "result": result});
            vec![serde_json::from_value(report).unwrap()]
        };
        let reports = refused("a.0123");
        assert_eq!(chosen(AgentStatus { info: Some(&able), reports: &reports }).0, GrantMode::Leave);
        let reports = refused("b.0123");
        assert_eq!(
            chosen(AgentStatus { info: Some(&able), reports: &reports }).0,
            GrantMode::Hold,
            "that was another pod"
        );
        let remembers = |uid: &str| AgentInfo { not_held: vec![uid.to_owned()], ..able.clone() };
        let (of_this, of_other) = (remembers("a"), remembers("b"));
        assert_eq!(chosen(says(Some(&of_this))), (GrantMode::Leave, "AgentCannotHold".to_owned()));
        assert_eq!(chosen(says(Some(&of_other))).0, GrantMode::Hold);
    }

    #[test]
    fn who_can_not_be_operated_says_why() {
        let hooks = json!([{"name": "ask", "when": "BeforeDrain", "http": {"port": 80, "path": "/"}}]).to_string();
        let unable = agent(&["Leave", "Hold"]);
        let says = AgentStatus { info: Some(&unable), reports: &[] };
        let why = mode(&pod(&json!({"hitless.dev/hooks": hooks})), says).unwrap_err();
        assert!(matches!(why, NotOperable::HooksUnsupported(_)), "{why}");
        let why = mode(&pod(&json!({"hitless.dev/mode": "Stay"})), says).unwrap_err();
        assert!(matches!(why, NotOperable::Drain(_)), "{why}");
        let ungated = PodView { gated: false, ..pod(&json!({"hitless.dev/mode": "Leave"})) };
        let why = mode(&ungated, says).unwrap_err();
        assert!(matches!(why, NotOperable::NoReadinessGate(_)), "{why}");
    }

    #[test]
    fn a_pod_whose_replaced_container_has_a_port_of_its_node_is_held() {
        let able = agent(&["Leave", "Hold"]);
        let chosen = |ports: Value, replaced: &str| {
            let spec = json!({"containers": [{"name": "web", "ports": ports}, {"name": "side", "ports": [{"containerPort": 1}]}]});
            let views: Pod = serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap();
            let all = PodView { containers: PodView::from(&views).containers, ..pod(&json!({})) };
            let mut only = all.clone();
            only.containers.retain(|container| container.name == replaced);
            let operation = PodIntent::assumed(&only).operation;
            mode_of(&all, &operation, AgentStatus { info: Some(&able), reports: &[] }).unwrap().1
        };
        let host = || json!([{"containerPort": 8080, "hostPort": 80}]);
        assert_eq!(chosen(host(), "web"), "HostPort");
        assert_eq!(chosen(host(), "side"), "OnlyPod", "that container stays");
        assert_eq!(chosen(json!([{"containerPort": 53, "hostPort": 53, "protocol": "UDP"}]), "web"), "OnlyPod");
        assert_eq!(chosen(json!([{"containerPort": 8080, "hostPort": 0}]), "web"), "OnlyPod");
    }

    #[test]
    fn a_pod_that_serves_by_another_protocol_than_tcp_leaves_where_another_one_serves() {
        let chosen = |declared: &Value, service: &Value, annotations: &Value| {
            let pods = ["a", "b"].map(|name| {
                let owner = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "uid": "s", "controller": true});
                let metadata = json!({"namespace": "shop", "name": name, "uid": name, "labels": {"app": "dns"},
                    "annotations": annotations, "ownerReferences": [owner]});
                let spec = json!({"containers": [{"name": "web", "ports": declared}],
                    "readinessGates": [{"conditionType": "hitless.dev/InService"}]});
                let status = json!({"conditions": [{"type": "Ready", "status": "True"}]});
                let pod = json!({"metadata": metadata, "spec": spec, "status": status});
                Arc::new(PodView::from(&serde_json::from_value::<Pod>(pod).unwrap()))
            });
            let service = json!({"metadata": {"namespace": "shop", "name": "dns"}, "spec": service});
            let service = ServiceView::from(&serde_json::from_value::<Service>(service).unwrap());
            let services = [Arc::new(service)];
            let traffic = Traffic::new(&services, &pods);
            let workload = WorkloadFacts {
                gap_milliseconds: Some(300),
                ready_milliseconds: Some(500),
                ..WorkloadFacts::default()
            };
            let operation = PodIntent::assumed(&pods[0]).operation;
            let context = PodContext {
                pod: &pods[0],
                workload,
                post_check: false,
                agent: AgentStatus::default(),
                operation: Some(&operation),
                delay_seconds: 0,
                is_unfetched: false,
            };
            let settings = OperationSettings::of(context, &Policies::default(), &traffic).unwrap();
            let mode = settings.start(&pods[0], &traffic, &|other| Serving::of(other, false), false).unwrap().mode;
            (Mode::word(&mode.reason).to_owned(), settings.drain.ports)
        };
        let http = json!([{"containerPort": 8080, "name": "http"}]);
        let with = |port: Value| Value::Array(http.as_array().unwrap().iter().cloned().chain([port]).collect());
        let selector = json!({"app": "dns"});
        let served = |ports: Value| json!({"clusterIP": "10.0.0.1", "selector": selector, "ports": ports});
        let dns = || json!([{"port": 53, "targetPort": 5353, "protocol": "UDP"}]);
        let nothing = json!({});
        let (reason, ports) = chosen(&http, &served(dns()), &nothing);
        assert_eq!(reason, "UnheldPort", "a number leads to every pod");
        assert!(
            ports.contains(&PortDrain { port: 5353, treat: PortTreatment::Udp }),
            "it is not quiet while they come"
        );
        let udp = with(json!({"containerPort": 5353, "name": "dns", "protocol": "UDP"}));
        assert_eq!(chosen(&udp, &served(dns()), &nothing).0, "UnheldPort");
        let named = served(json!([{"port": 53, "targetPort": "dns", "protocol": "UDP"}]));
        assert_eq!(chosen(&udp, &named, &nothing).0, "UnheldPort");
        let headless = json!({"clusterIP": "None", "selector": selector, "ports": dns()});
        assert_eq!(chosen(&udp, &headless, &nothing).0, "UnheldPort");
        let web = served(json!([{"port": 80, "targetPort": "http"}]));
        assert_eq!(chosen(&udp, &web, &nothing).0, "ShortGap", "nobody is led to the port");
        let ignored = json!({"hitless.dev/drain": r#"{"ports": [{"port": 5353, "treat": "ignore"}]}"#});
        assert_eq!(chosen(&udp, &served(dns()), &ignored).0, "ShortGap", "its owner says so");
        let http3 =
            json!([{"containerPort": 443, "name": "h3", "protocol": "UDP"}, {"containerPort": 443, "name": "http"}]);
        let both =
            served(json!([{"port": 443, "targetPort": "http", "appProtocol": "http"}, {"port": 443, "name": "h3",
            "targetPort": "h3", "protocol": "UDP"}]));
        let (reason, ports) = chosen(&http3, &both, &nothing);
        assert_eq!(
            (reason.as_str(), &ports[..]),
            ("UnheldPort", &[PortDrain { port: 443, treat: PortTreatment::Http1 }][..])
        );
        let sctp = with(json!({"containerPort": 3868, "name": "http-s", "protocol": "SCTP"}));
        assert_eq!(chosen(&sctp, &web, &nothing).0, "UnheldPort", "beside it nobody can be held");
    }

    #[test]
    fn a_container_without_ports_and_probes_beside_another_one_is_replaced_without_a_drain() {
        let able = agent(&["Leave", "Hold", "unlessServing"]);
        let chosen = |side: Value, replaced: &[&str], info: &AgentInfo, reports: &[Transition]| {
            let mut all = pod(&json!({}));
            let spec = json!({"containers": [{"name": "web", "ports": [{"containerPort": 80}]}, side]});
            let views: Pod = serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap();
            all.containers = PodView::from(&views).containers;
            let only = PodView { containers: all.containers.clone(), ..all.clone() };
            let kept = only.containers.into_iter().filter(|each| replaced.contains(&each.name.as_str())).collect();
            let operation = PodIntent::assumed(&PodView { containers: kept, ..all.clone() }).operation;
            mode_of(&all, &operation, AgentStatus { info: Some(info), reports }).unwrap().1
        };
        let side = || json!({"name": "side"});
        assert_eq!(chosen(side(), &["side"], &able, &[]), "ServesNobody");
        assert_eq!(chosen(side(), &["web"], &able, &[]), "OnlyPod", "that one has a port");
        assert_eq!(chosen(side(), &["web", "side"], &able, &[]), "OnlyPod", "nothing stays");
        assert_eq!(chosen(side(), &["side"], &agent(&["Leave", "Hold"]), &[]), "OnlyPod", "its agent can't look");
        let result = json!({"outcome": "Refused", "reason": "ContainerServes"});
        let report = json!({"id": "a.0123", "granted": "2026-01-01T00:00:00.000000Z", "phase": "Granted",
            "since": "2026-01-01T00:00:00.000000Z", "result": result});
        let reports: Vec<Transition> = vec![serde_json::from_value(report).unwrap()];
        assert_eq!(chosen(side(), &["side"], &able, &reports), "OnlyPod", "its agent has seen it serve");
        let seen = AgentInfo { serving: vec!["a/side".to_owned()], ..able.clone() };
        assert_eq!(chosen(side(), &["side"], &seen, &[]), "OnlyPod", "and remembers it");
        let other = AgentInfo { serving: vec!["a/proxy".to_owned(), "b/side".to_owned()], ..able.clone() };
        assert_eq!(chosen(side(), &["side"], &other, &[]), "ServesNobody", "that was another one");
        for probe in [
            json!({"name": "side", "ports": [{"containerPort": 9090}]}),
            json!({"name": "side", "livenessProbe": {"tcpSocket": {"port": 9090}}}),
            json!({"name": "side", "readinessProbe": {"exec": {"command": ["true"]}}}),
        ] {
            assert_eq!(chosen(probe.clone(), &["side"], &able, &[]), "OnlyPod", "{probe}");
        }
        let liveness = json!({"name": "side", "livenessProbe": {"exec": {"command": ["true"]}}});
        assert_eq!(chosen(liveness, &["side"], &able, &[]), "ServesNobody", "that opens no connection");
    }
}
