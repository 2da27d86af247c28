//! What would be done to a pod if it were granted: the policies that hold for it, put together with what is known of it.

use hitless_api::node_transition::AgentInfo;
use hitless_api::pod::{ContainerView, PodView};
use hitless_api::{
    DrainSpec, Grant, GrantMode, Hook, HookTime, ModeWish, Outcome, Transition, TransitionResult, VerifySpec,
};
use hitless_workloads::{Operation, Plan};

use super::choice::{self, Mode, ModeInputs};
use super::not_operable::NotOperable;
use super::policy::Policies;
use super::traffic::{ServiceReadiness, Serving, StandIn, Traffic};
use super::{ConnectionLosses, Gaps};

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
}

/// What a workload says of how its pods are operated; nothing where a pod has none that is looked after.
#[derive(Clone, Copy, Default)]
pub struct WorkloadFacts<'a> {
    /// How long a new version may take, in seconds.
    pub progress_deadline_seconds: Option<u32>,
    /// How long it may take judged by the version before, in seconds.
    pub ready_within_seconds: Option<u32>,
    /// The longest time of late that its containers were away, in milliseconds (annotation `hitless.dev/gap`).
    pub gap_milliseconds: Option<u32>,
    /// Connections of one of its pods were lost when it became not Ready.
    pub losses: Option<&'a ConnectionLosses>,
}

impl WorkloadFacts<'_> {
    /// Of the workload that this is planned for.
    #[must_use]
    pub fn of(plan: &Plan) -> Self {
        Self {
            progress_deadline_seconds: plan.progress_deadline_seconds,
            ready_within_seconds: None,
            gap_milliseconds: Gaps::parse(plan.gaps.as_deref()).longest(),
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
}

/// What an operation begins with.
#[derive(Debug)]
pub struct Start<'a> {
    /// Leave or Hold.
    pub mode: Mode,
    /// What its Services need before.
    pub begin: ServiceReadiness<'a>,
}

impl OperationSettings {
    /// Of this pod, under these policies.
    ///
    /// # Errors
    /// If it can't be operated before something is mended.
    pub fn of(context: PodContext<'_>, policies: &Policies<'_>, traffic: &Traffic<'_>) -> Result<Self, NotOperable> {
        let PodContext { pod, workload, post_check, agent, operation: _, delay_seconds } = context;
        let hooks_wait = |hooks: &[Hook]| hooks.iter().any(|hook| hook.when == HookTime::AfterStart);
        let mut resolved =
            policies.resolve(pod, |port| traffic.treatment(pod, port), workload.progress_deadline_seconds)?;
        // What a person or a program decides meanwhile takes its own time.
        if let Some(seconds) = workload.ready_within_seconds.filter(|_| !post_check && !hooks_wait(&resolved.hooks))
            && !resolved.progress_is_wished
        {
            resolved.verify.progress_seconds = resolved.verify.progress_seconds.min(seconds);
        }
        if let Some(feature) = agent.lacks(&resolved.hooks) {
            return Err(NotOperable::HooksUnsupported(feature));
        }
        // Where somebody wants a longer time, that counts.
        if delay_seconds > 0 {
            let drain = &mut resolved.drain;
            drain.min_seconds = drain.min_seconds.max(delay_seconds.min(DrainSpec::LONGEST_MIN_SECONDS));
            drain.straggler_after_seconds = drain.straggler_after_seconds.max(drain.min_seconds);
            drain.deadline_seconds = drain.deadline_seconds.max(drain.min_seconds);
        }
        let inputs = ModeInputs {
            wish: resolved.mode,
            origin: resolved.mode_origin,
            gated: pod.gated,
            serving: pod.ready(),
            post_check,
            hook_after_drain: Hook::need_leave(&resolved.hooks),
            is_delayed: delay_seconds > 0,
            agent_can_hold: agent.can_hold(&pod.id.uid),
            gap_milliseconds: workload.gap_milliseconds,
            cap_milliseconds: resolved.drain.hold_cap_milliseconds,
            long_lived_port: resolved.drain.long_lived_port(),
            another_serves: false,
            node_local_service: None,
            always_published: traffic.always_published(pod),
            connections_lost: workload.losses.map(ConnectionLosses::words),
            load_balancer_keeps_it: traffic.load_balancer_keeps(pod),
            serves_nobody: context.serves_nobody(),
        };
        // Whether it can be operated at all does not rest on who else serves.
        choice::choose(&inputs)?;
        let drain = agent.readable(resolved.drain);
        Ok(Self { drain, verify: resolved.verify, hooks: resolved.hooks, inputs })
    }

    /// Whether a rule of stage PostCheck concerns the pod.
    #[must_use]
    pub fn has_post_check(&self) -> bool {
        self.inputs.post_check
    }

    /// How long its workload is away when it is operated, in milliseconds, as far as that was learned.
    #[must_use]
    pub fn gap_milliseconds(&self) -> Option<u32> {
        self.inputs.gap_milliseconds
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
        let mode = Mode { mode: GrantMode::Leave, reason: reason.to_owned(), unless_serving: false };
        let begin = traffic.begin(pod, &mode.mode, serving);
        Start { mode, begin }
    }

    /// Leave or Hold, and whether Services have to be opened before. `pod` is the one that this is of; `serving` says how the
    /// others are.
    ///
    /// # Errors
    /// Those of [`Self::of`].
    pub fn start<'a>(
        &self,
        pod: &PodView,
        traffic: &Traffic<'a>,
        serving: &impl Fn(&PodView) -> Serving,
    ) -> Result<Start<'a>, NotOperable> {
        // Who else serves matters to nobody but Auto.
        let asks = self.inputs.wish == ModeWish::Auto;
        let stand_in = if asks { traffic.stand_in(pod, serving) } else { StandIn::None };
        let (another_serves, node_local_service) = match stand_in {
            StandIn::Serves => (true, None),
            StandIn::OnOtherNodes(service) => (false, Some(service.to_owned())),
            StandIn::None => (false, None),
        };
        let mut mode = choice::choose(&ModeInputs { another_serves, node_local_service, ..self.inputs.clone() })?;
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
    use hitless_workloads::PodIntent;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

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
        let context =
            PodContext { pod, workload, post_check: false, agent, operation: Some(operation), delay_seconds: 0 };
        let settings = OperationSettings::of(context, &Policies::default(), &traffic)?;
        let mode = settings.start(pod, &traffic, &|other| Serving::of(other, false))?.mode;
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
