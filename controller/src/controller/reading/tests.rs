use super::*;

use std::sync::Mutex;

use futures::FutureExt as _;
use hitless_api::GroupKind;
use tokio::time::sleep;

fn workload(namespace: &str, name: &str) -> ObjectRef {
    let uid = format!("uid-{namespace}-{name}");
    ObjectRef {
        group_kind: GroupKind::new("apps", "Deployment"),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid,
    }
}

/// A failover while the API server has just lost a member: every read takes 200 ms, and one of a hundred is not answered.
#[tokio::test(start_paused = true)]
async fn a_new_leader_goes_on_with_what_it_has_read_and_reads_nothing_twice() {
    let all: Vec<ObjectRef> = (0..500).map(|number| workload(&format!("team-{number:03}"), "web")).collect();
    let named: BTreeSet<String> = all.iter().map(|workload| workload.namespace.clone()).collect();
    let (mut memory, mut reading) = (Memory::default(), Reading::default());
    let heartbeat = Heartbeat::new(Instant::now());
    // How often each was asked about, how many are asked about now, and the most at a time.
    let (asked, running) = (Mutex::new(BTreeMap::<String, usize>::new()), Mutex::new((0, 0)));
    let mut left = Vec::new();
    for round in 0..20 {
        let begun = Instant::now();
        let workloads = memory.to_read(7, &named, || all.clone());
        let due = reading.due(&workloads, Instant::now());
        let (asked, running) = (&asked, &running);
        let requests = due.into_iter().map(|workload| {
            async move {
                let count = {
                    let mut asked = asked.lock().unwrap();
                    let count = asked.entry(workload.uid.clone()).or_default();
                    *count += 1;
                    *count
                };
                {
                    let mut running = running.lock().unwrap();
                    *running = (running.0 + 1, running.1.max(running.0 + 1));
                }
                sleep(Duration::from_millis(200)).await;
                running.lock().unwrap().0 -= 1;
                (workload, !workload.namespace.ends_with("42") || count > 2)
            }
            .boxed()
        });
        let answers = ask(requests.collect(), &heartbeat).await;
        for (workload, is_read) in answers {
            reading.answered(workload, is_read, Instant::now());
            if is_read {
                memory.was_read(workload);
            }
        }
        assert!(begun.elapsed() < Duration::from_secs(3), "round {round} waits for the reads of others");
        let workloads = memory.to_read(7, &named, || all.clone());
        let missing = Missing { workloads, ..Missing::default() };
        left.push(missing.namespaces().len());
        let Some(next) = reading.next(&missing, Instant::now()) else { break };
        tokio::time::sleep_until(next).await;
    }
    assert!(left[0] < 350, "the first round begins with the namespaces that are known: {left:?}");
    assert!(left[3] <= 5, "after four rounds only those wait that were not answered: {left:?}");
    assert_eq!(left.last(), Some(&0), "and they are asked again: {left:?}");
    let twice = asked.lock().unwrap().values().filter(|count| **count > 1).count();
    assert_eq!((twice, running.lock().unwrap().1), (5, CONCURRENT), "what was read is kept");
    let unread = memory.to_read(7, &named, || panic!("all of it was read in this term"));
    assert!(unread.is_empty());
    assert_eq!(memory.to_read(8, &named, || all.clone()).len(), 500, "another term");
}

#[test]
fn of_a_namespace_that_matters_later_in_a_term_what_is_under_way_is_read_too() {
    let mut memory = Memory::default();
    let (early, late) = (workload("early", "web"), workload("late", "web"));
    let both = || vec![early.clone(), late.clone()];
    assert_eq!(memory.to_read(1, &["early".to_owned()], both), std::slice::from_ref(&early));
    memory.was_read(&early);
    assert!(memory.to_read(1, &["early".to_owned()], both).is_empty());
    assert_eq!(memory.to_read(1, &["early".to_owned(), "late".to_owned()], both), std::slice::from_ref(&late));
    memory.end_of_term();
    assert_eq!(
        memory.to_read(1, &["early".to_owned()], both),
        std::slice::from_ref(&early),
        "its own epoch again is another term"
    );
}

#[test]
fn who_is_left_out_is_so_since_the_first_round_and_whoever_is_known_again_is_not() {
    let now = Timestamp::UNIX_EPOCH;
    let mut reading = Reading::default();
    let missing = |pods: &[&str], workloads: &[&str]| Missing {
        pods: UnreadPods { namespaces: pods.iter().map(|name| (*name).to_owned()).collect(), uncounted: false },
        workloads: workloads.iter().map(|name| workload(name, "web")).collect(),
        ..Missing::default()
    };
    let mut snapshot = Snapshot::default();
    reading.leave_out(&missing(&["a"], &["b"]), &mut snapshot, now);
    assert_eq!(snapshot.left_out["a"], LeftOut { unread: Unread::Pods, since: now });
    let later = now + LeftOut::TOLD_AFTER;
    reading.leave_out(&missing(&[], &["a"]), &mut snapshot, later);
    assert_eq!(snapshot.left_out, [("a".to_owned(), LeftOut { unread: Unread::Workloads, since: now })].into());
    assert!(snapshot.left_out["a"].is_told(later));
    let text = snapshot.left_out["a"].text("a");
    assert!(text.contains("namespace a") && text.contains("since 1970-01-01T00:00:00Z"), "{text}");
}

#[test]
fn a_namespace_of_which_not_all_can_be_kept_is_left_out_alone_where_there_is_something_to_do() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    let look = Look {
        snapshot: Snapshot::default(),
        named: names(&["loud", "shop"]),
        pods: UnreadPods { namespaces: names(&["loud"]), uncounted: false },
        full: names(&["loud", "idle"]),
    };
    let missing = Missing::of(&look, &mut Memory::default(), 1);
    let mut snapshot = Snapshot::default();
    Reading::default().leave_out(&missing, &mut snapshot, Timestamp::UNIX_EPOCH);
    let left_out: Vec<_> = snapshot.left_out.iter().map(|(name, left_out)| (name.as_str(), left_out.unread)).collect();
    assert_eq!(left_out, [("loud", Unread::TooMuch)]);
    assert_eq!(
        snapshot.left_out["loud"].text("loud"),
        "nothing begins or ends in namespace loud: since 1970-01-01T00:00:00Z workloads of its namespace and their revisions take more \
         than the 128 MiB that the controller keeps of one; delete some or old revisions (spec.revisionHistoryLimit), or shorten \
         templates, e.g. move variables to a ConfigMap (envFrom)"
    );
}
