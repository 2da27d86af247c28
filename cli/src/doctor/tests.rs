mod helpers;
mod opt_in;
mod pre;

use std::collections::{BTreeMap, BTreeSet};

use hitless_rollout::foreign_manager::PresentManagers;
use hitless_rollout::guard::Guards;
use hitless_workloads::KINDS;
use jiff::{SignedDuration, Timestamp};

use super::facts::{AgentPod, Facts, Helpers, NodeFacts, Program, Report, Seen};
use super::*;

fn names(all: &[&str]) -> Seen<BTreeSet<String>> {
    Seen::Known(all.iter().map(|name| (*name).to_owned()).collect())
}

fn program(image: &str, ready: i32) -> Seen<Option<Program>> {
    Seen::Known(Some(Program { image: image.to_owned(), wanted: 2, ready }))
}

fn now() -> Timestamp {
    "2026-01-03T00:00:00Z".parse().unwrap()
}

fn node(name: &str) -> NodeFacts {
    NodeFacts { name: name.to_owned(), os: "linux".to_owned(), is_real: true, ..NodeFacts::default() }
}

fn agent(node: &str) -> AgentPod {
    let since = now().checked_sub(SignedDuration::from_hours(3)).ok();
    AgentPod { node: node.to_owned(), ready: true, since, image: "hitless/agent:1".to_owned() }
}

fn report() -> Report {
    let features = ["Leave", "hold", "drain", "hooks"].map(str::to_owned).to_vec();
    Report { version: "0.1.0".to_owned(), features }
}

/// Names of the bindings where workloads are held.
const HOLDS: [&str; 5] = [
    "hitless-guard",
    "hitless-guard-statefulsets",
    "hitless-guard-daemonsets",
    "hitless-gate-pods",
    "hitless-gate-namespaces",
];
/// Names of policies and of their bindings where changes are refused.
const REFUSES: [&str; 3] = ["hitless-refuse-deployments", "hitless-refuse-statefulsets", "hitless-refuse-daemonsets"];

fn guards(policies: &[&str], bindings: &[&str]) -> Seen<Guards> {
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Seen::Known(Guards { policies: set(policies), bindings: set(bindings) })
}

/// A cluster that has all that is asked for.
fn healthy() -> Facts {
    Facts {
        client: "0.1.0".to_owned(),
        server: Seen::Known((1, 36, "v1.36.3".to_owned())),
        definitions: names(&[
            "nodetransitions.hitless.dev",
            "transitionledgers.hitless.dev",
            "transitionbudgets.hitless.dev",
            "drainpolicies.hitless.dev",
            "trafficproviders.hitless.dev",
            "podtransitionrules.apps.kusionstack.io",
        ]),
        guards: guards(
            &["hitless-guard", "hitless-guard-statefulsets", "hitless-guard-daemonsets", "hitless-gate"],
            &HOLDS,
        ),
        controller: program("hitless/controller:1", 2),
        bindings: names(&["hitless-controller", "hitless-agent"]),
        agent: program("hitless/agent:1", 2),
        nodes: Seen::Known(vec![node("n1"), node("n2")]),
        agents: Seen::Known(vec![agent("n1"), agent("n2")]),
        reports: Seen::Known(BTreeMap::from([("n1".to_owned(), report()), ("n2".to_owned(), report())])),
        programs: programs(&[("kube-system/kube-proxy", "registry.k8s.io/kube-proxy:v1.36.3")]),
        runtime_classes: Seen::Known(BTreeMap::new()),
        leaving_sets: Seen::Known(Vec::new()),
        labelled: Seen::Known(Vec::new()),
        managers: PresentManagers::default(),
        helpers: Helpers::default(),
        now: now(),
    }
}

fn programs(all: &[(&str, &str)]) -> Seen<BTreeMap<String, Vec<String>>> {
    Seen::Known(all.iter().map(|(name, image)| ((*name).to_owned(), vec![(*image).to_owned()])).collect())
}

fn of(facts: &Facts, level: Level) -> Vec<Finding> {
    findings(facts).into_iter().filter(|finding| finding.level == level).collect()
}

