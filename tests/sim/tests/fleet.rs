//! The protocol scales: a small fleet takes hardly longer than it must, with few writes.

use hitless_sim::{Fleet, PodSet};

#[test]
fn a_set_of_pods_costs_few_writes_a_pod_and_its_record_of_ids_is_written_once_a_round() {
    for (kind, record) in [(PodSet::CollaSet, "resourcecontexts"), (PodSet::CloneSet, "clonesets")] {
        for (what, report) in Fleet::pod_set(kind, 10, 100) {
            assert!(!report.stuck, "{kind:?}, {what}: {report}");
            let writes: u64 = report.writes.values().sum();
            assert!(writes <= report.pods * 8, "{kind:?}, {what}: {report}");
            let records = report.writes.get(record).copied().unwrap_or_default();
            assert!(records <= report.rounds, "{kind:?}, {what}: {report}");
        }
    }
}

#[test]
fn a_fleet_is_rolled_nearly_as_fast_as_its_budget_allows_with_five_writes_a_pod_and_less() {
    let fleet = Fleet { nodes: 50, namespaces: 2, deployments: 2, replicas: 100, ..Fleet::default() };
    let report = fleet.roll();
    assert!(!report.stuck, "{report}");
    assert_eq!((report.pods, report.most), (400, 40), "a tenth at a time: {report}");
    assert!(report.seconds <= report.floor_seconds * 3 / 2, "{report}");
    let writes: u64 = report.writes.values().sum();
    assert!(writes <= report.pods * 5, "{report}");
}
