//! What the gate costs at the size it is made for: `cargo xtask bench gate` runs this, in a fresh process for each variant.
//!
//! Prints one JSON object. With the argument `own` every pod has a label set of its own, as those of a StatefulSet have.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use std::{fs, io};

use hitless_api::GroupKind;
use hitless_gate::{
    Approvals, Budget, Candidate, DisruptionBudget, Gate, ObjectRef, OwnerFacts, PodFacts, Reserved, RuleSet, Settings,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const PODS: u32 = 150_000;
const NODES: u32 = 5_000;
const WORKLOADS: u32 = 8_000;
const NAMESPACES: u32 = 400;
const RULE_SETS: u32 = 1_000;
/// How many pods are unavailable at a time.
const BROKEN: usize = 1_500;
const EVENTS: u32 = 300_000;
const DECISIONS: usize = 4_000;
const FULL_EVALUATIONS: usize = 5;

#[derive(Serialize)]
struct Figures {
    pods: u32,
    nodes: u32,
    rule_sets: u32,
    resident_bytes: u64,
    event_us: f64,
    decision_p50_ms: f64,
    decision_p99_ms: f64,
    full_evaluation_ms: f64,
    /// How many of all pods that full evaluation lets go.
    allowed: usize,
}

/// Where a pod stands, as far as it can't be computed from its number.
#[derive(Clone, Copy)]
struct State {
    /// How often it was replaced.
    generation: u32,
    available: bool,
}

struct World {
    own_labels: bool,
    states: Vec<State>,
    broken: Vec<u32>,
    random: fastrand::Rng,
}

fn namespace(workload: u32) -> String {
    format!("team-{:03}-production", workload % NAMESPACES)
}

fn app(workload: u32) -> String {
    format!("payment-service-{workload:04}")
}

fn uuid(number: u32, generation: u32) -> String {
    let mut random = fastrand::Rng::with_seed(u64::from(generation) << 32 | u64::from(number));
    let uid = random.u128(..);
    let part = |shift: u32, digits: u32| uid >> shift & ((1 << (4 * digits)) - 1);
    format!("{:08x}-{:04x}-{:04x}-{:04x}-{:012x}", part(96, 8), part(80, 4), part(64, 4), part(48, 4), part(0, 12))
}

fn from<T: DeserializeOwned>(value: Value) -> io::Result<T> {
    Ok(serde_json::from_value(value)?)
}

impl World {
    fn new(own_labels: bool) -> Self {
        let states = vec![State { generation: 0, available: true }; PODS as usize];
        let mut world = Self { own_labels, states, broken: Vec::new(), random: fastrand::Rng::with_seed(4) };
        for _ in 0..BROKEN {
            world.flip();
        }
        world
    }

    /// A pod becomes unready, or, if enough of them are, one becomes ready again.
    fn flip(&mut self) -> u32 {
        if self.broken.len() >= BROKEN {
            let mended = self.broken.swap_remove(self.random.usize(..BROKEN));
            self.states[mended as usize].available = true;
            return mended;
        }
        loop {
            let number = self.random.u32(..PODS);
            let state = &mut self.states[number as usize];
            if std::mem::replace(&mut state.available, false) {
                self.broken.push(number);
                return number;
            }
        }
    }

    /// An available pod is replaced; the uid of the old one.
    fn replace(&mut self) -> (u32, String) {
        loop {
            let number = self.random.u32(..PODS);
            let state = &mut self.states[number as usize];
            if state.available {
                state.generation += 1;
                return (number, uuid(number, state.generation - 1));
            }
        }
    }

    fn owner(&self, workload: u32) -> ObjectRef {
        ObjectRef {
            group_kind: GroupKind::new("apps", if self.own_labels { "StatefulSet" } else { "Deployment" }),
            namespace: namespace(workload),
            name: app(workload),
            uid: uuid(workload, u32::MAX),
        }
    }

    fn pod(&self, number: u32) -> PodFacts {
        let state = self.states[number as usize];
        let workload = number % WORKLOADS;
        let uid = uuid(number, state.generation);
        let hash = format!("{:010x}", u64::from(workload) * 0x9e37_79b9);
        let (name, (key, value)) = if self.own_labels {
            let name = format!("{}-{}", app(workload), number / WORKLOADS);
            (name.clone(), ("statefulset.kubernetes.io/pod-name", name))
        } else {
            (format!("{}-{hash}-{}", app(workload), &uid[..5]), ("pod-template-hash", hash))
        };
        let labels = [
            ("app.kubernetes.io/name", app(workload)),
            ("app.kubernetes.io/part-of", format!("suite-{:02}", workload % 40)),
            ("tier", if workload.is_multiple_of(3) { "batch" } else { "serving" }.to_owned()),
            ("environment", "production".to_owned()),
            (key, value),
        ];
        PodFacts {
            uid,
            namespace: namespace(workload),
            name,
            labels: labels.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
            node: Some(node(number.wrapping_mul(2_654_435_761) % NODES)),
            owner: Some(self.owner(workload)),
            available: state.available,
            leaving: false,
            unavailable_since: (!state.available).then_some(Timestamp::UNIX_EPOCH),
            returned_at: None,
        }
    }
}

fn node(number: u32) -> String {
    format!("ip-10-{}-{}-{}.internal", number / 40_000, number / 200 % 200, number % 200)
}

fn node_labels(number: u32) -> BTreeMap<String, String> {
    [
        ("kubernetes.io/hostname", node(number)),
        ("topology.kubernetes.io/zone", format!("zone-{}", number % 3)),
        ("topology.kubernetes.io/region", "region-1".to_owned()),
        ("node.kubernetes.io/instance-type", format!("type-{}", number % 12)),
        ("kubernetes.io/arch", "amd64".to_owned()),
        ("kubernetes.io/os", "linux".to_owned()),
        ("beta.kubernetes.io/arch", "amd64".to_owned()),
        ("beta.kubernetes.io/os", "linux".to_owned()),
        ("rack", format!("rack-{}", number / 40)),
        ("pool", format!("pool-{}", number % 20)),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value))
    .collect()
}

