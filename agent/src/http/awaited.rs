//! Requests that wait for the same thing: who is asked for by many keeps nobody else from being waited for.

use super::counted::{Counted, Counts};

/// Requests from the node that wait, by what they wait for.
#[derive(Debug, Default)]
pub struct Awaited(Counts<String>);

/// One of them, until it is dropped.
pub type AwaitedPlace = Counted<String>;

impl Awaited {
    /// One more waits for this, of which at most `most` may.
    #[must_use]
    pub fn enter(&self, what: &str, most: usize) -> Option<AwaitedPlace> {
        Counted::new_if(&self.0, &what.to_owned(), |awaited| awaited.get(what).copied().unwrap_or_default() < most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::lock;

    #[test]
    fn who_is_waited_for_by_many_keeps_nobody_else_from_being_waited_for() {
        let awaited = Awaited::default();
        let first: Vec<_> = (0..3).map_while(|_| awaited.enter("shop/web", 2)).collect();
        assert_eq!(first.len(), 2);
        assert!(awaited.enter("shop/other", 2).is_some());
        drop(first);
        assert!(awaited.enter("shop/web", 2).is_some());
        assert!(lock(&awaited.0).is_empty(), "nothing is kept");
    }
}
