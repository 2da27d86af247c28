//! What the facts mean for hitless itself: whether it is there, whole, and able to work. Pure.

use std::collections::BTreeSet;

use hitless_api::{
    DrainPolicy, NodeTransition, PodTransitionRule, TrafficProvider, TransitionBudget, TransitionLedger, names,
};
use hitless_rollout::guard::Guards;
use hitless_workloads::KINDS;
use kube::CustomResourceExt;

use super::facts::{Facts, Program, Seen};
use super::finding::Finding;
use super::{agents, helpers, opt_in, surroundings};
use crate::output;

/// Most objects that are named in a sentence.
pub(super) const NAMED: usize = 3;
pub(super) const INSTALL: &str = "install it again: kubectl apply -k manifests";
const INSTALL_DEFINITIONS: &str = "install them again: kubectl apply -k manifests/crds";
const INSTALL_BOTH: &str = "install it again: kubectl apply -k manifests/crds, then kubectl apply -k manifests";
/// What to ask for where something may not be read.
pub(crate) const ROLES: &str = "the ClusterRoles hitless-view and hitless-view-cluster, each by a ClusterRoleBinding";
const FIRST_SERVER: (u32, u32) = (1, 36);
const GATE: &str = "hitless-gate";
const GATE_BINDINGS: [&str; 2] = ["hitless-gate-pods", "hitless-gate-namespaces"];

/// What installs the policies: an API server that has no mutating ones gets those that refuse.
pub(super) fn install_policies(facts: &Facts) -> &'static str {
    match facts.server.known() {
        Some((major, minor, _)) if (*major, *minor) < FIRST_SERVER => {
            "install them again: kubectl apply -k overlays/refusing (overlays/v1beta1 where the API server serves MutatingAdmissionPolicy as v1beta1)"
        }
        Some(_) | None => INSTALL,
    }
}

/// Every finding, in the order in which it is read.
pub(crate) fn findings(facts: &Facts) -> Vec<Finding> {
    let own = [
        server(facts),
        definitions(facts),
        not_served(facts),
        guard(facts),
        gate(facts),
        controller(facts),
        leaving_sets(facts),
    ];
    let mut all: Vec<Finding> = own.into_iter().flatten().collect();
    all.extend(opt_in::findings(facts));
    all.extend(rights(facts));
    all.extend(agents::findings(facts));
    all.extend(surroundings::findings(facts));
    all.extend(helpers::findings(facts));
    all.extend(surroundings::managers(facts));
    all.extend(unread(facts));
    all
}

// Of what may not be read nothing is said in these: one line at the end names it all.

fn server(facts: &Facts) -> Option<Finding> {
    let (major, minor, version) = facts.server.known()?;
    let can_hold = (*major, *minor) >= FIRST_SERVER;
    Some(if !can_hold && facts.guards.known().is_none_or(|guards| !refuses(guards) && !holds(guards)) {
        Finding::error(
            format!("the API server is {version}"),
            "mutating admission policies are served from Kubernetes 1.36 on, before only where somebody has switched them on; without them no workload is held, and its changes roll natively",
            "upgrade the cluster to 1.36 or later, or let such changes be refused: kubectl apply -k overlays/refusing (overlays/v1beta1 where they are switched on)",
        )
    } else {
        Finding::ok(format!("API server {version}, kubectl-hitless {}", facts.client))
    })
}

fn definitions(facts: &Facts) -> Option<Finding> {
    let there = facts.definitions.known()?;
    let own = missing(there, [NodeTransition::crd_name(), TransitionLedger::crd_name()]);
    let mut missing = missing(
        there,
        [
            TransitionBudget::crd_name(),
            DrainPolicy::crd_name(),
            TrafficProvider::crd_name(),
            PodTransitionRule::crd_name(),
        ],
    );
    let install = match (missing.is_empty(), own.is_empty()) {
        (true, _) => INSTALL,
        (false, true) => INSTALL_DEFINITIONS,
        (false, false) => INSTALL_BOTH,
    };
    missing.extend(own);
    Some(if missing.is_empty() {
        Finding::ok("all definitions are there")
    } else {
        Finding::error(
            format!("definitions are missing: {}", missing.join(", ")),
            "objects of these kinds can be neither written nor read: nothing is limited by rules and budgets that are not there, and where \
             ledgers or NodeTransitions are missing no pod is operated",
            install,
        )
    })
}

