//! Would the simulation notice? Deliberate bugs, each of which it must find within a bounded number of rollouts.
//!
//! The product has no hooks for this. Its sources are copied to a directory below `target`, the bugs are put in there by
//! replacing exact texts (each must be found exactly once, so that a change of the product shows here and not in a bug that is
//! never planted), all behind one run-time switch, and the simulation is built once with them.

#![allow(clippy::unwrap_used, reason = "a test")]

mod balancers;
mod colla_sets;
mod companions;
mod jobs;
mod operators;
mod pauses;

use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// Which bug is on, by its number in [`BUGS`] from 1.
const SWITCH: &str = "HITLESS_SIM_MUTANT";
/// From this seed on there are companion pods.
const COMPANIONS: u64 = 1_000_000;
/// From this seed on there is a load balancer outside of the cluster.
const BALANCERS: u64 = 2_000_000;
/// And from this one on foreign operators.
const OPERATORS: u64 = 4_000_000;
/// And from this one on OperationJobs.
const JOBS: u64 = 5_000_000;
/// And from this one on pauses.
const PAUSES: u64 = 6_000_000;
/// And from this one on CollaSets.
const COLLA_SETS: u64 = 3_000_000;
/// Where there is more than Kubernetes.
const MORE: [u64; 6] = [COMPANIONS, BALANCERS, COLLA_SETS, OPERATORS, JOBS, PAUSES];
/// Rollouts within which each bug must be found.
const ROLLOUTS: &str = "20000";
/// What of the workspace the simulation is built from.
const COPIED: [&str; 11] = [
    "crates/api",
    "crates/balancer",
    "crates/rollout",
    "crates/gate",
    "crates/workloads",
    "crates/kernel",
    "crates/runtime",
    "agent",
    "controller",
    "tests/sim",
    "tests/world",
];

/// What the compiler includes in them.
const INCLUDED: [&str; 1] = ["docs/openapi.json"];

struct Bug {
    what: &'static str,
    /// File, text, and what it becomes; `MUTANT` stands for "this bug is on".
    changes: &'static [(&'static str, &'static str, &'static str)],
}

