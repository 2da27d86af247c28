//! Which pods of a CloneSet are removed first, and which updated first: upstream's ranks.

use std::cmp::Reverse;

use hitless_api::names::annotations;
use hitless_api::pod::PodView;
use jiff::Timestamp;

/// The smaller one is removed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a rank of upstream's, and their order is that of the fields"
)]
pub(super) struct RemovalRank {
    pub(super) has_node: bool,
    /// A container of it was ever started (upstream: it is not Pending).
    pub(super) was_started: bool,
    pub(super) is_available: bool,
    pub(super) is_ready: bool,
    /// Annotation `controller.kubernetes.io/pod-deletion-cost`.
    pub(super) cost: i32,
    /// Ready pods of the set on the same node: the most crowded node first.
    pub(super) crowd: Reverse<usize>,
    pub(super) ready_since: Reverse<Option<Timestamp>>,
    pub(super) restarts: Reverse<u32>,
    pub(super) created: Reverse<Option<Timestamp>>,
}

impl RemovalRank {
    /// `crowd`: ready pods of the set on its node.
    pub(super) fn of(pod: &PodView, is_available: bool, crowd: usize) -> Self {
        let cost = pod.annotations.get(annotations::DELETION_COST).and_then(|cost| cost.parse().ok());
        Self {
            has_node: pod.node.is_some(),
            was_started: was_started(pod),
            is_available,
            is_ready: pod.ready(),
            cost: cost.unwrap_or_default(),
            crowd: Reverse(crowd),
            ready_since: Reverse(pod.ready_since()),
            restarts: Reverse(restarts(pod)),
            created: Reverse(pod.created),
        }
    }
}

/// The smaller one is updated first, before priorities are asked: the order of Kubernetes' "active pods".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::kinds) struct UpdateRank {
    has_node: bool,
    was_started: bool,
    is_ready: bool,
    ready_since: Reverse<Option<Timestamp>>,
    restarts: Reverse<u32>,
    created: Reverse<Option<Timestamp>>,
}

impl UpdateRank {
    pub(in crate::kinds) fn of(pod: &PodView) -> Self {
        Self {
            has_node: pod.node.is_some(),
            was_started: was_started(pod),
            is_ready: pod.ready(),
            ready_since: Reverse(pod.ready_since()),
            restarts: Reverse(restarts(pod)),
            created: Reverse(pod.created),
        }
    }
}

fn was_started(pod: &PodView) -> bool {
    pod.ready()
        || pod.containers.iter().any(|container| {
            container.status.as_ref().is_some_and(|status| status.restarts > 0 || status.running_since.is_some())
        })
}

fn restarts(pod: &PodView) -> u32 {
    pod.containers.iter().filter_map(|container| Some(container.status.as_ref()?.restarts)).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: Option<Timestamp> = Some(Timestamp::UNIX_EPOCH);

    fn young() -> Option<Timestamp> {
        Timestamp::from_second(60).ok()
    }

    const BEST: RemovalRank = RemovalRank {
        has_node: true,
        was_started: true,
        is_available: true,
        is_ready: true,
        cost: 0,
        crowd: Reverse(1),
        ready_since: Reverse(OLD),
        restarts: Reverse(0),
        created: Reverse(OLD),
    };

    /// Each one goes before all that come after it: what is asked first decides.
    #[test]
    fn what_is_lost_least_goes_first() {
        let in_order = [
            RemovalRank { has_node: false, was_started: false, is_available: false, is_ready: false, cost: 9, ..BEST },
            RemovalRank { was_started: false, is_available: false, is_ready: false, cost: 9, ..BEST },
            RemovalRank { is_available: false, is_ready: false, cost: 9, ..BEST },
            RemovalRank { is_available: false, cost: 9, ..BEST },
            RemovalRank { cost: -1, ..BEST },
            RemovalRank { crowd: Reverse(2), ..BEST },
            RemovalRank { ready_since: Reverse(young()), ..BEST },
            RemovalRank { restarts: Reverse(3), ..BEST },
            RemovalRank { created: Reverse(young()), ..BEST },
            BEST,
            RemovalRank { cost: 1, crowd: Reverse(5), ..BEST },
        ];
        assert!(in_order.is_sorted(), "{in_order:?}");
        let distinct: std::collections::BTreeSet<RemovalRank> = in_order.into_iter().collect();
        assert_eq!(distinct.len(), in_order.len());
    }
}
