//! A new leader takes running tasks on.

use hitless_api::pod_transition_rule::{PodTransitionRuleStatus, RuleState, WebhookStatus};
use hitless_controller::approval::requests::Requests;
use hitless_gate::approval::Approval::{Approved, Pending};
use serde_json::json;

use crate::office::{Office, ask, operation, plain, pods, polled, rule, task, view};

/// What an earlier leader has reported of a task with `a` approved and `b`, `c` waiting.
fn reported() -> WebhookStatus {
    let mut office = Office::new(&polled(), &["a", "b", "c", "done"]);
    let call = office.call();
    office.reply(
        &call,
        &json!({"success": true, "poll": true, "taskId": "t", "finishedNames": ["a"], "message": "busy"}),
    );
    let status = office.status();
    // The wire has the same text as the value.
    let wire = serde_json::to_value(&status).unwrap();
    assert_eq!(wire["taskStates"][0]["beginTime"], "2026-01-01T00:00:00Z");
    serde_json::from_value(wire).unwrap()
}

fn restarted(webhook: WebhookStatus, generation: i64) -> Office {
    let mut office = Office::new(&polled(), &["a", "b", "c"]);
    let rule_states = vec![RuleState { name: "ask".into(), webhook_status: Some(webhook) }];
    let status = PodTransitionRuleStatus { observed_generation: Some(1), rule_states, ..Default::default() };
    office.rules = vec![view(&[rule(&polled())], generation, Some(status))];
    office.requests = Requests::default();
    office.pass(20);
    office
}

#[test]
fn the_task_is_polled_and_not_asked_about_again() {
    let mut office = restarted(reported(), 1);
    let call = office.call();
    assert_eq!(task(&call), Some("t"));
    assert_eq!(office.approvals(&["a", "b", "c"]), [Approved, Pending, Pending]);
    assert_eq!(office.said("b").1, "the approver works on task t: busy");
    office.reply(&call, &json!({"success": true, "finishedNames": ["b"]}));
    assert_eq!(office.approvals(&["a", "b", "c"]), [Approved, Approved, Pending]);
    office.pass(40);
    let call = office.call();
    office.reply(&call, &json!({"success": true}));
    assert_eq!(pods(&office.call()), ["c"], "its time counts from when it began");
}

#[test]
fn an_answer_counts_for_the_operation_that_was_asked_about_not_for_the_name() {
    let mut office = restarted(reported(), 1);
    office.asks[0].operation = "uid-a.another".into();
    office.asks[1].pod.uid = "uid-b-new".into();
    office.asks[1].operation = "uid-b-new.update".into();
    let calls = office.turn();
    let asked: Vec<&str> = calls.iter().flat_map(pods).collect();
    assert_eq!(asked, ["a", "b"]);
    let poll = calls.iter().find(|call| task(call).is_some()).unwrap();
    office.reply(poll, &json!({"success": true, "finished": true}));
    let approved = office.requests.approvals();
    let approved = approved.iter().filter(|(_, answer)| answer.approval == Approved);
    let approved: Vec<&str> = approved.map(|(question, _)| question.operation.as_str()).collect();
    assert_eq!(approved, [operation("a"), operation("b"), operation("c"), operation("done")]);
}

#[test]
fn pods_that_nobody_asks_about_are_forgotten_after_the_tasks_time() {
    let mut office = restarted(reported(), 1);
    office.asks.clear();
    let call = office.call();
    office.reply(&call, &json!({"success": true}));
    office.pass(39);
    let call = office.call();
    office.reply(&call, &json!({"success": true}));
    office.pass(1);
    office.idle();
    assert!(office.requests.approvals().is_empty());
}

#[test]
fn a_report_that_is_too_old_or_of_another_rule_or_program_is_not_taken_on() {
    let mut late = restarted(reported(), 1);
    late.pass(3600);
    let mut other_rule = restarted(reported(), 2);
    let mut status = reported();
    status.task_states[0].operations.clear();
    let mut other_program = restarted(status, 1);
    let mut status = reported();
    status.task_states[0].begin_time = None;
    let mut no_begin = restarted(status, 1);
    let mut status = reported();
    status.task_states[0].task_id = None;
    let mut no_id = restarted(status, 1);
    for office in [&mut late, &mut other_rule, &mut other_program, &mut no_begin, &mut no_id] {
        assert_eq!(pods(&office.call()), ["a", "b", "c"]);
    }
    let mut no_poll = restarted(reported(), 1);
    let status = no_poll.rules[0].status.clone();
    no_poll.rules = vec![view(&[rule(&plain())], 1, status)];
    assert_eq!(pods(&no_poll.call()), ["a", "b", "c"]);
}

#[test]
fn a_task_that_ran_out_of_time_while_nobody_led_is_polled_once_more() {
    let mut office = restarted(reported(), 1);
    office.pass(60);
    let call = office.call();
    assert_eq!(task(&call), Some("t"));
    office.reply(&call, &json!({"success": true, "finishedNames": ["b"]}));
    assert_eq!(office.approvals(&["a", "b"]), [Approved, Approved]);
    assert_eq!(pods(&office.call()), ["c"]);
}

#[test]
fn the_history_survives_too() {
    let mut status = reported();
    let task = status.task_states.remove(0);
    status.history = vec![task];
    let mut office = restarted(status.clone(), 1);
    office.call();
    assert_eq!(office.status(), status);
}

#[test]
fn a_report_changes_only_when_there_is_news() {
    let mut office = Office::new(&polled(), &["a"]);
    let call = office.call();
    office.reply(&call, &json!({"success": true, "poll": true, "taskId": "t", "message": "m"}));
    let first = office.status();
    for _ in 0..3 {
        office.sleep_and_reply(&json!({"success": true, "message": "m"}));
        assert_eq!(office.status(), first, "each change costs a write");
    }
    office.sleep_and_reply(&json!({"success": true, "message": "other"}));
    let second = office.status();
    assert_ne!(second.task_states[0].last_time, first.task_states[0].last_time);
    assert_eq!(second.task_states[0].begin_time, first.task_states[0].begin_time);
}

impl Office {
    fn sleep_and_reply(&mut self, body: &serde_json::Value) {
        self.sleep();
        let call = self.call();
        self.reply(&call, body);
    }
}

#[test]
fn asks_of_before_do_not_matter_for_what_is_resumed() {
    let mut office = restarted(reported(), 1);
    office.asks = vec![ask("c")];
    let call = office.call();
    assert_eq!(task(&call), Some("t"));
    office.reply(&call, &json!({"success": true, "finished": true}));
    assert_eq!(
        office.approvals(&["a", "b", "c"]),
        [Approved, Approved, Approved],
        "b may be asked about a moment later"
    );
}