/// Known to be missing although the definitions may not be read: nobody needs a right to what is not there.
fn not_served(facts: &Facts) -> Option<Finding> {
    let is_said = facts.definitions.known().is_some();
    (facts.reports == Seen::NotServed && !is_said).then(|| {
        Finding::error(
            format!("the definition {} is missing", NodeTransition::crd_name()),
            "controller and agents can neither store what is to be done nor what was done",
            INSTALL,
        )
    })
}

fn missing<'n>(there: &BTreeSet<String>, names: impl IntoIterator<Item = &'n str>) -> Vec<&'n str> {
    names.into_iter().filter(|name| !there.contains(*name)).collect()
}

/// Whether changes that nobody holds are refused, and nothing holds them.
pub(super) fn refuses(guards: &Guards) -> bool {
    let mut all = KINDS.iter().filter_map(|kind| kind.guard());
    all.all(|guard| !guards.policies.contains(guard.holds) && guards.policies.contains(guard.refuses))
}

/// Whether the policies are there that hold changes, of every kind.
fn holds(guards: &Guards) -> bool {
    KINDS.iter().filter_map(|kind| kind.guard()).all(|guard| guards.policies.contains(guard.holds))
}

fn guard(facts: &Facts) -> Option<Finding> {
    let guards = facts.guards.known()?;
    let missing: Vec<String> = KINDS.iter().filter_map(|kind| guards.missing(*kind)).collect();
    if !missing.is_empty() {
        return Some(Finding::error(
            format!("the guard is not whole: {}", missing.join("; ")),
            "a change of a workload that opted in is not held: its native controller rolls it at once, and requests are lost",
            install_policies(facts),
        ));
    }
    Some(if refuses(guards) {
        Finding::ok(
            "the guard is there: changes of workloads that opted in are refused unless they are held in the same write, as kubectl hitless \
             set image and undo do",
        )
    } else {
        Finding::ok("the guard is there: changes of workloads that opted in are held")
    })
}

fn gate(facts: &Facts) -> Option<Finding> {
    let guards = facts.guards.known()?;
    if refuses(guards) {
        return Some(Finding::warning(
            "nothing gives new pods the readiness gate",
            "pods without hitless.dev/InService can be held and never leave service",
            "name it in the templates: readinessGates: [{conditionType: hitless.dev/InService}]",
        ));
    }
    let policies = missing(&guards.policies, [GATE]);
    let names: Vec<&str> = policies.into_iter().chain(missing(&guards.bindings, GATE_BINDINGS)).collect();
    Some(if names.is_empty() {
        Finding::ok("new pods get the readiness gate where they or their namespace have hitless.dev/gate: enabled")
    } else {
        Finding::error(
            format!("the policy of the readiness gate is not whole: {} is missing", names.join(", ")),
            "pods are made without hitless.dev/InService, so they can be held and never leave service",
            install_policies(facts),
        )
    })
}

/// Why a program's pods are not Ready, or not there.
pub(super) fn look(kind: &str, name: &str) -> String {
    format!(
        "see why: kubectl -n {system} describe pods -l {label}={name}, kubectl -n {system} logs -l {label}={name}; where there is no pod: \
         kubectl -n {system} describe {kind} {name}",
        system = names::system_namespace(),
        label = names::APP_LABEL,
    )
}

