//! Requests that wait for the same thing: who is asked for by many keeps nobody else from being waited for.

use super::count_guard::{CountGuard, Counts};

/// Requests from the node that wait, by what they wait for.
#[derive(Debug, Default)]
pub struct WaitSlots(Counts<String>);

/// One of them, until it is dropped.
pub type WaitSlot = CountGuard<String>;

impl WaitSlots {
    /// One more waits for this, of which at most `most` may.
    #[must_use]
    pub fn enter(&self, what: &str, most: usize) -> Option<WaitSlot> {
        CountGuard::new_if(&self.0, &what.to_owned(), |wait_slots| {
            wait_slots.get(what).copied().unwrap_or_default() < most
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::lock;

    #[test]
    fn who_is_waited_for_by_many_keeps_nobody_else_from_being_waited_for() {
        let wait_slots = WaitSlots::default();
        let first: Vec<_> = (0..3).map_while(|_| wait_slots.enter("shop/web", 2)).collect();
        assert_eq!(first.len(), 2);
        assert!(wait_slots.enter("shop/other", 2).is_some());
        drop(first);
        assert!(wait_slots.enter("shop/web", 2).is_some());
        assert!(lock(&wait_slots.0).is_empty(), "nothing is kept");
    }
}
