//! `kubectl hitless cleanup`: what hitless has left behind where no controller runs any more, and how it is put back with the user's
//! own rights. What that is decides the code that the controller's own uninstall runs.

mod guard;

use std::collections::BTreeSet;
use std::time::Duration;

use hitless_api::names::{APP_LABEL, CONTROLLER, system_namespace};
use hitless_api::pod::PodView;
use hitless_runtime::list;
use hitless_runtime::write::{WriteError, Writes};
use hitless_store::restore::{Found, Passed, Restore, Restorer};
use hitless_workloads::{COMPONENTS, Component, Resource, registry};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client};
use tokio::time::timeout;

use crate::failure::Failure;
use crate::output::remark;
use crate::say;
use crate::source::{self, Scope};
use guard::Guard;

/// A companion pod may have to serve for a while; as long as the controller's own uninstall.
const LONGEST: Duration = Duration::from_secs(45);

pub(crate) async fn run(client: Client, scope: &Scope, yes: bool) -> Result<(), Failure> {
    if let Some(controller) = controller(&client).await? {
        return Err(Failure::Failed(format!(
            "{controller} runs and looks after all this: it would hold again what is let go. It puts everything back by itself when \
             hitless is uninstalled (kubectl delete -k manifests); one workload is let go by: kubectl annotate KIND/NAME \
             hitless.dev/update-. One that never gets ready is stopped by: kubectl -n {} scale deployment {CONTROLLER} \
             --replicas=0",
            system_namespace()
        )));
    }
    let restorer = Restorer::new(client.clone(), components(&client).await?, Writes::default());
    let restorer = match scope {
        Scope::All => restorer,
        Scope::Namespace(namespace) => restorer.only_in(namespace.clone()),
    };
    let found = restorer.look().await;
    if let (Scope::Namespace(namespace), true) = (scope, found.wanted.is_empty() && found.waiting.is_empty()) {
        source::namespace_exists(&client, namespace).await?;
    }
    let guard = guard::in_the_way(&client, &found.wanted).await?;
    if !yes {
        return match guard {
            Some(guard) => Err(refused(&found, scope, &guard, "nothing was changed")?),
            None => ended(&found, scope, None),
        };
    }
    // Half of a workload would stay. Pods and Services have nothing to do with the guard.
    let restorer = if guard.is_some() { restorer.leaving_workloads() } else { restorer };
    let mut told = Told::default();
    // Whether that was enough says the look after it.
    let _ = timeout(LONGEST, restorer.until_quiet(|passed| told.tell(passed))).await;
    let left = restorer.look().await;
    match guard {
        Some(guard) => Err(refused(&left, scope, &guard, "no held workload was changed")?),
        None => ended(&left, scope, Some(&told.failed)),
    }
}

/// A controller that runs, or is meant to. Its Lease is not asked: it may have another name, and its times are another clock's.
async fn controller(client: &Client) -> Result<Option<String>, Failure> {
    let what = || format!("see whether a controller runs in namespace {}", system_namespace());
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), system_namespace());
    let deployment = Writes::read(deployments.get_opt(CONTROLLER)).await.map_err(|error| Failure::of(what(), error))?;
    let is_meant = |deployment: &Deployment| {
        let replicas = deployment.spec.as_ref().and_then(|spec| spec.replicas);
        deployment.metadata.deletion_timestamp.is_none() && replicas != Some(0)
    };
    if deployment.as_ref().is_some_and(is_meant) {
        return Ok(Some(format!("Deployment {}/{CONTROLLER}", system_namespace())));
    }
    let pods: Api<Pod> = Api::namespaced(client.clone(), system_namespace());
    let of_controller = ListParams::default().labels(&format!("{APP_LABEL}={CONTROLLER}"));
    let pods = list::all(&pods, of_controller, |pod| Some(PodView::from(&pod))).await;
    let pods = pods.map_err(|error| Failure::of(what(), error))?;
    let running = pods.into_iter().find(|pod| !pod.finished);
    Ok(running.map(|pod| format!("pod {}/{}", system_namespace(), pod.id.name)))
}

/// Those whose kinds the API server has: of others it says that they may not be read to whoever may not.
async fn components(client: &Client) -> Result<Vec<&'static Component>, Failure> {
    let mut served = Vec::new();
    for component in COMPONENTS {
        let mut resources = registry::resources()
            .filter(|(holder, resource)| holder.component() == Some(component) && resource.optional);
        let Some((_, first)) = resources.next() else { continue };
        if is_served(client, first).await? {
            served.push(component);
        }
    }
    Ok(served)
}

