//! The SYNs that were held, in the order in which their clients came.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};

use super::frame::{Flow, Syn};

/// Clients remembered for one pod: about 3 MB at most. The SYNs of more clients are held as well, but not replayed: those
/// clients get in with their own repetition, a second after their first try.
pub(super) const MOST: usize = 16_384;

/// The newest SYN of each client.
#[derive(Debug, Default)]
pub(crate) struct HeldSyns {
    syns: Vec<Syn>,
    places: HashMap<Flow, usize>,
    /// Where they come to; also those who did not find room.
    ports: BTreeSet<u16>,
    overflow: usize,
}

impl HeldSyns {
    /// Remembers a SYN. A repetition takes the place of its client's earlier SYN.
    pub(crate) fn add(&mut self, syn: Syn) {
        self.ports.insert(syn.flow.server.port());
        match self.places.entry(syn.flow) {
            Entry::Occupied(known) => self.syns[*known.get()] = syn,
            Entry::Vacant(_) if self.syns.len() >= MOST => self.overflow += 1,
            Entry::Vacant(unknown) => {
                unknown.insert(self.syns.len());
                self.syns.push(syn);
            }
        }
    }

    /// How many clients wait.
    pub(super) fn len(&self) -> usize {
        self.syns.len()
    }

    /// On which ports.
    pub(super) fn ports(&self) -> BTreeSet<u16> {
        self.ports.clone()
    }

    /// Remembers the SYNs of these clients no longer: they count with those that did not find room.
    pub(super) fn leave(&mut self, who: impl Fn(&Flow) -> bool) {
        let (syns, overflow) = self.take();
        self.overflow = overflow;
        for syn in syns {
            if who(&syn.flow) {
                self.overflow += 1;
            } else {
                self.add(syn);
            }
        }
    }

    /// The SYNs in their clients' order, and how many more did not find room. Empty afterwards.
    pub(crate) fn take(&mut self) -> (Vec<Syn>, usize) {
        let Self { syns, overflow, .. } = std::mem::take(self);
        (syns, overflow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn syn(client: usize, mark: u8) -> Syn {
        let client = format!("10.{}.{}.1:5000", client / 256, client % 256).parse().unwrap();
        Syn { flow: Flow { client, server: "10.0.0.2:80".parse().unwrap() }, packet: [mark].into() }
    }

    #[test]
    fn the_newest_syn_of_each_client_comes_in_the_clients_order() {
        let mut held = HeldSyns::default();
        for (client, mark) in [(1, 1), (2, 2), (1, 3), (3, 4)] {
            held.add(syn(client, mark));
        }
        assert_eq!((held.len(), held.ports()), (3, BTreeSet::from([80])));
        assert_eq!(held.take(), (vec![syn(1, 3), syn(2, 2), syn(3, 4)], 0));
        assert_eq!(held.take(), (vec![], 0));
    }

    #[test]
    fn who_is_left_keeps_nobody_else_from_a_place() {
        let mut held = HeldSyns::default();
        for syn in [syn(1, 1), syn(2, 2), syn(3, 3)] {
            held.add(syn);
        }
        held.leave(|flow| *flow == syn(2, 0).flow);
        held.add(syn(3, 4));
        assert_eq!(held.take(), (vec![syn(1, 1), syn(3, 4)], 1));
    }

    #[test]
    fn memory_is_bounded_and_what_does_not_fit_is_counted() {
        let mut held = HeldSyns::default();
        for client in 0..MOST + 5 {
            held.add(syn(client, 0));
        }
        held.add(syn(0, 9));
        let (syns, overflow) = held.take();
        assert_eq!((syns.len(), overflow), (MOST, 5));
        assert_eq!(syns[0], syn(0, 9));
    }
}