fn controller(facts: &Facts) -> Option<Finding> {
    let nothing = "no operation begins: workloads that are held stay held, and restarts that were asked for wait";
    Some(match facts.controller.known()? {
        None => Finding::error(
            format!("Deployment hitless-controller is not in namespace {}", names::system_namespace()),
            nothing,
            format!("{INSTALL}; if it is in another namespace, set {} to that", names::SYSTEM_NAMESPACE_SETTING),
        ),
        Some(Program { wanted: 0, .. }) => Finding::error(
            "Deployment hitless-controller is scaled to 0, so no controller runs",
            nothing,
            format!(
                "scale it up: kubectl -n {} scale deployment hitless-controller --replicas=2",
                names::system_namespace()
            ),
        ),
        Some(Program { ready: 0, wanted, .. }) => {
            let what = format!("no controller is Ready: Deployment hitless-controller has 0 of {wanted}");
            Finding::error(what, nothing, look("deployment", names::CONTROLLER))
        }
        Some(Program { ready, wanted, image }) if ready < wanted => Finding::warning(
            format!("{ready} of {wanted} controllers are Ready ({image})"),
            "one leads and the others take over when it fails; those that are not Ready can't",
            look("deployment", names::CONTROLLER),
        ),
        Some(Program { ready: 1, image, .. }) => Finding::ok(format!("the only controller is Ready ({image})")),
        Some(Program { ready, wanted, image }) => {
            Finding::ok(format!("{ready} of {wanted} controllers are Ready ({image})"))
        }
    })
}

/// Nobody takes their finalizers off.
fn leaving_sets(facts: &Facts) -> Option<Finding> {
    let is_there = facts.controller.known()?.as_ref().is_some_and(|controller| controller.ready > 0);
    let sets = facts.leaving_sets.known().filter(|sets| !is_there && !sets.is_empty())?;
    Some(Finding::error(
        format!("CollaSets are being deleted, and no controller lets them go: {}", output::names(sets, NAMED)),
        "they stay in Terminating, and so do their namespaces where those are deleted",
        "bring a controller back, or take the finalizers off: kubectl hitless cleanup -A --yes",
    ))
}

/// Without its binding a program runs, is Ready, and can do nothing.
fn rights(facts: &Facts) -> impl Iterator<Item = Finding> {
    let missing = [names::CONTROLLER, names::AGENT].into_iter().filter(|name| {
        let bindings = facts.bindings.known();
        bindings.is_some_and(|bindings| !bindings.contains(*name))
    });
    missing.map(|name| {
        let why = if name == names::CONTROLLER {
            "the controller runs without rights: it reads no workload, and no operation begins"
        } else {
            "the agents run without rights: they see no grant, and no pod is operated"
        };
        Finding::error(format!("ClusterRoleBinding {name} is not there"), why, INSTALL)
    })
}

/// One line for everything that may not be read.
pub(super) fn unread(facts: &Facts) -> Option<Finding> {
    fn why<T>(seen: &Seen<T>) -> Option<&str> {
        match seen {
            // What is not there nobody needs a right to.
            Seen::Known(_) | Seen::NotServed => None,
            Seen::Unread(why) => Some(why),
        }
    }
    let all = [
        ("the API server's version", why(&facts.server)),
        ("definitions", why(&facts.definitions)),
        ("admission policies and their bindings", why(&facts.guards)),
        ("the controller's Deployment", why(&facts.controller)),
        ("our programs' ClusterRoleBindings", why(&facts.bindings)),
        ("the agents' DaemonSet", why(&facts.agent)),
        ("nodes", why(&facts.nodes)),
        ("the agents' pods", why(&facts.agents)),
        ("NodeTransitions", why(&facts.reports)),
        ("DaemonSets and Deployments of all namespaces", why(&facts.programs)),
        ("runtime classes", why(&facts.runtime_classes)),
        ("CollaSets", why(&facts.leaving_sets)),
        ("namespaces that opt in, and their workloads", why(&facts.labelled)),
    ];
    let all: Vec<(&str, &str)> = all.into_iter().filter_map(|(what, why)| Some((what, why?))).collect();
    let (_, first) = all.first()?;
    let names: Vec<&str> = all.iter().map(|(what, _)| *what).collect();
    Some(Finding::warning(
        format!("{} could not be read: {first}", names.join(", ")),
        "nothing is known of them, good or bad",
        format!("ask for {ROLES}, or let an administrator look"),
    ))
}
