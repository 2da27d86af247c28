//! Whether a model can always go on. Shared by the model checks of the ledgers.

use std::collections::HashMap;
use std::hash::Hash;

use stateright::Model;

/// A state that can be reached and that no way leads from to one where `is_end`.
pub(crate) fn stuck<M: Model<State: Clone + Eq + Hash>>(
    model: &M,
    is_end: impl Fn(&M::State) -> bool,
) -> Option<M::State> {
    let mut states: Vec<M::State> = model.init_states();
    let mut numbers: HashMap<M::State, usize> = HashMap::from([(states[0].clone(), 0)]);
    let mut before: Vec<Vec<usize>> = vec![Vec::new()];
    let mut number = 0;
    while number < states.len() {
        for next in model.next_states(&states[number].clone()) {
            let next = *numbers.entry(next.clone()).or_insert_with(|| {
                states.push(next);
                before.push(Vec::new());
                states.len() - 1
            });
            before[next].push(number);
        }
        number += 1;
    }
    let mut can_end = vec![false; states.len()];
    let mut open: Vec<usize> = (0..states.len()).filter(|&number| is_end(&states[number])).collect();
    while let Some(number) = open.pop() {
        if !std::mem::replace(&mut can_end[number], true) {
            open.extend(before[number].iter().filter(|&&earlier| !can_end[earlier]));
        }
    }
    Some(states.swap_remove(can_end.iter().position(|can| !can)?))
}