async fn is_served(client: &Client, resource: &Resource) -> Result<bool, Failure> {
    let group = resource.api_version();
    match Writes::read(client.list_api_group_resources(&group)).await {
        Ok(served) => Ok(served.resources.iter().any(|each| each.name == resource.plural)),
        Err(WriteError::Gone { .. }) => Ok(false),
        Err(error) => Err(Failure::of(format!("see what the API server has of {group}"), error)),
    }
}

/// What was said so far: a write that is taken back comes again.
#[derive(Default)]
struct Told {
    lines: BTreeSet<String>,
    /// Why the last pass could not do something.
    failed: Vec<String>,
}

impl Told {
    fn tell(&mut self, passed: &Passed) {
        for restore in &passed.changed {
            let line = restore.to_string();
            if !self.lines.contains(&line) {
                // A terminal that is gone is no reason to leave a pod out of service.
                let _ = say(&line);
                self.lines.insert(line);
            }
        }
        self.failed = passed.failed.iter().map(ToString::to_string).collect();
    }
}

fn list(found: &Found) -> Result<(), Failure> {
    for restore in &found.wanted {
        say(&restore.to_string())?;
    }
    for (pod, why) in &found.waiting {
        say(&format!("Pod {}/{} (companion): stays for now, {why}", pod.namespace, pod.name))?;
    }
    Ok(())
}

/// The command that puts it back.
fn command(scope: &Scope) -> String {
    match scope {
        Scope::All => "kubectl hitless cleanup -A --yes".to_owned(),
        Scope::Namespace(namespace) => format!("kubectl hitless cleanup -n {namespace} --yes"),
    }
}

/// What there is to put back, and what to do before.
fn refused(found: &Found, scope: &Scope, guard: &Guard, changed: &str) -> Result<Failure, Failure> {
    list(found)?;
    for error in &found.failed {
        remark(&format!("note: {error}"));
    }
    let left = found.wanted.len() + found.waiting.len();
    Ok(Failure::Failed(format!("{left} to put back, and {changed}: {guard}. Then: {}", command(scope))))
}

/// What is left, and what to do about it. `failed`: why the last pass could not do something, if there was one.
fn ended(found: &Found, scope: &Scope, failed: Option<&Vec<String>>) -> Result<(), Failure> {
    list(found)?;
    let unread = found.failed.iter().map(ToString::to_string);
    let notes: BTreeSet<String> = unread.chain(failed.into_iter().flatten().cloned()).collect();
    for note in &notes {
        remark(&format!("note: {note}"));
    }
    let left = found.wanted.len() + found.waiting.len();
    let also = if notes.is_empty() { "" } else { " See the notes above." };
    match (left, failed) {
        (0, _) if found.failed.is_empty() => say("nothing is left of hitless here"),
        (0, _) => Err(Failure::Failed(format!("nothing was found, but not everything could be read.{also}"))),
        (left, None) => Err(Failure::Failed(format!(
            "{left} to put back; what is held goes on natively then. Do it with: {}.{also}",
            command(scope)
        ))),
        (left, Some(_)) => Err(Failure::Failed(format!("{left} could not be put back.{}{also}", hint(&found.wanted)))),
    }
}

/// Why writes that were accepted may have had no effect, where nobody could look whether the guard is there.
fn hint(left: &[Restore]) -> String {
    if left.iter().any(guard::holds) { format!(" Maybe {}.", Guard::of_any_kind()) } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hitless_api::PodRef;

    #[test]
    fn what_is_left_is_an_error_with_the_way_out() {
        let scope = Scope::Namespace("a".to_owned());
        assert!(ended(&Found::default(), &scope, Some(&Vec::new())).is_ok());
        let pod = PodRef { namespace: "a".into(), name: "p".into(), uid: "u".into() };
        let found = Found { wanted: vec![Restore::Raise { pod, resource_version: "1".into() }], ..Found::default() };
        let words = |failed| ended(&found, &scope, failed).unwrap_err().to_string();
        let hint = words(None);
        assert!(hint.starts_with("1 to put back") && hint.contains("cleanup -n a --yes"), "{hint}");
        let (nothing, denied) = (Vec::new(), vec!["Pod a/p: back in service: denied: no".to_owned()]);
        assert_eq!(words(Some(&nothing)), "1 could not be put back.");
        assert_eq!(words(Some(&denied)), "1 could not be put back. See the notes above.");
    }
}
