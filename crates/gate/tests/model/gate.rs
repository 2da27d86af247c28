//! What the gate says in a round. Shared by the model checks of the ledgers.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Mutex;

use hitless_gate::{
    Absence, Approvals, Budget, Candidate, GateInput, ObjectRef, OwnerFacts, PodFacts, Reserved, RuleSet, Settings,
};
use jiff::Timestamp;

use crate::objects::uid;

/// What a round asks. Each pod has a place in each array.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Question<const PODS: usize> {
    pub(crate) down: [bool; PODS],
    /// It has a place, or is being operated.
    pub(crate) held: [bool; PODS],
    /// It is to be operated.
    pub(crate) wanting: [bool; PODS],
    /// Which pod goes first.
    pub(crate) urgent: usize,
}

/// Whether each pod that may go may do so only because it is down.
pub(crate) type Answer<const PODS: usize> = [Option<bool>; PODS];

/// The gate under these rules and budgets, with what it has said: the same question comes up in many states.
pub(crate) struct Gate<const PODS: usize> {
    pods: [PodFacts; PODS],
    owners: BTreeMap<ObjectRef, OwnerFacts>,
    rule_sets: Vec<RuleSet>,
    budgets: Vec<Budget>,
    answers: Mutex<HashMap<Question<PODS>, Answer<PODS>>>,
}

impl<const PODS: usize> Gate<PODS> {
    pub(crate) fn new(pods: [PodFacts; PODS], rule_sets: Vec<RuleSet>, budgets: Vec<Budget>) -> Self {
        let owner = pods[0].owner.clone();
        let owners = owner.map(|owner| (owner, OwnerFacts::of(PODS.try_into().unwrap()))).into_iter().collect();
        Self { pods, owners, rule_sets, budgets, answers: Mutex::default() }
    }

    pub(crate) fn answer(&self, question: Question<PODS>) -> Answer<PODS> {
        *self.answers.lock().unwrap().entry(question).or_insert_with(|| self.ask(question))
    }

    fn ask(&self, Question { down, held, wanting, urgent }: Question<PODS>) -> Answer<PODS> {
        let chosen = |which: [bool; PODS]| (0..PODS).filter(move |&pod| which[pod]);
        let reserved =
            chosen(held).map(|pod| (uid(pod), Reserved { since: Timestamp::UNIX_EPOCH, is_over: false })).collect();
        let candidates: Vec<Candidate> = chosen(wanting)
            // The most that an unavailable pod is let do: whoever is seen so goes without room.
            .map(|pod| Candidate {
                priority: i32::from(pod == urgent),
                absence: Absence::CostsNothing,
                ..Candidate::new(uid(pod))
            })
            .collect();
        let facts = self.pods.iter().zip(down).map(|(pod, down)| PodFacts { available: !down, ..pod.clone() });
        let facts: Vec<PodFacts> = facts.collect();
        let input = GateInput {
            pods: &facts,
            owners: &self.owners,
            nodes: &BTreeMap::new(),
            rule_sets: &self.rule_sets,
            budgets: &self.budgets,
            disruption_budgets: &[],
            reserved: &reserved,
            failed: &BTreeSet::new(),
            approvals: &Approvals::new(),
            settings: &Settings { implicit: None, ..Settings::default() },
        };
        let verdicts = hitless_gate::decide(&input, &candidates, Timestamp::UNIX_EPOCH);
        std::array::from_fn(|pod| {
            let verdict = verdicts.iter().find(|verdict| verdict.allowed && verdict.pod_uid == uid(pod))?;
            Some(verdict.rests_on_unavailability())
        })
    }
}

/// A pod, for the gate.
pub(crate) fn facts(pod: usize, namespace: String, owner: Option<ObjectRef>) -> PodFacts {
    PodFacts {
        uid: uid(pod),
        namespace,
        name: format!("web-{pod}"),
        labels: BTreeMap::from([("app".into(), "web".into())]),
        node: Some(format!("node-{pod}")),
        owner,
        available: true,
        leaving: false,
        unavailable_since: None,
        returned_at: None,
    }
}
