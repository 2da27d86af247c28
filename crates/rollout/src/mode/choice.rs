//! Leave or Hold.

use hitless_api::{DesiredMode, GrantMode};

use super::not_operable::NotOperable;

/// What the choice rests on.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent fact")]
pub struct ModeInputs {
    /// What is wanted.
    pub wanted: DesiredMode,
    /// Who wants it.
    pub origin: String,
    /// The pod has the readiness gate.
    pub gated: bool,
    /// The pod is Ready.
    pub serving: bool,
    /// A rule of stage PostCheck concerns the pod: it has to stay out of service until that has passed.
    pub post_check: bool,
    /// A hook is called after its connections are gone: it has to leave, or they never are.
    pub hook_after_drain: bool,
    /// Its workload wants a time between leaving service and the operation.
    pub is_delayed: bool,
    /// What the node's agent says; `None`: it has not said anything yet, and refuses what it does not know.
    pub agent_can_hold: Option<bool>,
    /// The longest gap between two processes that was seen of late, in milliseconds.
    pub gap_milliseconds: Option<u32>,
    /// How long the workload is away until the next version is ready, in milliseconds; `None`: no pod has shown it.
    pub ready_milliseconds: Option<u32>,
    /// How long pods of that version listened before they were ready, at most, in milliseconds.
    pub unready_milliseconds: Option<u32>,
    /// Longest time that connections may be parked, in milliseconds.
    pub cap_milliseconds: u32,
    /// A port on which connections outlast a request, so that a Hold would cut them off.
    pub long_lived_port: Option<u16>,
    /// A port with clients that no Hold parks, and its protocol: their datagrams would be lost, or nobody can be held.
    pub unheld_port: Option<(u16, &'static str)>,
    /// Another pod takes the traffic meanwhile, all of it or that of some Services.
    pub another_serves: bool,
    /// It does not take that of this Service.
    pub lone_service: Option<String>,
    /// It is the companion pod of the workload: it serves until the new process in this pod is Ready.
    pub companion_serves: bool,
    /// This Service sends what comes to a node to pods of that node only, and its other pods are on other nodes. It is the
    /// [lone](Self::lone_service) one, or all that lead to the pod are like that.
    pub node_local_service: Option<String>,
    /// A Service sends connections to the pod whether it is Ready or not, because its owner wants it. Where another pod serves others,
    /// it is a [lone](Self::lone_service) one.
    pub always_published: bool,
    /// A port of its node that leads to a container which is replaced, whether the pod is Ready or not (`hostPort`).
    pub host_port: Option<u16>,
    /// A Service that goes by readiness leads to the pod, so that clients of that one are spared where another pod serves.
    pub behind_service: bool,
    /// Connections of a pod of its workload were lost when it became not Ready, in words: a drain does not spare them.
    pub connections_lost: Option<String>,
    /// A load balancer outside of the cluster sends connections to the pod's own address whether it is Ready or not; what shows that.
    pub load_balancer_keeps_it: Option<String>,
    /// The containers that are replaced serve nobody as far as their spec tells, another one stays, and the agent can look and has
    /// not seen otherwise.
    pub serves_nobody: bool,
    /// Its agent has seen requests that take longer than clients can be held. How long the process takes to stop, which waits for them,
    /// nobody knows.
    pub still_in_flight: bool,
    /// An image is not on the node and can't be fetched there beforehand: the kubelet pulls it while the container is down.
    pub is_unfetched: bool,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mode {
    /// What is done.
    pub mode: GrantMode,
    /// Why, CamelCase first, then words.
    pub reason: String,
    /// Nothing is held, because the containers serve nobody; the agent refuses if it sees otherwise.
    pub unless_serving: bool,
    /// It is held because it is away for a moment only; the agent refuses if requests in flight say otherwise.
    pub unless_in_flight: bool,
}

impl Mode {
    /// First word of the reason of a pod that leaves only because the gap is not known: once it is, the next pod may be held.
    pub const UNKNOWN_GAP: &str = "UnknownGap";

    /// First word of the reason of a pod that is held because no other one serves, although it may be away for longer than clients
    /// can be held.
    pub const ONLY_POD: &str = "OnlyPod";

    /// First word of the reason of a pod that is held because a Service sends it connections whether it is Ready or not.
    pub const ALWAYS_PUBLISHED: &str = "AlwaysPublished";

    /// First word of the reason of a pod that is held because it can't leave service.
    pub const NO_READINESS_GATE: &str = "NoReadinessGate";

    /// First word of the reason of a pod that leaves because its agent can't hold it.
    pub const CANNOT_HOLD: &str = "AgentCannotHold";

    /// First word of the reason of the only pod of a workload that leaves because its companion pod serves.
    pub const COMPANION: &str = "Companion";

    /// First word of the reason of a pod whose labels are changed and nothing else.
    pub const LABELS_ONLY: &str = "LabelsOnly";

    /// First words of the reasons for which a pod leaves because another one serves.
    pub const REST_ON_OTHERS: [&str; 7] = [
        Self::UNKNOWN_GAP,
        Self::COMPANION,
        "LongGap",
        "LongConnections",
        "UnheldPort",
        "StillInFlight",
        "ImageNotFetched",
    ];

    /// Without a condition.
    pub(super) fn of(mode: GrantMode, reason: String) -> Self {
        Self { mode, reason, unless_serving: false, unless_in_flight: false }
    }

    /// The first word of the reason.
    #[must_use]
    pub fn word(reason: &str) -> &str {
        reason.split_once(':').map_or(reason, |(word, _)| word)
    }
}

/// Half of the time that connections may be parked is for a machine that is busier than it was when the gap was measured.
const SHARE_OF_CAP: u32 = 2;

/// A process that is ready within a third of it after it listens is ready at once: the agent asks it ten times a second, and waits for
/// its answer, on a machine where others start as well.
const AT_ONCE: u32 = 3;

/// Decides (docs/contract.md#leave-or-hold).
///
/// # Errors
/// If the pod can neither leave nor be held.
pub fn choose(inputs: &ModeInputs) -> Result<Mode, NotOperable> {
    let no_hold = if inputs.post_check {
        Some((
            "PostCheck: a rule of that stage keeps the pod out of service until it passes",
            "and a rule of stage PostCheck wants it out of service",
        ))
    } else if inputs.hook_after_drain {
        Some((
            "HookAfterDrain: it has a hook that is called when its connections are gone",
            "and one of its hooks is called when its connections are gone (AfterDrain)",
        ))
    } else if inputs.is_delayed {
        Some((
            "OperationDelay: its workload wants a time between leaving service and the operation",
            "and its workload wants a time between leaving service and the operation",
        ))
    } else if inputs.agent_can_hold == Some(false) {
        Some(("AgentCannotHold: the agent on its node can't hold it", "and the agent on its node can't hold it"))
    } else {
        None
    };
    match (inputs.wanted, no_hold) {
        (DesiredMode::Leave, _) => {
            let lost = inputs.connections_lost.as_ref().map(|words| format!("; {words}")).unwrap_or_default();
            leave(inputs, format!("Wished: by {}{lost}", inputs.origin), "and Leave is wished")
        }
        (DesiredMode::Hold | DesiredMode::Auto, Some((reason, because))) => leave(inputs, reason.to_owned(), because),
        // Nobody is connected to it, and a pod that has left tells by its times which container is the new one.
        (DesiredMode::Hold, None)
            if inputs.gated && !inputs.serving && !inputs.always_published && inputs.host_port.is_none() =>
        {
            Ok(not_serving())
        }
        (DesiredMode::Hold, None) => Ok(hold(format!("Wished: by {}", inputs.origin))),
        (DesiredMode::Auto, None) => Ok(auto(inputs)),
    }
}

impl ModeInputs {
    fn nobody_else(&self) -> String {
        let here = |service| {
            format!(
                "no other pod on its node serves, and Service {service} sends what comes to a node to pods of that node only"
            )
        };
        match (&self.node_local_service, &self.lone_service) {
            (Some(service), _) => here(service),
            (None, Some(service)) => format!("no other pod serves clients of Service {service}"),
            (None, None) => "no other pod serves".to_owned(),
        }
    }

    /// That another pod serves, and for whom it does not.
    fn another(&self) -> String {
        let except = |service| format!(", but not clients of Service {service}, whom a Hold would help no more");
        let except = self.lone_service.as_ref().map(except).unwrap_or_default();
        format!("another pod serves{except}")
    }

    /// Clients of its Services have another pod, and would be refused if this one were held, or may be.
    fn spares_others(&self) -> bool {
        self.behind_service && self.another_serves && !self.is_held_in_time()
    }

    /// In a Hold nobody is refused, and where another pod serves no process answers that is not ready: so it was seen. What is unknown is
    /// not guessed to be short.
    fn is_held_in_time(&self) -> bool {
        let is_in_time = |time: Option<u32>| time.is_some_and(|time| time <= self.cap_milliseconds);
        is_in_time(self.gap_milliseconds) && (!self.another_serves || is_in_time(self.ready_milliseconds))
    }

    /// In a Hold clients wait, and neither are they refused nor does a process answer them that is not ready, as far as is known.
    /// Whoever has only this pod is helped by that alone.
    fn helps_lone_clients(&self) -> bool {
        let is_ready_in_time = self.ready_milliseconds.is_some_and(|ready| ready <= self.cap_milliseconds);
        self.lone_service.is_some() && self.is_held_in_time() && is_ready_in_time
    }

    /// What clients see of a Hold that is longer than they can be held.
    fn outlasts_cap(&self) -> Option<String> {
        let cap = self.cap_milliseconds;
        let gap = self.gap_milliseconds.filter(|gap| *gap > cap)?;
        Some(format!("; its workload was away for {gap} ms, clients are parked for {cap} ms and refused then"))
    }

    /// The next version is ready soon after clients would be let in. Between the two they may get answers of a process that serves
    /// nobody yet, so where another pod serves that is what counts: on a busy machine a process listens late, and is ready then.
    fn is_ready_soon(&self) -> bool {
        let soon = self.cap_milliseconds / SHARE_OF_CAP;
        let is_within = |time: Option<u32>, most: u32| time.is_some_and(|time| time <= most);
        let is_ready_at_once = || {
            is_within(self.unready_milliseconds, self.cap_milliseconds / AT_ONCE)
                && is_within(self.ready_milliseconds, self.cap_milliseconds)
        };
        !self.another_serves || is_within(self.ready_milliseconds, soon) || is_ready_at_once()
    }

    /// How long its workload is away, where another pod serves.
    fn away(&self, gap: u32) -> String {
        match self.ready_milliseconds {
            Some(ready) if ready > gap => format!("its workload was away for {gap} ms, ready after {ready} ms"),
            Some(_) | None => format!("its workload was away for {gap} ms"),
        }
    }
}

fn auto(inputs: &ModeInputs) -> Mode {
    let ModeInputs { gap_milliseconds: gap, cap_milliseconds: cap, .. } = *inputs;
    if inputs.gated && !inputs.serving {
        return not_serving();
    }
    if inputs.serves_nobody && inputs.serving {
        let reason =
            "ServesNobody: what is replaced has no port and no probe, and the pod's other containers stay".to_owned();
        return Mode { unless_serving: true, ..hold(reason) };
    }
    if !inputs.gated {
        let outlasts = inputs.outlasts_cap().unwrap_or_default();
        return hold(format!("{}: the pod can't leave service{outlasts}", Mode::NO_READINESS_GATE));
    }
    // Who comes by the node's port is refused in either mode if the gap is long: then it is the others who decide.
    if let (Some(port), false) = (inputs.host_port, inputs.spares_others()) {
        return hold(format!("HostPort: port {port} of its node sends it connections whether it is Ready or not"));
    }
    if inputs.always_published && inputs.lone_service.is_none() {
        return hold("AlwaysPublished: a Service sends it connections whether it is Ready or not".to_owned());
    }
    if inputs.is_unfetched && inputs.another_serves {
        return leaves(format!("ImageNotFetched: its node pulls the image while it is down, and {}", inputs.another()));
    }
    // Before the next one: a drain that lets connections end by themselves is of no use where they are cut off at its beginning.
    if let (Some(words), true) = (&inputs.connections_lost, inputs.is_held_in_time()) {
        return hold(format!("ConnectionsLost: {words}"));
    }
    if let (Some(port), true) = (inputs.long_lived_port, inputs.another_serves && !inputs.helps_lone_clients()) {
        let reason = format!("LongConnections: those to port {port} outlast a request, and {}", inputs.another());
        return leaves(reason);
    }
    if let (Some((port, protocol)), true) = (inputs.unheld_port, inputs.another_serves) {
        let reason =
            format!("UnheldPort: what comes to port {port} by {protocol} can't be held, and {}", inputs.another());
        return leaves(reason);
    }
    if let (Some(shown_by), true) = (&inputs.load_balancer_keeps_it, inputs.is_held_in_time()) {
        return hold(format!(
            "LoadBalancerKeepsIt: {shown_by} shows a load balancer that sends it connections whether it is Ready or not"
        ));
    }
    if inputs.companion_serves {
        let except = |service| format!("; but not clients of Service {service}");
        let except = inputs.lone_service.as_ref().map(except).unwrap_or_default();
        let serves = "its companion pod serves until the new process is ready";
        return leaves(format!("{}: {serves}{except}", Mode::COMPANION));
    }
    match gap {
        // Gaps of other versions tell how long they took to start. One pod that leaves shows it of this one, and costs nobody anything.
        Some(_) if inputs.another_serves && inputs.ready_milliseconds.is_none() => leaves(format!(
            "{}: how long this version needs to start is not known yet, and {}",
            Mode::UNKNOWN_GAP,
            inputs.another()
        )),
        Some(_) if inputs.still_in_flight && inputs.another_serves && inputs.lone_service.is_none() => leaves(format!(
            "StillInFlight: some of its requests take longer than clients can be held, and {}",
            inputs.another()
        )),
        Some(gap) if gap <= cap / SHARE_OF_CAP && inputs.is_ready_soon() && !inputs.still_in_flight => {
            let reason = format!("ShortGap: its workload was away for at most {gap} ms of late");
            Mode { unless_in_flight: inputs.lone_service.is_none(), ..hold(reason) }
        }
        Some(gap) if inputs.another_serves && !inputs.helps_lone_clients() => {
            leaves(format!("LongGap: {}, and {}", inputs.away(gap), inputs.another()))
        }
        None if inputs.another_serves => leaves(format!(
            "{}: how long its workload is away is not known yet, and {}",
            Mode::UNKNOWN_GAP,
            inputs.another()
        )),
        Some(_) | None => {
            let outlasts = inputs.outlasts_cap().unwrap_or_default();
            hold(format!("{}: {}{outlasts}", Mode::ONLY_POD, inputs.nobody_else()))
        }
    }
}

fn leave(inputs: &ModeInputs, reason: String, because: &'static str) -> Result<Mode, NotOperable> {
    if inputs.gated { Ok(leaves(reason)) } else { Err(NotOperable::NoReadinessGate(because)) }
}

fn not_serving() -> Mode {
    leaves("NotServing: the pod is not Ready".to_owned())
}

fn leaves(reason: String) -> Mode {
    Mode::of(GrantMode::Leave, reason)
}

fn hold(reason: String) -> Mode {
    Mode::of(GrantMode::Hold, reason)
}

#[cfg(test)]
mod tests;
