//! Whatever approvers answer, in whatever order: nobody is approved whom an answer to a question about him did not approve, and
//! requests and memory stay within their bounds.

use std::collections::{BTreeMap, BTreeSet};

use hitless_controller::approval::requests::{Call, MOST_CALLS, Request};
use hitless_gate::approval::Approval;
use proptest::prelude::*;
use serde_json::json;

use crate::office::{Office, ask, operation, polled, rule, uid, view};

const PODS: [&str; 5] = ["a", "b", "c", "d", "e"];

#[derive(Clone, Debug)]
enum Event {
    Turn,
    Pass(i64),
    /// Which pods are asked about, wait, or are being operated.
    Interest(u8, u8, u8),
    /// The outcome of one of the live calls.
    Done(usize, Fate),
    /// An outcome comes twice.
    Again(Fate),
    ChangeRule(bool),
    EndOfTerm,
}

#[derive(Clone, Debug)]
enum Fate {
    Unreachable,
    Garbage,
    /// success, poll, finished, stop, names by bit (one of them a stranger's).
    Reply(bool, bool, bool, bool, u8),
}

fn fate() -> impl Strategy<Value = Fate> {
    let reply = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<u8>());
    prop_oneof![
        1 => Just(Fate::Unreachable),
        1 => Just(Fate::Garbage),
        8 => reply.prop_map(|(success, poll, finished, stop, names)| Fate::Reply(success, poll, finished, stop, names)),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => Just(Event::Turn),
        4 => (0..20_i64).prop_map(Event::Pass),
        3 => any::<(u8, u8, u8)>().prop_map(|(asks, waiting, running)| Event::Interest(asks, waiting, running & !asks)),
        6 => (any::<usize>(), fate()).prop_map(|(which, fate)| Event::Done(which, fate)),
        1 => fate().prop_map(Event::Again),
        1 => any::<bool>().prop_map(Event::ChangeRule),
        1 => Just(Event::EndOfTerm),
    ]
}

fn bits(mask: u8) -> Vec<&'static str> {
    PODS.iter().enumerate().filter(|(bit, _)| mask & (1 << bit) != 0).map(|(_, pod)| *pod).collect()
}

/// What an outside observer of the requests knows.
#[derive(Default)]
struct Observer {
    live: Vec<Call>,
    /// Operations that a POST asked about, by the id of the task it was answered with.
    tasks: BTreeMap<String, BTreeSet<String>>,
    /// Operations that some answer has approved.
    approved: BTreeSet<String>,
}

impl Observer {
    fn outcome(&mut self, office: &mut Office, call: &Call, fate: &Fate) {
        match fate {
            Fate::Unreachable => office.fail(call, "away"),
            Fate::Garbage => office.requests.done(call.id, Ok(b"garbage".to_vec()), office.now),
            Fate::Reply(success, poll, finished, stop, names) => {
                let mut said: Vec<&str> = bits(*names);
                said.push("stranger");
                let id = format!("task-{:?}", call.id);
                let body = json!({"success": success, "poll": poll, "finished": finished, "stop": stop,
                    "finishedNames": said, "taskId": id, "message": "m"});
                let about: BTreeSet<String> = match &call.request {
                    Request::Ask(pods) => pods.iter().map(|pod| operation(&pod.name)).collect(),
                    Request::Poll(task) => self.tasks.get(task).cloned().unwrap_or_default(),
                };
                let all = match &call.request {
                    Request::Ask(_) => *success && !*poll,
                    Request::Poll(_) => *success && *finished,
                };
                let said: BTreeSet<String> = said.into_iter().map(operation).collect();
                self.approved.extend(about.iter().filter(|about| all || said.contains(*about)).cloned());
                if matches!(call.request, Request::Ask(_)) {
                    self.tasks.insert(id, about);
                }
                office.reply(call, &body);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn nobody_is_approved_by_an_answer_that_was_not_about_him(events in prop::collection::vec(event(), 1..80)) {
        let mut office = Office::new(&polled(), &[]);
        let mut observer = Observer::default();
        let mut last: Option<Call> = None;
        for event in events {
            match event {
                Event::Turn => {
                    let calls = office.turn();
                    prop_assert!(office.requests.wake_at().is_none_or(|at| at > office.now), "the loop would turn for nothing");
                    let wanted: BTreeSet<&str> = office.asks.iter().map(|ask| ask.pod.name.as_str()).collect();
                    for call in &calls {
                        if let Request::Ask(pods) = &call.request {
                            prop_assert!(!pods.is_empty() && pods.iter().all(|pod| wanted.contains(pod.name.as_str())));
                        }
                    }
                    observer.live.extend(calls);
                    prop_assert!(observer.live.len() <= MOST_CALLS);
                }
                Event::Pass(seconds) => office.pass(seconds),
                Event::Interest(asks, waiting, running) => {
                    office.asks = bits(asks).into_iter().map(ask).collect();
                    office.waiting = bits(waiting).into_iter().map(uid).collect();
                    office.running = bits(running).into_iter().map(uid).collect();
                }
                Event::Done(which, fate) => {
                    if !observer.live.is_empty() {
                        let which = which % observer.live.len();
                        let call = observer.live.remove(which);
                        observer.outcome(&mut office, &call, &fate);
                        last = Some(call);
                    }
                }
                Event::Again(fate) => {
                    if let Some(call) = &last {
                        let before = office.requests.approvals();
                        observer.outcome(&mut office, call, &fate);
                        prop_assert_eq!(before, office.requests.approvals(), "a second outcome of one request changes nothing");
                    }
                }
                Event::ChangeRule(poll) => {
                    let webhook = if poll { polled() } else { crate::office::plain() };
                    office.rules = vec![view(&[rule(&webhook)], 1, None)];
                }
                Event::EndOfTerm => {
                    office.requests.end_of_term();
                    observer.live.clear();
                }
            }
            for (question, answer) in office.requests.approvals() {
                if answer.approval == Approval::Approved {
                    prop_assert!(observer.approved.contains(&question.operation), "{}", question.operation);
                }
            }
            for state in office.requests.rule_states().into_values().flatten() {
                let webhook = state.webhook_status.unwrap_or_default();
                prop_assert!(webhook.task_states.len() <= PODS.len() && webhook.history.len() <= 64);
            }
        }
    }

    #[test]
    fn any_bytes_are_an_answer_that_harms_nobody(body in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut office = Office::new(&polled(), &["a"]);
        let call = office.call();
        office.requests.done(call.id, Ok(body), office.now);
        prop_assert!(office.approvals(&["a"]) != [Approval::Approved]);
    }
}
