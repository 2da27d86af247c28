//! `kubectl hitless why`: what every rule says of a pod, and what else is in the way.

mod answer;
mod text;

use jiff::Timestamp;
use kube::Client;

use crate::args::{Format, Named, TargetKind, WhyArgs};
use crate::failure::Failure;
use crate::say;
use crate::snapshot::Snapshot;
use crate::source::{self, Scope};
use answer::{Answer, Blocked};

pub(crate) async fn run(client: Client, namespace: String, arguments: &WhyArgs) -> Result<(), Failure> {
    let snapshot = source::read_with_modes(&client, &Scope::Namespace(namespace.clone())).await?;
    let answer = explain(&snapshot, &namespace, &arguments.target, Timestamp::now())?;
    match arguments.output {
        Format::Text => say(text::render(&answer).trim_end())?,
        Format::Json => say(&serde_json::to_string_pretty(&answer).map_err(std::io::Error::from)?)?,
    }
    match answer.blocked() {
        Blocked::No => Ok(()),
        Blocked::ByRule(pod) => Err(Failure::Blocked(format!("a rule is in the way of pod {pod}"))),
        Blocked::Otherwise(pod) => Err(Failure::Failed(format!("something is in the way of pod {pod}"))),
    }
}

fn explain(snapshot: &Snapshot, namespace: &str, target: &Named, now: Timestamp) -> Result<Answer, Failure> {
    let Named { kind, name } = target;
    let is_deployment = snapshot.deployments.iter().any(|each| each.name == *name && each.namespace == *namespace);
    let is_pod = snapshot.pods.iter().any(|pod| pod.id.name == *name && pod.id.namespace == *namespace);
    match kind {
        None | Some(TargetKind::Deployment) if is_deployment => Ok(Answer::of_deployment(snapshot, name, now)),
        None | Some(TargetKind::Pod) if is_pod => Ok(Answer::of_pod(snapshot, name, now)),
        _ => {
            let what = match kind {
                None => format!("neither deployment/{name} nor pod/{name} exists"),
                Some(TargetKind::Deployment) => format!("deployment/{name} does not exist"),
                Some(TargetKind::Pod) => format!("pod/{name} does not exist"),
            };
            Err(Failure::NotFound(format!("{what} in namespace {namespace}; is -n the right one?")))
        }
    }
}

#[cfg(test)]
mod tests;
