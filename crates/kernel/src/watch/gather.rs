//! A list as it is read: kept as long as it is short, and passed on without being kept once it is not.

use super::{Among, ConnectionKey};
use crate::Connection;

/// Connections that were read so far.
pub(super) struct Gather<'a> {
    most: usize,
    /// None of them has been passed on; `None` once there were too many.
    kept: Option<Vec<Connection>>,
    each: &'a mut dyn FnMut(&Connection, Among),
}

impl<'a> Gather<'a> {
    /// Keeps up to `most`.
    pub(super) fn new(most: usize, each: &'a mut dyn FnMut(&Connection, Among)) -> Self {
        Self { most, kept: Some(Vec::new()), each }
    }

    pub(super) fn add(&mut self, connection: Connection) {
        let Some(kept) = &mut self.kept else { return (self.each)(&connection, Among::Crowd) };
        kept.push(connection);
        if kept.len() > self.most {
            for connection in self.kept.take().into_iter().flatten() {
                (self.each)(&connection, Among::Crowd);
            }
        }
    }

    /// All have been read: passes on those that were kept, and says which they are; `None` for a crowd.
    pub(super) fn end(self) -> Option<Vec<ConnectionKey>> {
        let mut kept = self.kept?;
        // A dump that spans several replies can pass the same socket twice when its neighbours in the kernel's table go.
        kept.sort_unstable_by_key(|connection| connection.cookie);
        kept.dedup_by_key(|connection| connection.cookie);
        for connection in &kept {
            (self.each)(connection, Among::Few);
        }
        Some(kept.iter().map(ConnectionKey::from).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TcpState;

    fn connection(cookie: u64) -> Connection {
        let address = "10.0.0.1:80".parse().unwrap();
        let state = TcpState::Established;
        Connection {
            local: address,
            peer: address,
            state,
            inode: 1,
            cookie,
            rqueue: 0,
            wqueue: 0,
            shut_for_reading: false,
            info: None,
        }
    }

    /// What is passed on of these, at most three of which are kept; and how many are known afterwards.
    fn gathered(cookies: &[u64]) -> (Vec<(u64, Among)>, Option<usize>) {
        let mut passed = Vec::new();
        let mut each = |connection: &Connection, among| passed.push((connection.cookie, among));
        let mut gather = Gather::new(3, &mut each);
        for cookie in cookies {
            gather.add(connection(*cookie));
        }
        let known = gather.end().map(|known| known.len());
        (passed, known)
    }

    #[test]
    fn a_few_are_known_and_passed_once() {
        assert_eq!(gathered(&[]), (vec![], Some(0)));
        assert_eq!(gathered(&[2, 1, 2]), (vec![(1, Among::Few), (2, Among::Few)], Some(2)));
    }

    #[test]
    fn of_a_crowd_each_is_passed_as_one_of_many_and_none_is_kept() {
        let crowd = |cookies: [u64; 5]| cookies.map(|cookie| (cookie, Among::Crowd)).to_vec();
        assert_eq!(gathered(&[5, 4, 3, 2, 1]), (crowd([5, 4, 3, 2, 1]), None));
    }
}
