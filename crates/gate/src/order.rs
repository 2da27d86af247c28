//! In which order candidates are decided.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;

use crate::index::{Gate, Pod};
use crate::{Candidate, verdict};

/// Label of nodes that names their zone.
const ZONE: &str = "topology.kubernetes.io/zone";

/// A candidate whose pod is known to the gate.
pub(crate) struct KnownCandidate<'a> {
    pub(crate) id: u32,
    pub(crate) pod: &'a Pod,
    pub(crate) namespace: &'a str,
    pub(crate) name: String,
    pub(crate) candidate: &'a Candidate,
}

/// Candidates in the order in which they are decided, each once, and the uids of those that are not there.
///
/// First those whose last attempt was cancelled or failed, then those that are unavailable anyway (they cost nothing, and may be
/// broken in a way that the operation mends), then the higher priority, leaders last, then as their workload ranks them, then those that save a write, then spread
/// over zones and nodes, then namespace and name.
pub(crate) fn in_order<'a>(
    gate: &'a Gate,
    candidates: &'a [Candidate],
) -> (Vec<KnownCandidate<'a>>, BTreeSet<&'a str>) {
    let mut by_uid: HashMap<&str, &Candidate> = HashMap::with_capacity(candidates.len());
    for candidate in candidates {
        let known = by_uid.entry(candidate.pod_uid.as_str()).or_insert(candidate);
        if (candidate.priority, &candidate.operation) > (known.priority, &known.operation) {
            *known = candidate;
        }
    }
    let mut gone = BTreeSet::new();
    let mut known = Vec::new();
    for (uid, candidate) in by_uid {
        match gate.pod_id(uid).and_then(|id| Some((id, gate.pods.get(id as usize)?))) {
            Some((id, pod)) => {
                let class = gate.classes.get(pod.class as usize);
                let namespace = class.map_or("", |class| gate.symbols.text(class.namespace));
                known.push(KnownCandidate { id, pod, namespace, name: pod.name.text(&gate.symbols), candidate });
            }
            None => {
                gone.insert(uid);
            }
        }
    }
    sort(gate, &mut known);
    (known, gone)
}

fn sort(gate: &Gate, known: &mut Vec<KnownCandidate<'_>>) {
    fn rank(each: &KnownCandidate<'_>) -> impl Ord + use<> {
        let Candidate { again, priority, leader, rank, preferred, .. } = each.candidate;
        (!again, each.pod.is_available(), Reverse(*priority), *leader, *rank, !preferred)
    }
    fn name<'k>(each: &'k KnownCandidate<'_>) -> (&'k str, &'k str, &'k crate::index::Uid) {
        (each.namespace, each.name.as_str(), &each.pod.uid)
    }
    known.sort_unstable_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| name(a).cmp(&name(b))));
    let places = spread(gate, known);
    let mut keyed: Vec<_> = known.drain(..).zip(places).collect();
    // Stable: equal ones stay in the order of their names.
    keyed.sort_by(|(a, place), (b, other)| rank(a).cmp(&rank(b)).then(place.cmp(other)));
    known.extend(keyed.into_iter().map(|(each, _)| each));
}

/// For each candidate how many go before it in its zone, where nodes take turns within a zone.
fn spread(gate: &Gate, known: &[KnownCandidate<'_>]) -> Vec<usize> {
    let mut on_node: HashMap<_, usize> = HashMap::new();
    let mut by_zone: BTreeMap<&str, Vec<(usize, usize)>> = BTreeMap::new();
    for (index, each) in known.iter().enumerate() {
        let node = each.pod.node;
        let before = on_node.entry(node).or_default();
        let zone = node.and_then(|node| gate.node_label(node, ZONE)).unwrap_or_default();
        by_zone.entry(zone).or_default().push((*before, index));
        *before += 1;
    }
    let mut places = vec![0; known.len()];
    for mut turns in by_zone.into_values() {
        turns.sort_unstable();
        for (place, (_, index)) in turns.into_iter().enumerate() {
            places[index] = place;
        }
    }
    places
}

/// The verdict for a candidate that is not there.
pub(crate) fn no_such_pod(uid: &str) -> crate::Verdict {
    let rule = verdict::says(&verdict::POD.into(), crate::Denies::NoSuchPod);
    crate::Verdict {
        pod_uid: uid.to_owned(),
        pod: String::new(),
        namespace: String::new(),
        allowed: false,
        rules: vec![rule],
        asks: Vec::new(),
    }
}
