//! Answers that come later.

use hitless_api::pod_transition_rule::WebhookStatus;
use hitless_gate::approval::Approval::{Approved, Pending, Refused, Unreachable};
use serde_json::{Value, json};

use crate::office::{Office, ask, plain, pods, polled, rule, task, uid, view};

fn begun(answer: &Value, names: &[&str]) -> Office {
    begun_with(&polled(), answer, names)
}

fn begun_with(webhook: &Value, answer: &Value, names: &[&str]) -> Office {
    let mut office = Office::new(webhook, names);
    let call = office.call();
    office.reply(&call, answer);
    office
}

#[test]
fn the_task_id_is_polled_for_every_five_seconds() {
    for (answer, id) in [
        (json!({"success": true, "poll": true, "taskId": "t/1", "traceId": "x"}), "t/1"),
        (json!({"success": true, "async": true, "taskId": "", "traceId": "x"}), "x"),
    ] {
        let mut office = begun(&answer, &["a", "b"]);
        assert_eq!(office.approvals(&["a", "b"]), [Pending, Pending]);
        for _ in 0..3 {
            assert_eq!(office.sleep(), 5);
            let call = office.call();
            assert_eq!(task(&call), Some(id));
            office.idle();
            office.reply(&call, &json!({"success": true, "finished": false, "message": "looking"}));
            assert_eq!(office.said("a"), (Pending, format!("the approver works on task {id}: looking")));
        }
        let now = office.status();
        assert_eq!((now.task_states.len(), now.history.len()), (1, 0));
        assert_eq!(now.task_states[0].task_id.as_deref(), Some(id));
        assert_eq!(now.task_states[0].processing, ["a", "b"]);
    }
}

#[test]
fn interval_and_timeout_are_the_rules() {
    let config = json!({"clientConfig": {"url": "https://a/", "poll":
        {"url": "https://a/", "intervalSeconds": 2, "timeoutSeconds": 5}}});
    let mut office = begun_with(&config, &json!({"success": true, "poll": true, "taskId": "t"}), &["a"]);
    let mut seconds = Vec::new();
    for _ in 0..3 {
        seconds.push(office.sleep());
        let call = office.call();
        assert!((5..=30).contains(&call.timeout.as_secs()), "{call:?}");
        office.reply(&call, &json!({"success": true}));
    }
    assert_eq!(seconds, [2, 2, 1], "the last one is at the deadline");
    assert_eq!(pods(&office.call()), ["a"], "after the timeout it is asked about as a new task");
    let (approval, text) = office.said("a");
    assert!(approval == Pending && text.contains("polling task t timed out"), "{text}");
    assert_eq!(office.status().history[0].processing, ["a"]);
}

#[test]
fn a_timeout_shorter_than_the_interval_still_looks_once() {
    let config = json!({"clientConfig": {"url": "https://a/", "poll":
        {"url": "https://a/", "intervalSeconds": 100, "timeoutSeconds": 10}}});
    let mut office = begun_with(&config, &json!({"success": true, "poll": true, "taskId": "t"}), &["a"]);
    assert_eq!(office.sleep(), 10);
    let call = office.call();
    office.reply(&call, &json!({"success": true, "finished": true}));
    assert_eq!(office.approvals(&["a"]), [Approved]);
}

#[test]
fn names_add_up_also_without_success_and_finished_needs_it() {
    let mut office = begun(
        &json!({"success": true, "poll": true, "taskId": "t", "finishedNames": ["a", "stranger"]}),
        &["a", "b", "c", "d"],
    );
    assert_eq!(office.approvals(&["a", "b", "c", "d"]), [Approved, Pending, Pending, Pending]);
    let poll = |office: &mut Office, body: Value| {
        office.sleep();
        let call = office.call();
        office.reply(&call, &body);
    };
    poll(&mut office, json!({"success": false, "finished": true, "finishedNames": ["b", "stranger"]}));
    assert_eq!(office.approvals(&["a", "b", "c", "d"]), [Approved, Approved, Pending, Pending]);
    poll(&mut office, json!({"finishedNames": ["c"]}));
    let now = office.status();
    assert_eq!(now.task_states[0].approved, ["a", "b", "c"]);
    assert_eq!(now.task_states[0].processing, ["d"]);
    poll(&mut office, json!({"success": true, "finished": true, "message": "all good"}));
    assert_eq!(office.said("d"), (Approved, "all good".into()));
    office.idle();
    let now = office.status();
    assert!(now.task_states.is_empty(), "nothing is left to poll for");
    assert_eq!((now.history[0].approved.len(), now.history[0].processing.len()), (4, 0));
    assert_eq!(office.requests.wake_at(), None);
}