/// The only error.
fn error(facts: &Facts) -> Finding {
    let mut errors = of(facts, Level::Error);
    assert_eq!(errors.len(), 1, "{errors:?}");
    errors.remove(0)
}

#[test]
fn a_healthy_cluster_has_neither_errors_nor_warnings() {
    let all = findings(&healthy());
    assert!(all.iter().all(|finding| finding.level == Level::Ok), "{all:?}");
    let text = text(&all);
    assert!(text.contains("an agent is Ready on each of 2 nodes, for 3h00m to 3h00m"), "{text}");
    assert!(text.contains("2 of 2 controllers are Ready (hitless/controller:1)"), "{text}");
}

#[test]
fn an_old_cluster_has_no_guard_at_all() {
    let mut facts = healthy();
    facts.server = Seen::Known((1, 35, "v1.35.1".to_owned()));
    facts.guards = guards(&[], &[]);
    let errors = of(&facts, Level::Error);
    assert!(errors[0].what.contains("v1.35.1") && errors[0].to_do.contains("overlays/refusing"), "{errors:?}");
    assert!(
        errors[1].what.contains("neither admission policy hitless-guard nor hitless-refuse-deployments"),
        "{errors:?}"
    );
}

#[test]
fn an_old_cluster_that_has_the_guard_in_its_beta_version_is_told_nothing() {
    let mut facts = healthy();
    facts.server = Seen::Known((1, 35, "v1.35.1".to_owned()));
    assert!(findings(&facts).iter().all(|finding| finding.level == Level::Ok), "{:?}", findings(&facts));
}

#[test]
fn a_definition_that_is_missing_is_named() {
    let mut facts = healthy();
    facts.definitions = names(&[
        "nodetransitions.hitless.dev",
        "transitionledgers.hitless.dev",
        "drainpolicies.hitless.dev",
        "trafficproviders.hitless.dev",
        "podtransitionrules.apps.kusionstack.io",
    ]);
    let found = error(&facts);
    assert!(text(&findings(&facts)).contains("definitions are missing: transitionbudgets"), "{found:?}");
    assert!(found.what.contains("transitionbudgets.hitless.dev"), "{found:?}");
    assert!(found.to_do.ends_with("kubectl apply -k manifests/crds"), "{found:?}");
}

#[test]
fn a_kind_that_is_not_there_is_no_missing_right() {
    let facts = Facts { reports: Seen::NotServed, definitions: Seen::Unread("no".to_owned()), ..healthy() };
    let found = error(&facts);
    assert!(found.what.contains("nodetransitions.hitless.dev is missing"), "{found:?}");
    let warnings = of(&facts, Level::Warning);
    assert!(warnings[0].what.starts_with("definitions could not be read"), "{warnings:?}");
    let mut facts = Facts { reports: Seen::NotServed, ..healthy() };
    let Seen::Known(there) = &mut facts.definitions else { panic!() };
    there.remove("nodetransitions.hitless.dev");
    assert_eq!(error(&facts).what, "definitions are missing: nodetransitions.hitless.dev", "said once");
}

/// Who reads a finding that is not fine knows what it means and what to do.
#[test]
fn every_finding_that_is_not_fine_says_what_why_and_what_to_do() {
    let gone = Program { image: "c:1".to_owned(), wanted: 2, ready: 0 };
    let changes: [fn(&mut Facts, &Program); 12] = [
        |facts, _| {
            facts.server = Seen::Known((1, 35, "v1.35.1".to_owned()));
            facts.guards = guards(&[], &[]);
        },
        |facts, _| facts.definitions = names(&[]),
        |facts, _| facts.guards = guards(&[], &[]),
        |facts, _| facts.guards = guards(&REFUSES, &REFUSES),
        |facts, _| facts.controller = Seen::Known(None),
        |facts, gone| facts.controller = Seen::Known(Some(gone.clone())),
        |facts, gone| facts.controller = Seen::Known(Some(Program { wanted: 0, ..gone.clone() })),
        |facts, _| facts.bindings = names(&[]),
        |facts, _| facts.agent = Seen::Known(None),
        |facts, _| {
            facts.agents = Seen::Known(vec![AgentPod { image: "other:2".to_owned(), ..agent("n1") }, agent("n3")]);
        },
        |facts, _| facts.nodes = Seen::Known(vec![node("n1"), NodeFacts { os: "windows".to_owned(), ..node("w") }]),
        |facts, _| {
            let other = Report { version: "0.2.0".to_owned(), features: Vec::new() };
            facts.reports = Seen::Known(BTreeMap::from([("n1".to_owned(), report()), ("n2".to_owned(), other)]));
        },
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut facts = healthy();
        change(&mut facts, &gone);
        let all = findings(&facts);
        let bad: Vec<&Finding> = all.iter().filter(|finding| finding.level != Level::Ok).collect();
        assert!(!bad.is_empty(), "{number}");
        assert!(bad.iter().all(|finding| !finding.why.is_empty() && !finding.to_do.is_empty()), "{number}: {bad:?}");
    }
}

