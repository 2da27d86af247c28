//! Foreign operators: they know nothing but the labels of PodOpsLifecycle.

use hitless_api::lifecycle::{PREPARING_TO_DELETE, Step, TO_DELETE};
use hitless_api::pod::PodView;

use super::World;
use crate::clock::{MS, Micros, SECOND};
use crate::faults::Fault;
use crate::trace::Who;
use crate::user::Deed;

/// Nobody waits longer than this to be allowed; then he takes it back.
const PATIENCE: Micros = 90 * SECOND;
/// How often an operator looks.
const EVERY: Micros = 700 * MS;
const IDS: [&str; 2] = ["x", "y"];

/// An operation that somebody has begun.
pub(crate) struct Foreign {
    uid: String,
    id: &'static str,
    since: Micros,
    /// It takes so long once it is allowed; `None`: its operator dies.
    takes: Option<Micros>,
    /// It takes it back after so long.
    undo: Option<Micros>,
    is_allowed: bool,
    is_over: bool,
}

impl World {
    /// When operators begin in one round.
    pub(super) fn plan_operators(&mut self, start: Micros) {
        if !self.ground.has_operators {
            return;
        }
        let chance = &mut self.ground.operators;
        for _ in 0..chance.between(0, 6) {
            let at = start + chance.delay(0, 30 * SECOND);
            let who = chance.index(1_000);
            let deed = if chance.happens(1_500) { Deed::LabelForDeletion(who) } else { Deed::Begin(who) };
            self.user.at(at, deed);
        }
    }

    fn some_pod_that_takes_part(&self, who: usize) -> Option<String> {
        let takes_part = |uid: &&&String| self.ground.server.pods[uid.as_str()].view.lifecycle.is_some();
        let pods: Vec<&String> = self.some_pods();
        let pods: Vec<&&String> = pods.iter().filter(takes_part).collect();
        (!pods.is_empty()).then(|| (*pods[who % pods.len()]).clone())
    }

    pub(super) fn label_for_deletion(&mut self, who: usize) {
        let Some(uid) = self.some_pod_that_takes_part(who) else { return };
        self.ground.fault(Fault::LabelledForDeletion);
        self.ground.say(Who::User, || format!("labels {uid} to be deleted"));
        let ground = &mut self.ground;
        ground.server.change_pod(&mut ground.checks, &uid, |pod| {
            pod.view.labels.insert(TO_DELETE.to_owned(), "true".to_owned());
        });
    }

    pub(super) fn begin(&mut self, who: usize) {
        let Some(uid) = self.some_pod_that_takes_part(who) else { return };
        let now = self.ground.now;
        let chance = &mut self.ground.operators;
        let id = IDS[chance.index(2)];
        let takes = (!chance.happens(1_500)).then(|| chance.delay(100 * MS, 20 * SECOND));
        let undo = chance.happens(2_000).then(|| chance.delay(50 * MS, 10 * SECOND));
        if self.ground.server.pods[uid.as_str()].view.labels.contains_key(&Step::Operating.key(id)) {
            return;
        }
        self.ground.fault(Fault::OperatorBegan);
        self.ground.say(Who::User, || format!("operator {id} begins with {uid}"));
        let ground = &mut self.ground;
        ground.server.change_pod(&mut ground.checks, &uid, |pod| {
            // With what admission adds in the same write.
            for (step, value) in [(Step::Operating, "1"), (Step::OperationType, "update"), (Step::PreCheck, "1")] {
                pod.view.labels.entry(step.key(id)).or_insert_with(|| value.to_owned());
            }
        });
        let foreign = Foreign { uid, id, since: now, takes, undo, is_allowed: false, is_over: false };
        self.user.foreign.push(foreign);
        self.user.at(now + EVERY, Deed::Operator(self.user.foreign.len() - 1));
    }

    /// The operator looks at its pod.
    pub(super) fn operator(&mut self, index: usize) {
        let now = self.ground.now;
        let Foreign { uid, id, since, takes, undo, is_allowed, is_over } = &mut self.user.foreign[index];
        let (id, uid) = (*id, uid.clone());
        let Some(pod) = self.ground.server.pods.get(uid.as_str()).map(|pod| pod.view.clone()) else { return };
        let has = |step: Step| pod.labels.contains_key(&step.key(id));
        if *is_over || !has(Step::Operating) || pod.terminating {
            return;
        }
        if let Some(after) = *undo
            && now - *since >= after
        {
            *is_over = true;
            self.ground.fault(Fault::OperatorUndid);
            return self.relabel(&uid, Step::UndoOperationType, id, true);
        }
        if has(Step::Operate) && !*is_allowed {
            *is_allowed = true;
            let Some(takes) = *takes else {
                // Somebody clears up after it.
                self.user.at(now + PATIENCE, Deed::Operator(index));
                return self.ground.fault(Fault::OperatorDied);
            };
            self.user.at(now + takes, Deed::Operator(index));
            return self.work(&uid, &pod);
        }
        if *is_allowed {
            *is_over = true;
            return self.relabel(&uid, Step::Operating, id, false);
        }
        if now - *since > PATIENCE {
            *is_over = true;
            return self.relabel(&uid, Step::UndoOperationType, id, true);
        }
        self.user.at(now + EVERY, Deed::Operator(index));
    }

    /// What operators do to a pod.
    fn work(&mut self, uid: &str, pod: &PodView) {
        let node = pod.node.as_deref().and_then(super::node_index);
        if self.ground.operators.happens(5_000)
            && let Some(node) = node
        {
            self.nodes[node].kubelet.crash(uid, self.ground.now);
        }
    }

    fn relabel(&mut self, uid: &str, step: Step, id: &str, is_set: bool) {
        self.ground.say(Who::User, || format!("operator {id}: {} of {uid} is {is_set}", step.word()));
        let ground = &mut self.ground;
        ground.server.change_pod(&mut ground.checks, uid, |pod| {
            if is_set {
                pod.view.labels.insert(step.key(id), "update".to_owned());
            } else {
                pod.view.labels.remove(&step.key(id));
            }
        });
    }

    /// A pod of the workload was to leave for its deletion and could not be drained: somebody has to delete it.
    pub(super) fn waits_for_deletion(&self, workload: &str) -> bool {
        let server = &self.ground.server;
        let mut owners: Vec<&str> = server.owned_by(workload).map(|each| each.view.id.uid.as_str()).collect();
        owners.push(workload);
        server.pods.values().any(|pod| {
            let is_own = pod.view.owner.as_ref().is_some_and(|owner| owners.contains(&owner.uid.as_str()));
            is_own && pod.view.labels.contains_key(PREPARING_TO_DELETE)
        })
    }

    /// No label of an operation is left.
    pub(super) fn operations_at_rest(&self) -> Option<String> {
        let left = |pod: &PodView| pod.labels.keys().find(|key| Step::of(key).is_some()).cloned();
        self.ground.server.pods.values().find_map(|pod| {
            let key = left(&pod.view)?;
            let is_hopeless = pod.view.labels.contains_key(PREPARING_TO_DELETE);
            (!is_hopeless).then(|| format!("label {key} was left on pod {}", pod.view.id.name))
        })
    }
}