/// Each namespace has a PodTransitionRule for a tier and a PodDisruptionBudget; the other rules are for one workload each. A
/// budget for the whole cluster limits nodes and operations.
fn set_rules(gate: &mut Gate) -> io::Result<()> {
    for number in 0..RULE_SETS {
        let selector = if number < NAMESPACES {
            json!({"matchLabels": {"tier": "serving"}})
        } else {
            json!({"matchLabels": {"app.kubernetes.io/name": app(number)}})
        };
        let rules = json!([
            {"name": "availability", "availablePolicy": {"maxUnavailableValue": "10%", "minAvailableValue": 1}},
            {"name": "approved", "labelCheck": {"requires": {"matchLabels": {"environment": "production"}}}},
        ]);
        let spec = from(json!({"selector": selector, "rules": rules}))?;
        gate.set_rule_set(&RuleSet {
            name: format!("rule-{number}"),
            namespace: namespace(number),
            spec,
            unreadable: None,
        });
    }
    for number in 0..NAMESPACES {
        gate.set_disruption_budget(&DisruptionBudget {
            name: "all".to_owned(),
            namespace: namespace(number),
            selector: from(json!({"matchLabels": {"app.kubernetes.io/name": app(number)}}))?,
            min_available: None,
            max_unavailable: Some(IntOrString::String("20%".to_owned())),
        });
    }
    let spec = json!({"scope": "Cluster", "selector": {}, "maxConcurrent": 20_000, "maxUnavailableNodes": "40%"});
    gate.set_budget(&Budget {
        name: "all".to_owned(),
        namespace: "hitless-system".to_owned(),
        uid: "all".to_owned(),
        spec: from(spec)?,
        unreadable: None,
    });
    Ok(())
}

/// Bytes in memory.
fn resident() -> io::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let kibibytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.strip_suffix("kB"));
    let kibibytes = kibibytes.and_then(|number| number.trim().parse::<u64>().ok());
    Ok(kibibytes.ok_or_else(|| io::Error::other("/proc/self/status has no VmRSS"))? * 1024)
}

/// Seconds for which this thread has had a processor. Others on the machine do not count.
fn worked() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default().as_secs_f64()
}