const BUGS: &[Bug] = &[
    Bug {
        what: "a percentage is rounded up too far",
        changes: &[(
            "crates/gate/src/policy/limit.rs",
            "total.saturating_mul(percent).saturating_add(if up { 99 } else { 0 }) / 100",
            "total.saturating_mul(percent).saturating_add(if MUTANT && up { 100 } else if up { 99 } else { 0 }) / 100",
        )],
    },
    Bug {
        what: "minAvailable is ignored",
        changes: &[(
            "crates/gate/src/decide/live.rs",
            "limits.min_available.map(|limit| limit.of(total))",
            "limits.min_available.filter(|_| !MUTANT).map(|limit| limit.of(total))",
        )],
    },
    Bug {
        what: "places that are taken are not counted",
        changes: &[(
            "crates/rollout/src/round/grants.rs",
            "filter(|(uid, _)| !ended.transfers.contains_key(uid.as_str()))",
            "filter(|(uid, _)| !MUTANT && !ended.transfers.contains_key(uid.as_str()))",
        )],
    },
    Bug {
        what: "a pod goes for an image that is not on its node",
        changes: &[
            (
                "crates/rollout/src/round/images.rs",
                "Known::There | Known::Old => None,",
                "Known::There | Known::Old => None,\n            Known::Pulling | Known::Unknown if MUTANT => None,",
            ),
            (
                "crates/rollout/src/round/images.rs",
                "let (pull, _) = self.first_missing(pod, intent)?;",
                "let (pull, _) = self.first_missing(pod, intent).filter(|_| !MUTANT)?;",
            ),
        ],
    },
    Bug {
        what: "a registry that is asked at every start is not asked again before a pod goes",
        changes: &[(
            "crates/rollout/src/round/images.rs",
            "if is_fresh { Known::There } else { Known::Old }",
            "if is_fresh || MUTANT { Known::There } else { Known::Old }",
        )],
    },
    Bug {
        what: "pods of other nodes count where a node serves itself",
        changes: &[(
            "crates/rollout/src/mode/service.rs",
            "!self.node_local || other.node == pod.node",
            "MUTANT || !self.node_local || other.node == pod.node",
        )],
    },
    Bug {
        what: "places are never given back",
        changes: &[(
            "crates/rollout/src/round/draft.rs",
            "if reserved.as_ref() == Some(operation) {",
            "if !MUTANT && reserved.as_ref() == Some(operation) {",
        )],
    },
    Bug {
        what: "a place is given back on the agent's word alone",
        changes: &[(
            "crates/rollout/src/round/endings.rs",
            "(_, Some(Evidence::NotReady) | None) => false,",
            "(_, Some(Evidence::NotReady) | None) => MUTANT,",
        )],
    },
    Bug {
        what: "an old cache is taken for evidence",
        changes: &[(
            "crates/rollout/src/round/endings.rs",
            "let evidence = snapshot.evidence.get(&OperationKey::granted(grant));\n",
            "let evidence = snapshot.evidence.get(&OperationKey::granted(grant));\n    \
             let cached = pod.filter(|pod| MUTANT && pod.ready()).map(|_| &Evidence::Ready);\n    \
             let evidence = evidence.or(cached);\n",
        )],
    },
    Bug {
        what: "the ledger is written whatever its version is",
        changes: &[(
            "crates/rollout/src/round/draft/steps.rs",
            "let write = Write::Ledger(LedgerWrite { namespace: namespace.to_owned(), version, spec });",
            "let version = version.map(|mut version: crate::snapshot::Version| { \
             if MUTANT { version.resource_version.clear(); } version });\n            \
             let write = Write::Ledger(LedgerWrite { namespace: namespace.to_owned(), version, spec });",
        )],
    },
    Bug {
        what: "a grant is written without waiting for the ledger",
        changes: &[(
            "crates/rollout/src/round/draft/steps.rs",
            "draft.touched.iter().filter_map(|namespace|",
            "draft.touched.iter().filter(|_| !MUTANT).filter_map(|namespace|",
        )],
    },
    Bug {
        what: "agents are not given the right to operate in a namespace",
        changes: &[(
            "crates/rollout/src/round/draft/steps.rs",
            "if binding.zip(ledger_uid.as_ref()).is_some_and(|(binding, ledger)| binding.serves(ledger)) {",
            "if MUTANT || binding.zip(ledger_uid.as_ref()).is_some_and(|(binding, ledger)| binding.serves(ledger)) {",
        )],
    },
    Bug {
        what: "the epoch of a later leader is ignored",
        changes: &[(
            "crates/rollout/src/round/fencing.rs",
            "filter(|epoch| *epoch > snapshot.epoch)",
            "filter(|epoch| !MUTANT && *epoch > snapshot.epoch)",
        )],
    },
    Bug {
        what: "the agent operates though the grant is cancelled",
        changes: &[(
            "agent/src/decide/leave.rs",
            "if let Some(cancel) = &operation.grant.cancel {",
            "if let Some(cancel) = operation.grant.cancel.as_ref().filter(|_| !MUTANT) {",
        )],
    },
    Bug {
        what: "the agent does not put a pod back into service after a failure",
        changes: &[
            (
                "agent/src/decide/operation.rs",
                "if self.out_of_service() || self.is_hold() && self.rollback().is_none() {",
                "if !MUTANT && (self.out_of_service() || self.is_hold() && self.rollback().is_none()) {",
            ),
            ("agent/src/in_service.rs", "(synced && !live).then_some", "(synced && !live && !MUTANT).then_some"),
        ],
    },
    Bug {
        what: "the agent patches a pod whatever its version is",
        changes: &[
            (
                "agent/src/deed/images.rs",
                "let mut patch = JsonPatch::of(&pod.view.id.uid).test(&[\"metadata\", \"resourceVersion\"], version);",
                "let mut patch = JsonPatch::of(&pod.view.id.uid);\n        \
                 if !MUTANT { patch = patch.test(&[\"metadata\", \"resourceVersion\"], version); }",
            ),
            (
                "agent/src/patch.rs",
                "\"metadata\": {\"uid\": pod.id.uid, \"resourceVersion\": pod.resource_version},",
                "\"metadata\": {\"uid\": pod.id.uid, \
                 \"resourceVersion\": if MUTANT { \"\" } else { pod.resource_version.as_str() }},",
            ),
        ],
    },
    Bug {
        what: "the agent operates while the kubelet still says Ready",
        changes: &[(
            "agent/src/decide/leave.rs",
            "Some(lowered) if operation.pod.ready() =>",
            "Some(lowered) if operation.pod.ready() && !MUTANT =>",
        )],
    },
    Bug {
        what: "a place without a grant is freed without a fence",
        changes: &[(
            "crates/rollout/src/round/endings/orphans.rs",
            "if !is_fenced || snapshot.own_writes.unanswered_nodes.contains(node) {",
            "if !MUTANT && (!is_fenced || snapshot.own_writes.unanswered_nodes.contains(node)) {",
        )],
    },
    Bug {
        what: "a pod that was granted as unavailable is taken out though it is available",
        changes: &[(
            "agent/src/decide/leave.rs",
            "if operation.grant.while_unavailable && operation.pod.available() {",
            "if operation.grant.while_unavailable && operation.pod.available() && !MUTANT {",
        )],
    },
    Bug {
        what: "a Service that was opened for a Hold is never closed",
        changes: &[(
            "crates/rollout/src/round/service_publishing.rs",
            "changes.push(Change::CloseService { service, ended });",
            "if !MUTANT { changes.push(Change::CloseService { service, ended }); }",
        )],
    },
    Bug {
        what: "a Hold is granted without waiting until its Services are seen open",
        changes: &[(
            "crates/rollout/src/round/grants.rs",
            "self.opening.then(|| WaitReason::ServicePublishing(names()))",
            "(self.opening && !MUTANT).then(|| WaitReason::ServicePublishing(names()))",
        )],
    },
    Bug {
        what: "a Service is closed although its pod is held",
        changes: &[
            (
                "crates/rollout/src/round/service_publishing.rs",
                "changes.push(Change::Hold { operation: grant.id.clone(), services });",
                "if !MUTANT { changes.push(Change::Hold { operation: grant.id.clone(), services }); }",
            ),
            // What keeps it open where the grant is not seen.
            (
                "crates/rollout/src/round/service_publishing.rs",
                "|| may_be_live(service, id, wishes, snapshot)",
                "|| !MUTANT && may_be_live(service, id, wishes, snapshot)",
            ),
        ],
    },
    Bug {
        what: "a pod is replaced in a Hold before its clients are held",
        changes: &[(
            "agent/src/decide/hold.rs",
            "Some(Stage::Prepared(0)) => leave::operate(operation),",
            "Some(Stage::Prepared(ports)) if *ports == 0 || MUTANT => leave::operate(operation),",
        )],
    },
    Bug {
        what: "clients are held under a grant that has expired",
        changes: &[
            (
                "agent/src/decide/validate.rs",
                "} else if now > expiry(grant) {",
                "} else if now > expiry(grant) && !MUTANT {",
            ),
            (
                "agent/src/decide/hold.rs",
                "    let expiry = operation.expiry();\n    if operation.now > expiry {",
                "    let expiry = operation.expiry();\n    if operation.now > expiry && !MUTANT {",
            ),
        ],
    },
    Bug {
        what: "a held pod leaves service on the way back",
        changes: &[(
            "agent/src/decide/rollback.rs",
            "    if operation.is_hold() {\n        return",
            "    if operation.is_hold() && !MUTANT {\n        return",
        )],
    },
    Bug {
        what: "a StatefulSet's first ordinal goes first",
        changes: &[(
            "crates/workloads/src/kinds/stateful_set.rs",
            "in_order.sort_by_key(|(ordinal, _)| std::cmp::Reverse(*ordinal));",
            "in_order.sort_by_key(|(ordinal, _)| if MUTANT { *ordinal } else { -*ordinal });",
        )],
    },
    Bug {
        what: "a StatefulSet's partition is ignored",
        changes: &[(
            "crates/workloads/src/kinds/stateful_set.rs",
            "*ordinal >= start.saturating_add(set.partition())",
            "MUTANT || *ordinal >= start.saturating_add(set.partition())",
        )],
    },
    Bug {
        what: "the owner's update strategy is not put back",
        changes: &[(
            "crates/workloads/src/kinds/on_delete.rs",
            "let write = settled.then(|| {",
            "let write = (settled && !MUTANT).then(|| {",
        )],
    },
    Bug {
        what: "pods are made from a version that was judged bad",
        changes: &[(
            "crates/rollout/src/round/halts.rs",
            "if !is_rolling || !plan.writes.is_empty()",
            "if MUTANT || !is_rolling || !plan.writes.is_empty()",
        )],
    },
    Bug {
        what: "a halted Deployment goes on making pods of the bad version",
        changes: &[(
            "crates/workloads/src/kinds/deployment/plan.rs",
            "let write = good.filter(|set| !is_there(set)).map(|set| {",
            "let write = good.filter(|set| !MUTANT && !is_there(set)).map(|set| {",
        )],
    },
    Bug {
        what: "a changed restart annotation restarts nobody",
        changes: &[(
            "crates/workloads/src/need.rs",
            "annotations.is_some_and(|digest| digest != target.shape().annotations.digest())",
            "!MUTANT && annotations.is_some_and(|digest| digest != target.shape().annotations.digest())",
        )],
    },
    Bug {
        what: "what a rollout has left is forgotten when another one overtakes it",
        changes: &[(
            "crates/workloads/src/kinds/deployment/body.rs",
            "if !body.template.is_mixed() {",
            "if MUTANT || !body.template.is_mixed() {",
        )],
    },
    Bug {
        what: "what the workload says of its unavailable pods is ignored",
        changes: &[
            (
                "crates/gate/src/decide.rs",
                "|_| Limits::at_most(u64::from(most))",
                "|_| Limits::at_most(u64::from(if MUTANT { 99 } else { most }))",
            ),
            (
                "crates/workloads/src/kinds/stateful_set.rs",
                "at_a_time: Some(set.at_a_time()),",
                "at_a_time: Some(if MUTANT { 99 } else { set.at_a_time() }),",
            ),
        ],
    },
];

