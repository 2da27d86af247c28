//! Requests that wait for the same thing: who is asked for by many keeps nobody else from being waited for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::limits::lock;

/// Requests from the node that wait, by what they wait for.
#[derive(Debug, Default)]
pub struct Awaited(Arc<Mutex<HashMap<String, usize>>>);

/// One of them, until it is dropped.
#[derive(Debug)]
pub struct AwaitedPlace {
    what: String,
    awaited: Arc<Mutex<HashMap<String, usize>>>,
}

impl Awaited {
    /// One more waits for this, of which at most `most` may.
    #[must_use]
    pub fn enter(&self, what: &str, most: usize) -> Option<AwaitedPlace> {
        let mut awaited = lock(&self.0);
        let own = awaited.entry(what.to_owned()).or_default();
        if *own >= most {
            return None;
        }
        *own += 1;
        Some(AwaitedPlace { what: what.to_owned(), awaited: self.0.clone() })
    }
}

impl Drop for AwaitedPlace {
    fn drop(&mut self) {
        let mut awaited = lock(&self.awaited);
        if let Some(own) = awaited.get_mut(&self.what) {
            *own -= 1;
            if *own == 0 {
                awaited.remove(&self.what);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
