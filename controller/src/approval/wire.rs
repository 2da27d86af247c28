//! Requests and answers as approvers know them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Longest message that is kept, in bytes.
pub const LONGEST_MESSAGE: usize = 512;
/// Longest id of a task, in bytes.
pub const LONGEST_TASK_ID: usize = 512;

/// Body of the POST.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Question<'a> {
    /// A new random UUID for each request.
    pub trace_id: String,
    /// Name of the rule.
    pub rule_name: &'a str,
    /// As the rule has it; omitted where it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<&'a str>,
    /// The pods.
    pub resources: Vec<Resource<'a>>,
    /// Namespace of the pods; upstream does not send it.
    pub namespace: &'a str,
    /// Name of the PodTransitionRule; upstream does not send it.
    pub pod_transition_rule: &'a str,
}

/// One pod that is asked about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Resource<'a> {
    /// `core/v1`: wrong, but what upstream sends.
    pub api_version: &'static str,
    /// `Pod`.
    pub kind: &'static str,
    /// Its name.
    pub name: &'a str,
    /// The rule's parameters, resolved for this pod.
    pub parameters: BTreeMap<&'a str, String>,
}

impl<'a> Resource<'a> {
    /// A pod.
    #[must_use]
    pub fn pod(name: &'a str, parameters: BTreeMap<&'a str, String>) -> Self {
        Self { api_version: "core/v1", kind: "Pod", name, parameters }
    }
}

/// Answer to the POST. An approver in Go writes an empty list as `null`, so nothing is required but an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Reply {
    /// Whether all pods may go, or, with `poll`, will be looked at.
    pub success: Option<bool>,
    /// Pods that may go.
    pub finished_names: Option<Vec<String>>,
    /// For people.
    pub message: Option<String>,
    /// The answer comes later, it has to be polled for.
    pub poll: Option<bool>,
    /// The same, older.
    #[serde(rename = "async")]
    pub asynchronous: Option<bool>,
    /// What to poll with.
    pub task_id: Option<String>,
    /// What to poll with where there is no `taskId`.
    pub trace_id: Option<String>,
}

impl Reply {
    /// Whether the rest of the answer is to be polled for.
    #[must_use]
    pub fn polls(&self) -> bool {
        self.poll == Some(true) || self.asynchronous == Some(true)
    }

    /// Id of the task that is to be polled.
    #[must_use]
    pub fn task(&self) -> Option<&str> {
        [&self.task_id, &self.trace_id].into_iter().flatten().map(String::as_str).find(|id| !id.is_empty())
    }
}

/// Answer to a poll.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PollReply {
    /// Whether the task goes well.
    pub success: Option<bool>,
    /// For people.
    pub message: Option<String>,
    /// With `success`: all pods of the task may go.
    pub finished: Option<bool>,
    /// Pods that may go.
    pub finished_names: Option<Vec<String>>,
    /// The task has ended.
    pub stop: Option<bool>,
}

/// The text without control characters, cut to [`LONGEST_MESSAGE`]: it is shown on terminals and written to the API.
#[must_use]
pub fn clip(text: &str) -> String {
    let mut clipped = String::new();
    for letter in text.trim().chars() {
        let letter = if letter.is_control() { ' ' } else { letter };
        if clipped.len() + letter.len_utf8() > LONGEST_MESSAGE {
            break;
        }
        clipped.push(letter);
    }
    clipped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_what_upstream_sends_and_two_fields_more() {
        let parameters = BTreeMap::from([("team", "a".to_owned())]);
        let mut question = Question {
            trace_id: "t".into(),
            rule_name: "r",
            stage: None,
            resources: vec![Resource::pod("p", parameters)],
            namespace: "n",
            pod_transition_rule: "s",
        };
        let resources =
            serde_json::json!([{"apiVersion": "core/v1", "kind": "Pod", "name": "p", "parameters": {"team": "a"}}]);
        let mut expected = serde_json::json!({"traceId": "t", "ruleName": "r", "resources": resources,
            "namespace": "n", "podTransitionRule": "s"});
        assert_eq!(serde_json::to_value(&question).unwrap(), expected, "a stage that is not set is not sent");
        question.stage = Some("PreCheck");
        expected["stage"] = "PreCheck".into();
        assert_eq!(serde_json::to_value(&question).unwrap(), expected);
    }

    #[test]
    fn nulls_and_unknown_fields_are_no_faults() {
        let reply: Reply =
            serde_json::from_str(r#"{"success":null,"finishedNames":null,"extra":[1],"async":true}"#).unwrap();
        assert!(reply.polls() && reply.success.is_none() && reply.finished_names.is_none());
        assert_eq!(reply.task(), None);
        let reply: Reply = serde_json::from_str(r#"{"taskId":"","traceId":"x"}"#).unwrap();
        assert_eq!(reply.task(), Some("x"), "the trace id stands in for an empty task id");
        let poll: PollReply = serde_json::from_str("{}").unwrap();
        assert_eq!(poll, PollReply::default());
    }

    #[test]
    fn messages_are_cut_between_letters_and_cannot_drive_a_terminal() {
        assert_eq!(clip("a\u{1b}[31m\nb "), "a [31m b");
        let long = clip(&"ä".repeat(400));
        assert_eq!((long.len(), long.chars().count()), (512, 256));
    }
}
