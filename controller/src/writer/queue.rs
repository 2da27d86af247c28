//! In which order the steps of a round are begun, and for how long. Pure: the caller tells the time and what became of each.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hitless_rollout::round::Step;
use hitless_runtime::write::WriteError;
use tokio::time::Instant;

/// What became of one step.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// It was written.
    Done,
    /// A step that it needs was not.
    Dropped,
    /// It was not written, or perhaps not.
    Failed(WriteError),
    /// It was not begun: the time of the round is over, and it is decided anew.
    Left,
}

/// Steps of one kind, so that those of the other need not wait for them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Lane {
    /// Whatever begins, ends or corrects something. Pods and Services may be out of service until it is written.
    Orders,
    /// Pods that are made. They wait for admission webhooks, there may be hundreds, and nobody is out of service meanwhile.
    Creations,
}

impl Lane {
    const ALL: [Self; 2] = [Self::Orders, Self::Creations];

    fn of(step: &Step) -> Self {
        if step.write.makes_pod() { Self::Creations } else { Self::Orders }
    }

    /// Steps that are under way at the same time.
    const fn width(self) -> usize {
        match self {
            Self::Orders => 16,
            Self::Creations => 8,
        }
    }

    /// None is begun later than this after the first. A step is three requests at most, each with
    /// [`hitless_runtime::write::Writes::TIMEOUT`]: writes take 17 s at most, and half of that where only a webhook of pods is slow.
    const fn longest(self) -> Duration {
        match self {
            Self::Orders => Duration::from_secs(5),
            Self::Creations => Duration::from_secs(1),
        }
    }
}

/// First the first steps of all namespaces, then the second ones, …: no namespace waits for all those of another.
type Place = (usize, usize, usize);

/// The steps of a round.
pub(super) struct Queue<'a> {
    steps: &'a [Step],
    begun: Instant,
    outcomes: Vec<Option<Outcome>>,
    places: Vec<Place>,
    /// How many of those that it needs are not done yet.
    missing: Vec<usize>,
    needed_by: Vec<Vec<usize>>,
    ready: BTreeMap<Lane, BTreeSet<Place>>,
    running: BTreeMap<Lane, usize>,
    /// The namespace of the step that was begun last.
    last: Option<String>,
}

impl<'a> Queue<'a> {
    /// `after`: the namespace whose step was begun last in the round before, where some were left. The next one comes first.
    pub(super) fn new(steps: &'a [Step], after: Option<&str>, begun: Instant) -> Self {
        let mut needed_by = vec![Vec::new(); steps.len()];
        for (index, step) in steps.iter().enumerate() {
            for needed in &step.needs {
                needed_by[*needed].push(index);
            }
        }
        let mut queue = Self {
            steps,
            begun,
            outcomes: vec![None; steps.len()],
            places: places(steps, after),
            missing: steps.iter().map(|step| step.needs.len()).collect(),
            needed_by,
            ready: BTreeMap::new(),
            running: BTreeMap::new(),
            last: after.map(str::to_owned),
        };
        for index in 0..steps.len() {
            queue.make_ready(index);
        }
        queue
    }

    /// The step to begin at `now`; `None`: nothing more until another one has ended, and if none is under way, nothing at all.
    pub(super) fn next(&mut self, now: Instant) -> Option<usize> {
        let elapsed = now.saturating_duration_since(self.begun);
        for lane in Lane::ALL {
            let running = self.running.entry(lane).or_default();
            if *running >= lane.width() || elapsed >= lane.longest() {
                continue;
            }
            let Some((_, _, index)) = self.ready.get_mut(&lane).and_then(BTreeSet::pop_first) else { continue };
            *running += 1;
            if let Some(namespace) = self.steps[index].write.namespace() {
                self.last = Some(namespace.to_owned());
            }
            return Some(index);
        }
        None
    }

    /// The step that was begun has ended.
    pub(super) fn ended(&mut self, index: usize, result: Result<(), WriteError>) {
        let running = self.running.entry(Lane::of(&self.steps[index])).or_default();
        *running = running.saturating_sub(1);
        let is_done = result.is_ok();
        self.outcomes[index] = Some(result.map_or_else(Outcome::Failed, |()| Outcome::Done));
        if is_done {
            for next in self.needed_by[index].clone() {
                self.missing[next] = self.missing[next].saturating_sub(1);
                self.make_ready(next);
            }
        } else {
            self.drop_what_needs(index);
        }
    }

    /// What became of each, and after which namespace the next round goes on: only where something was left.
    pub(super) fn finish(self) -> (Vec<Outcome>, Option<String>) {
        let is_left = self.outcomes.iter().any(Option::is_none);
        let outcomes = self.outcomes.into_iter().map(|outcome| outcome.unwrap_or(Outcome::Left)).collect();
        (outcomes, self.last.filter(|_| is_left))
    }