/// All of them in the order of their numbers, with the seed from which on they are looked for.
fn bugs() -> impl Iterator<Item = (u64, &'static Bug)> {
    let companions = companions::BUGS.iter().map(|bug| (COMPANIONS, bug));
    let balancers = balancers::BUGS.iter().map(|bug| (BALANCERS, bug));
    let operators = operators::BUGS.iter().map(|bug| (OPERATORS, bug));
    let jobs = jobs::BUGS.iter().map(|bug| (JOBS, bug));
    let pauses = pauses::BUGS.iter().map(|bug| (PAUSES, bug));
    let colla_sets = colla_sets::BUGS.iter().map(|bug| (COLLA_SETS, bug));
    let kubernetes = BUGS.iter().map(|bug| (0, bug));
    kubernetes.chain(companions).chain(balancers).chain(colla_sets).chain(operators).chain(jobs).chain(pauses)
}

#[test]
fn every_deliberate_bug_is_found() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.join("target"), PathBuf::from);
    let tree = target.join("sim-mutants");
    let changed = planted(&workspace, &tree);
    for part in COPIED {
        copy(&workspace.join(part), &tree.join(part), &changed);
    }
    for file in INCLUDED {
        write(&tree.join(file), &fs::read(workspace.join(file)).unwrap());
    }
    for (path, text) in &changed {
        write(path, text.as_bytes());
    }
    let program = build(&workspace, &tree, &target);

    let run = |number: usize, from: u64, rollouts: &str| {
        let mut simulation = Command::new(&program);
        let from = from.to_string();
        simulation.args(["--first", "--rollouts", rollouts, "--from", &from]).env(SWITCH, number.to_string());
        let output = simulation.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let broken = text.lines().find(|line| line.starts_with("BROKEN")).map(str::to_owned);
        assert_eq!(output.status.success(), broken.is_none(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        (broken, text.lines().next().unwrap_or_default().to_owned())
    };
    for (from, rollouts) in [(0, "1000")].into_iter().chain(MORE.map(|from| (from, "500"))) {
        let (broken, _) = run(0, from, rollouts);
        assert_eq!(broken, None, "without a bug");
    }
    let (left, unnoticed) = (Mutex::new(bugs().enumerate()), Mutex::new(Vec::new()));
    let next = || left.lock().unwrap().next();
    let look = || {
        while let Some((index, (from, bug))) = next() {
            match run(index + 1, from, ROLLOUTS) {
                (Some(broken), after) => println!("{}: {broken} ({after})", bug.what),
                (None, after) => unnoticed.lock().unwrap().push(format!("{} ({after})", bug.what)),
            }
        }
    };
    // Each of them has one thread to do.
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(look);
        }
    });
    assert_eq!(unnoticed.into_inner().unwrap(), Vec::<String>::new(), "bugs that the simulation does not see");
}