#[test]
fn where_all_are_named_at_once_there_is_no_task() {
    let office =
        begun(&json!({"success": true, "poll": true, "taskId": "t", "finishedNames": ["a", "b"]}), &["a", "b"]);
    assert_eq!(office.approvals(&["a", "b"]), [Approved, Approved]);
    assert_eq!(office.status(), WebhookStatus::default());
}

/// Upstream fills `processing` in the history with the approved ones.
#[test]
fn a_stopped_task_is_history_and_the_rest_is_asked_about_again() {
    let mut office = begun(&json!({"success": true, "poll": true, "taskId": "t"}), &["a", "b"]);
    office.sleep();
    let call = office.call();
    office.reply(&call, &json!({"success": false, "stop": true, "finishedNames": ["a"], "message": "window closed"}));
    assert_eq!(office.approvals(&["a", "b"]), [Approved, Pending]);
    assert!(office.said("b").1.contains("window closed"));
    let now = office.status();
    assert_eq!(
        (now.history[0].approved.clone(), now.history[0].processing.clone()),
        (vec!["a".into()], vec!["b".into()])
    );
    let again = office.call();
    assert_eq!(pods(&again), ["b"]);
    office.reply(&again, &json!({"success": true, "poll": true, "taskId": "t2"}));
    office.sleep();
    assert_eq!(task(&office.call()), Some("t2"));
}

#[test]
fn the_history_is_dropped_after_ten_minutes() {
    let mut office = begun(&json!({"success": true, "poll": true, "taskId": "t"}), &["a"]);
    office.sleep();
    let call = office.call();
    office.reply(&call, &json!({"success": true, "finished": true}));
    office.pass(599);
    office.idle();
    assert_eq!(office.status().history.len(), 1);
    office.pass(2);
    office.idle();
    assert_eq!(office.status(), WebhookStatus::default());
}

#[test]
fn an_approver_that_stops_every_task_at_once_leaves_a_short_history() {
    let mut office = Office::new(&polled(), &["a"]);
    for round in 0..50 {
        let call = office.call();
        office.reply(&call, &json!({"success": true, "poll": true, "taskId": format!("t{round}")}));
        assert_eq!(office.sleep(), 5, "no faster than it is polled");
        let call = office.call();
        office.reply(&call, &json!({"stop": true}));
    }
    office.turn();
    let history = office.status().history;
    assert_eq!((history.len(), history[15].task_id.as_deref()), (16, Some("t49")));
}

#[test]
fn polling_goes_on_over_errors_until_the_time_is_up() {
    let mut office = begun(&json!({"success": true, "poll": true, "taskId": "t"}), &["a"]);
    for _ in 0..11 {
        assert_eq!(office.sleep(), 5);
        let call = office.call();
        office.fail(&call, "connection reset");
        let (approval, text) = office.said("a");
        // `failurePolicy: Ignore` must not overtake an approver that has begun to look.
        assert_eq!(approval, Pending);
        assert!(text.contains("connection reset"), "{text}");
    }
    office.sleep();
    let call = office.call();
    office.requests.done(call.id, Ok(b"no json".to_vec()), office.now);
    let again = office.call();
    assert_eq!(pods(&again), ["a"]);
    office.fail(&again, "gone");
    assert_eq!(office.approvals(&["a"]), [Unreachable], "now nobody looks at it");
}

