//! Starts that take long.

use std::sync::Arc;

use hitless_api::MicroTime;
use hitless_rollout::snapshot::NodeTransitionView;
use jiff::SignedDuration;

use crate::blips::Is;
use crate::dependency::{first, others, says};
use crate::scene::{decide, now};

#[test]
fn a_start_that_takes_much_longer_than_any_that_was_seen_is_told_and_held_against_nobody() {
    let starting_for = |seconds: i64| {
        let mut snapshot = others([Is::Ready, Is::Ready], &first(), None);
        let known = snapshot.node_transitions.get_mut("n1").unwrap();
        let mut known_to = NodeTransitionView::clone(known);
        let since = now().checked_sub(SignedDuration::from_secs(seconds)).unwrap();
        known_to.transitions[0].since = MicroTime(since);
        *known = Arc::new(known_to);
        decide(&snapshot)
    };
    let soon = starting_for(20);
    assert!(!says(&soon, "SlowStart"));
    assert_eq!(
        soon.wake_at,
        Some(now().checked_add(SignedDuration::from_secs(10)).unwrap()),
        "not before half a minute"
    );
    let slow = starting_for(31);
    let note = slow.events.iter().find(|note| note.reason == "SlowStart").unwrap();
    assert!(
        note.text.starts_with("pod web-2 has been starting since 2026-01-02T23:59:29Z, 3 times as long"),
        "{}",
        note.text
    );
    assert!(!says(&slow, "RolloutHalted"));
}