/// Copies sources, except those that are changed. What is the same already is left alone, so that it is not compiled again.
fn copy(from: &Path, to: &Path, except: &[(PathBuf, String)]) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type().unwrap().is_dir() {
            copy(&from, &to, except);
        } else if !except.iter().any(|(path, _)| *path == to) {
            write(&to, &fs::read(&from).unwrap());
        }
    }
}

fn write(to: &Path, content: &[u8]) {
    if fs::read(to).ok().as_deref() != Some(content) {
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::write(to, content).unwrap();
    }
}

/// The files that are not as they are in the workspace.
fn planted(workspace: &Path, tree: &Path) -> Vec<(PathBuf, String)> {
    let read = |file: &str| fs::read_to_string(workspace.join(file)).unwrap();
    let mut changed: Vec<(PathBuf, String)> = Vec::new();
    for (index, (_, bug)) in bugs().enumerate() {
        let switch = format!("hitless_api::is_mutant({})", index + 1);
        for (file, text, replacement) in bug.changes {
            let path = tree.join(file);
            let at = changed.iter().position(|(known, _)| *known == path).unwrap_or_else(|| {
                changed.push((path, read(file)));
                changed.len() - 1
            });
            let found = changed[at].1.matches(text).count();
            assert_eq!(found, 1, "{:?} is put in place of a text that {file} has {found} times: {text}", bug.what);
            changed[at].1 = changed[at].1.replace(text, &replacement.replace("MUTANT", &switch));
        }
    }
    let switch = format!(
        "\n/// Whether this deliberate bug is on.\npub fn is_mutant(number: usize) -> bool {{\n    \
         static ON: std::sync::OnceLock<usize> = std::sync::OnceLock::new();\n    \
         let read = || std::env::var({SWITCH:?}).ok().and_then(|on| on.parse().ok()).unwrap_or_default();\n    \
         *ON.get_or_init(read) == number\n}}\n"
    );
    changed.push((tree.join("crates/api/src/lib.rs"), read("crates/api/src/lib.rs") + &switch));
    // Another name than that of the simulation without bugs, which is built into the same directory.
    let manifest = read("tests/sim/Cargo.toml").replace("\n[dependencies]", "autobins = false\n\n[dependencies]")
        + "\n[[bin]]\nname = \"hitless-sim-mutants\"\npath = \"src/main.rs\"\n";
    changed.push((tree.join("tests/sim/Cargo.toml"), manifest));
    let manifest = read("Cargo.toml");
    let members = manifest.lines().find(|line| line.starts_with("members = ")).unwrap();
    let version = manifest.lines().find(|line| line.starts_with("version = ")).unwrap();
    // Both workspaces are built into one directory, for the sake of the libraries. With equal versions cargo would take the one's
    // crates for the other's.
    let manifest = manifest.replacen(version, "version = \"0.0.0-mutants\"", 1);
    changed.push((tree.join("Cargo.toml"), manifest.replace(members, &format!("members = {COPIED:?}"))));
    changed
}

fn build(workspace: &Path, tree: &Path, target: &Path) -> PathBuf {
    // The versions that the workspace is tested with; cargo takes out what is not needed here.
    if !tree.join("Cargo.lock").exists() {
        fs::copy(workspace.join("Cargo.lock"), tree.join("Cargo.lock")).unwrap();
    }
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--profile", "sim", "-p", "hitless-sim"]).current_dir(tree);
    cargo.env("CARGO_TARGET_DIR", target);
    // What cargo tells this test: build scripts of libraries would run again, and all that depends on them would be compiled anew.
    let told =
        std::env::vars_os().map(|(name, _)| name).filter(|name| name.to_string_lossy().starts_with("CARGO_PKG_"));
    told.for_each(|name| _ = cargo.env_remove(name));
    assert!(cargo.status().unwrap().success(), "the simulation with the bugs does not build");
    target.join("sim/hitless-sim-mutants")
}
