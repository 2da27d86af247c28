//! Asks the API server by a dry run, as the user, whether it accepts the pods that the controller makes beside a workload's own.

use hitless_api::pod::PodView;
use hitless_rollout::beforehand::{Helper, Trial, instead, trials};
use hitless_runtime::write::{WriteError, Writes};
use hitless_workloads::Object;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use serde::Serialize;

use crate::output::one_line;
use crate::snapshot::Snapshot;

/// What the API server says of one of these pods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Tried {
    /// Which pod it is.
    pub(crate) pod: &'static str,
    /// The image that it fetches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) image: Option<String>,
    #[serde(flatten)]
    pub(crate) answer: Answer,
    /// What is done where it is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) instead: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "answer", content = "words")]
pub(crate) enum Answer {
    Accepted,
    /// In the API server's words.
    Refused(String),
    /// That is not known, and why.
    NotTried(String),
}

impl Tried {
    pub(crate) fn of(trial: &Trial, answer: Answer, workload: &Object) -> Self {
        let instead = match &answer {
            Answer::Refused(words) => Some(instead(trial.helper, workload, words)),
            Answer::Accepted | Answer::NotTried(_) => None,
        };
        let image = trial.pods.first().filter(|_| trial.helper == Helper::Prefetch);
        let image = image.and_then(|pod| Some(pod["spec"]["containers"][0]["image"].as_str()?.to_owned()));
        Self { pod: trial.helper.label(), image, answer, instead }
    }

    pub(crate) fn is_refused(&self) -> bool {
        matches!(self.answer, Answer::Refused(_))
    }

    /// What it is of, for people.
    pub(crate) fn label(&self) -> String {
        match &self.image {
            Some(image) => format!("{} ({image})", self.pod),
            None => self.pod.to_owned(),
        }
    }

    /// All of it, for people.
    pub(crate) fn text(&self) -> String {
        let label = self.label();
        match (&self.answer, &self.instead) {
            (Answer::Accepted, _) => format!("{label}: would be accepted, as far as a dry run tells"),
            (Answer::NotTried(why), _) => format!("{label}: not tried: {why}"),
            (Answer::Refused(words), Some(instead)) => format!("{label}: would be refused: {words}; then {instead}"),
            (Answer::Refused(words), None) => format!("{label}: would be refused: {words}"),
        }
    }
}

/// Tries the pods for this workload.
pub(crate) async fn run(
    client: &Client,
    snapshot: &Snapshot,
    workload: &Object,
    pods: &[&PodView],
) -> Vec<(Trial, Tried)> {
    let api: Api<Pod> = Api::namespaced(client.clone(), &workload.id.namespace);
    let writes = Writes::default();
    let mut all = Vec::new();
    for trial in trials(&snapshot.cluster, workload, pods) {
        let answer = ask(&workload.id.namespace, &trial, async |pod| {
            hitless_store::try_create(&writes, &api, "pods", &pod).await
        })
        .await;
        let tried = Tried::of(&trial, answer, workload);
        all.push((trial, tried));
    }
    all
}

/// The pods of a trial one after the other, until one is accepted.
async fn ask(namespace: &str, trial: &Trial, send: impl AsyncFn(Pod) -> Result<(), WriteError>) -> Answer {
    let mut last = Answer::NotTried("there is none".to_owned());
    for pod in &trial.pods {
        let Ok(pod) = serde_json::from_value(pod.clone()) else { continue };
        last = answer(namespace, send(pod).await);
        match &last {
            Answer::Refused(_) => {}
            Answer::Accepted | Answer::NotTried(_) => break,
        }
    }
    last
}

/// What an answer means.
fn answer(namespace: &str, said: Result<(), WriteError>) -> Answer {
    /// Words of the API server where RBAC says no, before any admission is asked (`forbiddenMessage` of apiserver's `responsewriters`).
    const NO_RIGHT: &str = "cannot create resource \"pods\"";
    /// Where a webhook has `sideEffects` (apiserver, `webhook/mutating`).
    const NO_DRY_RUN: &str = "does not support dry run";
    match said {
        Ok(()) => Answer::Accepted,
        Err(WriteError::Denied { message }) if message.contains(NO_RIGHT) => {
            Answer::NotTried(format!("you may not create pods in {namespace}"))
        }
        Err(error) => {
            let (WriteError::Denied { message }
            | WriteError::Invalid { message }
            | WriteError::Conflict { message }
            | WriteError::Gone { message }
            | WriteError::Transient { message, .. }) = &error;
            let words = one_line(message);
            if words.contains(NO_DRY_RUN) {
                return Answer::NotTried(format!(
                    "{words}; whether the pod is accepted shows when the controller makes it"
                ));
            }
            match error {
                WriteError::Denied { .. } | WriteError::Invalid { .. } => Answer::Refused(words),
                WriteError::Conflict { .. } | WriteError::Gone { .. } | WriteError::Transient { .. } => {
                    Answer::NotTried(words)
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