#[test]
fn policies_are_installed_in_the_way_that_the_server_knows() {
    let facts = Facts {
        server: Seen::Known((1, 33, "v1.33.13".to_owned())),
        guards: guards(&REFUSES, &REFUSES[1..]),
        ..healthy()
    };
    let found = error(&facts);
    assert!(found.what.contains("hitless-refuse-deployments has no binding"), "{found:?}");
    assert!(found.to_do.contains("kubectl apply -k overlays/refusing"), "{found:?}");
}

#[test]
fn one_error_is_not_many() {
    assert_eq!(verdict(1), "hitless can't work here as it should: 1 error");
    assert!(verdict(2).ends_with("2 errors"));
    let mut facts = healthy();
    facts.nodes = Seen::Known(vec![node("n1")]);
    facts.reports = Seen::Known(BTreeMap::from([("n1".to_owned(), report())]));
    facts.controller = Seen::Known(Some(Program { image: "c:1".to_owned(), wanted: 1, ready: 1 }));
    let text = text(&findings(&facts));
    for words in ["on each of 1 node,", "1 agent has reported", "the only controller is Ready (c:1)"] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn a_guard_without_its_binding_guards_nothing() {
    let mut facts = healthy();
    facts.guards = guards(&[&HOLDS[..3], &["hitless-gate"]].concat(), &HOLDS[1..]);
    let found = error(&facts);
    assert!(found.what.contains("admission policy hitless-guard has no binding"), "{found:?}");
    facts = healthy();
    facts.guards = guards(&HOLDS[..3], &HOLDS);
    assert!(error(&facts).why.contains("without hitless.dev/InService"));
}

#[test]
fn where_changes_are_refused_an_old_cluster_is_well_and_the_gate_is_the_templates_to_name() {
    let mut facts = healthy();
    facts.server = Seen::Known((1, 33, "v1.33.13".to_owned()));
    facts.guards = guards(&REFUSES, &REFUSES);
    assert!(of(&facts, Level::Error).is_empty(), "{:?}", of(&facts, Level::Error));
    let warnings = of(&facts, Level::Warning);
    assert!(warnings[0].to_do.contains("conditionType: hitless.dev/InService"), "{warnings:?}");
    let text = text(&findings(&facts));
    assert!(text.contains("are refused unless they are held in the same write"), "{text}");
}

#[test]
fn a_node_without_an_agent_is_named_and_nodes_without_a_machine_are_not() {
    let mut facts = healthy();
    let kwok = NodeFacts { is_real: false, ..node("kwok-1") };
    let windows = NodeFacts { os: "windows".to_owned(), ..node("win") };
    facts.nodes = Seen::Known(vec![node("n1"), node("n2"), kwok, windows]);
    let away = AgentPod { ready: false, ..agent("n2") };
    let young = AgentPod { since: Some(now()), ..agent("n1") };
    facts.agents = Seen::Known(vec![young, away]);
    let found = error(&facts);
    assert!(found.what.contains("no agent is Ready on 1 of 2 nodes: n2"), "{found:?}");
    let warnings = of(&facts, Level::Warning);
    assert!(warnings.iter().any(|finding| finding.what.contains("do not run Linux: win")), "{warnings:?}");
    assert!(warnings.iter().any(|finding| finding.what.contains("less than a minute: n1")), "{warnings:?}");
}

#[test]
fn without_a_controller_nothing_moves() {
    let mut facts = healthy();
    facts.controller = program("hitless/controller:1", 0);
    assert!(error(&facts).what.contains("no controller is Ready"));
    facts.controller = program("hitless/controller:1", 1);
    assert!(of(&facts, Level::Error).is_empty());
    assert!(of(&facts, Level::Warning)[0].why.contains("take over when it fails"));
    facts = healthy();
    facts.agent = Seen::Known(None);
    assert!(error(&facts).what.contains("DaemonSet hitless-agent is not in namespace hitless-system"));
}

#[test]
fn a_program_without_rights_and_a_controller_that_nobody_wants_are_named() {
    let mut facts = Facts { bindings: names(&["hitless-agent"]), ..healthy() };
    assert!(of(&facts, Level::Error)[0].what.contains("ClusterRoleBinding hitless-controller is not there"));
    facts = Facts { controller: Seen::Known(Some(Program { image: String::new(), wanted: 0, ready: 0 })), ..healthy() };
    assert!(of(&facts, Level::Error)[0].to_do.contains("--replicas=2"));
}

#[test]
fn collasets_that_nobody_lets_go_are_named_with_the_way_out() {
    let leaving = Seen::Known(vec!["team/web".to_owned()]);
    let facts = Facts { leaving_sets: leaving.clone(), ..healthy() };
    assert!(of(&facts, Level::Error).is_empty(), "a controller lets it go");
    let facts = Facts { leaving_sets: leaving, controller: Seen::Known(None), ..healthy() };
    let found = of(&facts, Level::Error).into_iter().find(|found| found.what.contains("team/web")).unwrap();
    assert!(found.to_do.contains("kubectl hitless cleanup -A --yes") && found.why.contains("namespaces"), "{found:?}");
}

#[test]
fn what_else_is_there_is_said_with_what_it_means() {
    let means = |all: &[(&str, &str)]| {
        let facts = Facts { programs: programs(all), ..healthy() };
        assert!(of(&facts, Level::Error).is_empty());
        of(&facts, Level::Warning)
            .iter()
            .map(|finding| format!("{} {}", finding.what, finding.why))
            .collect::<Vec<_>>()
            .join("; ")
    };
    let proxy = ("kube-system/kube-proxy", "kube-proxy:v1");
    assert_eq!(means(&[proxy, ("kube-system/calico-node", "calico/node:v3")]), "");
    assert_eq!(means(&[("kube-system/cilium", "quay.io/cilium/cilium:v1.19.3@sha256:0")]), "");
    assert!(means(&[("kube-system/cilium", "quay.io/cilium/cilium:v1.17.4")]).contains("loses open connections"));
    assert!(means(&[("kube-system/cilium", "cilium:v1.18.2")]).contains("loses open connections"));
    assert!(means(&[("kube-system/cilium", "cilium:v1.18.9")]).contains("half an hour"));
    assert!(means(&[]).contains("no network plugin"));
    assert!(means(&[proxy, ("istio-system/ztunnel", "istio/ztunnel:1.29")]).contains("its tunnels stay open"));
    assert!(
        means(&[proxy, ("x/lbc", "public.ecr.aws/eks/aws-load-balancer-controller:v2")]).contains("target-type ip")
    );
    let mut facts = healthy();
    facts.runtime_classes = Seen::Known(BTreeMap::from([("secure".to_owned(), "runsc".to_owned())]));
    assert!(of(&facts, Level::Warning)[0].what.contains("secure"));
}

#[test]
fn an_agent_that_can_not_hold_is_named_with_what_follows() {
    let mut facts = healthy();
    let without = Report { features: vec!["Leave".to_owned(), "drain".to_owned(), "hooks".to_owned()], ..report() };
    facts.reports = Seen::Known(BTreeMap::from([("n1".to_owned(), report()), ("n2".to_owned(), without)]));
    let warnings = of(&facts, Level::Warning);
    assert!(warnings[0].what.contains("without the feature hold: n2"), "{warnings:?}");
}

#[test]
fn what_may_not_be_read_is_one_line_and_never_ok() {
    let no = || "is forbidden".to_owned();
    let facts = Facts {
        definitions: Seen::Unread(no()),
        guards: Seen::Unread(no()),
        controller: Seen::Unread(no()),
        agent: Seen::Unread(no()),
        nodes: Seen::Unread(no()),
        agents: Seen::Unread(no()),
        reports: Seen::Unread(no()),
        programs: Seen::Unread(no()),
        runtime_classes: Seen::Unread(no()),
        ..healthy()
    };
    let all = findings(&facts);
    assert_eq!(all.len(), 2, "{all:?}");
    assert!(all[1].what.contains("nodes") && all[1].to_do.contains("hitless-view"), "{:?}", all[1]);
}

/// The names that are looked for are those that are installed.
#[test]
fn the_names_are_those_of_the_manifests() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifests");
    let files = ["policies", "refusing"].iter().flat_map(|folder| std::fs::read_dir(root.join(folder)).unwrap());
    let installed: String = files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap()).collect();
    let Seen::Known(guards) = healthy().guards else { panic!() };
    let of_kinds = KINDS.iter().filter_map(|kind| kind.guard()).flat_map(|guard| [guard.holds, guard.refuses]);
    let labelled = of_kinds.map(|name| format!("  name: {name}\n  labels: {{hitless.dev/guard: \"\"}}\n"));
    let all = guards.policies.iter().chain(&guards.bindings).map(|name| format!("  name: {name}\n"));
    for name in all.chain(labelled) {
        assert!(installed.contains(&name), "{name}");
    }
}