#[test]
fn a_task_that_nobody_can_poll_is_refused_with_the_remedy() {
    let rows = [
        (polled(), json!({"success": true, "poll": true}), "neither taskId nor traceId"),
        (polled(), json!({"success": true, "poll": true, "taskId": "x".repeat(513)}), "longer than 512"),
        (plain(), json!({"success": true, "poll": true, "taskId": "t"}), "clientConfig.poll"),
    ];
    for (webhook, answer, text) in rows {
        let mut office = begun_with(&webhook, &answer, &["a"]);
        let (approval, said) = office.said("a");
        assert!(approval == Refused && said.contains(text), "{said}");
        assert_eq!(office.sleep(), 30, "upstream does not ask again");
        assert_eq!(pods(&office.call()), ["a"]);
    }
}

#[test]
fn a_poll_that_lasts_longer_than_the_interval_is_not_overtaken() {
    let mut office = begun(&json!({"success": true, "poll": true, "taskId": "t"}), &["a"]);
    office.sleep();
    let call = office.call();
    office.pass(20);
    office.idle();
    office.reply(&call, &json!({"success": true}));
    assert_eq!(task(&office.call()), Some("t"), "overdue");
    office.pass(60);
    office.idle();
}

#[test]
fn a_task_ends_when_none_of_its_pods_waits_any_more() {
    let mut office = begun(&json!({"success": true, "poll": true, "taskId": "t"}), &["a", "b"]);
    office.asks = vec![ask("b")];
    office.pass(11);
    let call = office.call();
    assert_eq!(task(&call), Some("t"), "b still waits");
    office.asks.clear();
    office.running = [uid("b")].into();
    office.idle();
    let now = office.status();
    assert_eq!((now.task_states.len(), now.history.len()), (0, 1));
    office.reply(&call, &json!({"success": true, "finished": true}));
    assert!(office.requests.approvals().is_empty());
    // The same pod with its next operation is another question.
    office.running.clear();
    office.asks = vec![ask("b")];
    assert_eq!(pods(&office.call()), ["b"]);
}

#[test]
fn tasks_of_a_rule_that_has_changed_are_history() {
    let mut office = begun(&json!({"success": true, "poll": true, "taskId": "t"}), &["a"]);
    office.rules = vec![view(&[rule(&plain())], 2, None)];
    assert_eq!(pods(&office.call()), ["a"]);
    let now = office.status();
    assert!(now.task_states.is_empty());
    assert_eq!(now.history[0].message.as_deref(), Some("the rule's webhook has changed"));
}

#[test]
fn a_new_pod_of_the_same_name_is_not_approved_by_an_older_task() {
    let mut office = begun(&json!({"success": true, "poll": true, "taskId": "t"}), &["a"]);
    let mut new = ask("a");
    (new.operation, new.pod.uid) = ("uid-new.update".into(), "uid-new".into());
    office.asks = vec![new];
    let post = office.call();
    office.pass(5);
    let poll = office.call();
    office.reply(&poll, &json!({"success": true, "finished": true}));
    let approved = office.requests.approvals();
    let approved: Vec<_> = approved.iter().filter(|(_, answer)| answer.approval == Approved).collect();
    assert_eq!(approved.len(), 1);
    assert_eq!(approved[0].0.operation, "uid-a.update");
    office.reply(&post, &json!({"success": true}));
    assert_eq!(office.requests.approvals().values().filter(|answer| answer.approval == Approved).count(), 2);
}

#[test]
fn what_a_task_approved_for_an_operation_that_has_begun_is_not_approved_again() {
    let mut office = begun(&json!({"success": true, "poll": true, "taskId": "t", "finishedNames": ["a"]}), &["a", "b"]);
    office.asks = vec![ask("b")];
    office.running = [uid("a")].into();
    office.idle();
    assert_eq!(office.answer("a"), None, "used up");
    // It came to nothing, and the same is wanted again.
    office.running.clear();
    office.asks = vec![ask("a"), ask("b")];
    let post = office.call();
    assert_eq!(pods(&post), ["a"]);
    office.sleep();
    let poll = office.call();
    office.reply(&poll, &json!({"success": true}));
    assert_eq!(office.approvals(&["a", "b"]), [Pending, Pending]);
}