/// Mean microseconds of an event: pods become ready and unready, and are replaced.
fn events(world: &mut World, gate: &mut Gate) -> f64 {
    let (mut seconds, mut events) = (0.0, 0.0);
    while events < f64::from(EVENTS) {
        // The facts are made before the clock runs.
        let mut batch = Vec::new();
        for _ in 0..1_000 {
            let (number, gone) = match world.random.u8(..4) {
                0 => world.replace(),
                _ => (world.flip(), String::new()),
            };
            batch.push(((!gone.is_empty()).then_some(gone), world.pod(number)));
        }
        let began = worked();
        for (gone, pod) in &batch {
            if let Some(gone) = gone {
                gate.remove_pod(gone);
            }
            gate.upsert_pod(pod);
        }
        seconds += worked() - began;
        events += batch.iter().map(|(gone, _)| if gone.is_some() { 2.0 } else { 1.0 }).sum::<f64>();
    }
    seconds * 1e6 / events
}

fn candidate(world: &World, number: u32) -> Candidate {
    let uid = uuid(number, world.states[number as usize].generation);
    Candidate { operation: format!("{uid}.5f3a9c0d"), ..Candidate::new(uid) }
}

/// Milliseconds of each decision about the waiting pods of one workload, the shortest first.
fn decisions(world: &mut World, gate: &Gate) -> Vec<f64> {
    let mut each = Vec::new();
    for _ in 0..DECISIONS {
        let workload = world.random.u32(..WORKLOADS);
        let waiting: Vec<_> =
            (workload..PODS).step_by(WORKLOADS as usize).map(|number| candidate(world, number)).collect();
        let began = Instant::now();
        let verdicts = gate.decide(&waiting, &Approvals::new(), Timestamp::UNIX_EPOCH);
        each.push(began.elapsed().as_secs_f64() * 1e3);
        drop(verdicts);
    }
    each.sort_by(f64::total_cmp);
    each
}

/// Milliseconds of one decision about all pods, the median of several, and how many may go.
fn full_evaluation(world: &World, gate: &Gate) -> (f64, usize) {
    let waiting: Vec<_> = (0..PODS).map(|number| candidate(world, number)).collect();
    let mut each = Vec::new();
    let mut allowed = 0;
    for _ in 0..FULL_EVALUATIONS {
        let began = Instant::now();
        let verdicts = gate.decide(&waiting, &Approvals::new(), Timestamp::UNIX_EPOCH);
        each.push(began.elapsed().as_secs_f64() * 1e3);
        allowed = verdicts.iter().filter(|verdict| verdict.allowed).count();
    }
    each.sort_by(f64::total_cmp);
    (each[FULL_EVALUATIONS / 2], allowed)
}

fn main() -> io::Result<()> {
    let mut world = World::new(std::env::args().any(|argument| argument == "own"));
    let before = resident()?;
    let mut gate = Gate::new(Settings::default());
    for number in 0..NODES {
        gate.set_node(&node(number), node_labels(number));
    }
    set_rules(&mut gate)?;
    for workload in 0..WORKLOADS {
        let desired = (PODS - workload).div_ceil(WORKLOADS);
        gate.set_owner(&world.owner(workload), Some(OwnerFacts::of(desired)));
    }
    for number in 0..PODS {
        gate.upsert_pod(&world.pod(number));
    }
    let held = Reserved { since: Timestamp::UNIX_EPOCH, is_over: false };
    gate.set_reserved((0..PODS).step_by(40).map(|number| (uuid(number, 0), held.clone())).collect());
    let resident_bytes = resident()?.saturating_sub(before);
    let event_us = events(&mut world, &mut gate);
    let decisions = decisions(&mut world, &gate);
    let (full_evaluation_ms, allowed) = full_evaluation(&world, &gate);
    let figures = Figures {
        pods: PODS,
        nodes: NODES,
        rule_sets: RULE_SETS,
        resident_bytes,
        event_us,
        decision_p50_ms: decisions[DECISIONS / 2],
        decision_p99_ms: decisions[DECISIONS * 99 / 100],
        full_evaluation_ms,
        allowed,
    };
    println!("{}", serde_json::to_string(&figures)?);
    Ok(())
}