    fn make_ready(&mut self, index: usize) {
        if self.missing[index] == 0 && self.outcomes[index].is_none() {
            self.ready.entry(Lane::of(&self.steps[index])).or_default().insert(self.places[index]);
        }
    }

    fn drop_what_needs(&mut self, failed: usize) {
        let mut dropped = self.needed_by[failed].clone();
        while let Some(index) = dropped.pop() {
            if self.outcomes[index].is_none() {
                self.outcomes[index] = Some(Outcome::Dropped);
                dropped.extend(&self.needed_by[index]);
            }
        }
    }
}

fn places(steps: &[Step], after: Option<&str>) -> Vec<Place> {
    let namespaces: BTreeSet<&str> = steps.iter().filter_map(|step| step.write.namespace()).collect();
    let later = namespaces.iter().filter(|name| after.is_some_and(|after| **name > after));
    let earlier = namespaces.iter().filter(|name| after.is_none_or(|after| **name <= after));
    let order: BTreeMap<&str, usize> =
        later.chain(earlier).enumerate().map(|(place, name)| (*name, place + 1)).collect();
    let mut turns: BTreeMap<(Lane, &str), usize> = BTreeMap::new();
    let place = |(index, step): (usize, &'_ Step)| {
        // What is for no namespace is one write for all of them.
        let Some((name, place)) = step.write.namespace().and_then(|name| order.get_key_value(name)) else {
            return (0, 0, index);
        };
        let turn = turns.entry((Lane::of(step), *name)).or_default();
        *turn += 1;
        (*turn - 1, *place, index)
    };
    steps.iter().enumerate().map(place).collect()
}

#[cfg(test)]
mod tests {
    use hitless_api::{GroupKind, TransitionLedgerSpec};
    use hitless_rollout::round::write;
    use hitless_workloads::Write;
    use serde_json::json;

    use super::*;

    fn ledger(namespace: &str) -> Step {
        Step::alone(write::ledger(namespace, None, TransitionLedgerSpec::default()))
    }

    fn pod(namespace: &str, name: &str) -> Step {
        let manifest = json!({"metadata": {"namespace": namespace, "name": name}});
        Step::alone(Write::create("create-pod", &GroupKind::POD, manifest))
    }

    fn begin(queue: &mut Queue<'_>, now: Instant) -> Vec<usize> {
        std::iter::from_fn(|| queue.next(now)).collect()
    }

    #[tokio::test]
    async fn pods_that_are_made_keep_no_other_step_waiting_and_each_namespace_has_its_turn() {
        let now = Instant::now();
        let mut steps: Vec<Step> = (0..20).map(|number| pod("big", &number.to_string())).collect();
        steps.extend([pod("small", "one"), ledger("small")]);
        steps.push(Step { needs: vec![21], ..ledger("tiny") });
        let mut queue = Queue::new(&steps, None, now);
        assert_eq!(begin(&mut queue, now), [21, 0, 20, 1, 2, 3, 4, 5, 6], "orders first, then one of each namespace");
        queue.ended(21, Ok(()));
        assert_eq!(begin(&mut queue, now), [22], "places are kept for what others wait for");
        queue.ended(0, Ok(()));
        assert_eq!(begin(&mut queue, now), [7]);
        for index in [1, 2, 3, 4, 5, 6, 7, 20, 22] {
            queue.ended(index, Ok(()));
        }
        assert_eq!(begin(&mut queue, now + Duration::from_secs(1)), [0; 0], "no pod is made after that");
        let (outcomes, last) = queue.finish();
        assert_eq!(outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Left)).count(), 12);
        assert_eq!(last.as_deref(), Some("big"));
        assert_eq!(Queue::new(&steps, Some("big"), now).next(now), Some(21));
        let mut next = Queue::new(&steps, Some("big"), now);
        assert_eq!(begin(&mut next, now)[..3], [21, 20, 0], "the namespace after the last one comes first");
    }

    #[tokio::test]
    async fn what_needs_a_failed_step_is_dropped_and_what_needs_one_that_is_left_is_left() {
        let now = Instant::now();
        let needs = |needs: &[usize]| Step { needs: needs.to_vec(), ..ledger("c") };
        let steps = [ledger("a"), needs(&[0]), needs(&[1]), ledger("b"), needs(&[3])];
        let mut queue = Queue::new(&steps, None, now);
        assert_eq!(begin(&mut queue, now), [0, 3]);
        queue.ended(0, Err(WriteError::Gone { message: String::new() }));
        queue.ended(3, Ok(()));
        assert_eq!(begin(&mut queue, now + Duration::from_secs(5)), [0; 0], "the round has taken long enough");
        let (outcomes, _) = queue.finish();
        let is_as_told = matches!(
            outcomes[..],
            [Outcome::Failed(_), Outcome::Dropped, Outcome::Dropped, Outcome::Done, Outcome::Left]
        );
        assert!(is_as_told, "{outcomes:?}");
    }
}