/// What the command line reads of hitless' own kinds is in the role for people, and each of these is a part of Kubernetes' own.
#[test]
fn the_role_for_people_reads_all_of_our_kinds_and_writes_no_grants() {
    let text = include_str!("../../../manifests/rbac/people.yaml");
    let roles: Vec<serde_json::Value> =
        text.split("\n---\n").map(|part| serde_saphyr::from_str(part).unwrap()).collect();
    let role = |name: &str| roles.iter().find(|role| role["metadata"]["name"] == name).unwrap();
    let rights = |name: &str| role(name)["rules"].as_array().cloned().unwrap();
    let allows = |name: &str, resource: &str, verb: &str| {
        let has = |list: &serde_json::Value, word: &str| list.as_array().into_iter().flatten().any(|each| each == word);
        rights(name).iter().any(|right| has(&right["resources"], resource) && has(&right["verbs"], verb))
    };
    for (_, definition) in hitless_api::crds::all().unwrap() {
        let definition: serde_json::Value = serde_saphyr::from_str(&definition).unwrap();
        let plural = definition["spec"]["names"]["plural"].as_str().unwrap();
        assert!(["get", "list", "watch"].iter().all(|verb| allows("hitless-view", plural, verb)), "{plural}");
    }
    // Whether the controller runs.
    assert!(["get", "list", "watch"].iter().all(|verb| allows("hitless-view", "deployments", verb)));
    for policy in ["mutatingadmissionpolic", "validatingadmissionpolic"] {
        for plural in [format!("{policy}ies"), format!("{policy}ybindings")] {
            assert!(allows("hitless-view-cluster", &plural, "list"), "{plural}");
        }
    }
    for plural in ["nodetransitions", "transitionledgers", "trafficproviders"] {
        assert!(!allows("hitless-edit", plural, "patch") && !allows("hitless-edit", plural, "create"), "{plural}");
    }
    for plural in ["transitionbudgets", "drainpolicies", "podtransitionrules"] {
        assert!(allows("hitless-edit", plural, "create"), "{plural}");
    }
    let aggregates = |name: &str, to: &str| {
        role(name)["metadata"]["labels"][format!("rbac.authorization.k8s.io/aggregate-to-{to}")] == "true"
    };
    assert!(["view", "edit", "admin"].iter().all(|to| aggregates("hitless-view", to)));
    assert!(["edit", "admin"].iter().all(|to| aggregates("hitless-edit", to)) && !aggregates("hitless-edit", "view"));
}
