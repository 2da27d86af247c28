//! `kubectl hitless cleanup`: what hitless has left behind where no controller runs any more, and how it is put back with the user's
//! own rights. What that is decides the code that the controller's own uninstall runs.

use std::time::Duration;

use hitless_api::names::{CONTROLLER, SYSTEM_NAMESPACE};
use hitless_runtime::write::Writes;
use hitless_store::restore::{Found, Passed, Restore, Restorer};
use hitless_workloads::Component;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use tokio::time::timeout;

use crate::failure::Failure;
use crate::output::remark;
use crate::say;
use crate::source::Scope;

/// A companion pod may have to serve for a while; as long as the controller's own uninstall.
const LONGEST: Duration = Duration::from_secs(45);
/// A leader that has not renewed its Lease for so long has ended: the Lease's own duration, and as much for clocks that differ.
const LEADS_FOR: SignedDuration = SignedDuration::from_secs(30);

pub(crate) async fn run(client: Client, scope: &Scope, yes: bool) -> Result<(), Failure> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), SYSTEM_NAMESPACE);
    let lease = Writes::read(leases.get_opt(CONTROLLER)).await;
    let lease =
        lease.map_err(|error| Failure::of("see whether a controller runs (its Lease in hitless-system)", error))?;
    let leader = lease.as_ref().and_then(|lease| leader(lease, Timestamp::now()));
    let restorer = Restorer::new(client, vec![Component::Base, Component::KusionStack], Writes::default());
    let restorer = match scope {
        Scope::All => restorer,
        Scope::Namespace(namespace) => restorer.only_in(namespace.clone()),
    };
    if let Some(leader) = leader {
        return Err(Failure::Failed(format!(
            "the controller {leader} runs and looks after all this: it would hold again what is let go. It puts everything back by \
             itself when hitless is uninstalled (kubectl delete -k manifests); one workload is let go by: kubectl annotate KIND/NAME \
             hitless.dev/update-"
        )));
    }
    if yes {
        // Whether that was enough says the look after it.
        let _ = timeout(LONGEST, restorer.until_quiet(tell)).await;
    }
    ended(&restorer.look().await, yes)
}

/// Who leads, if anybody does.
fn leader(lease: &Lease, now: Timestamp) -> Option<&str> {
    let spec = lease.spec.as_ref()?;
    let holder = spec.holder_identity.as_deref().filter(|holder| !holder.is_empty())?;
    let renewed = spec.renew_time.as_ref()?.0;
    (now.duration_since(renewed) < LEADS_FOR).then_some(holder)
}

fn tell(passed: &Passed) {
    for restore in &passed.changed {
        // A terminal that is gone is no reason to leave a pod out of service.
        let _ = say(&restore.to_string());
    }
}

/// What is left, and what to do about it.
fn ended(found: &Found, tried: bool) -> Result<(), Failure> {
    for restore in &found.wanted {
        say(&restore.to_string())?;
    }
    for (pod, why) in &found.waiting {
        say(&format!("Pod {}/{} (companion): stays for now, {why}", pod.namespace, pod.name))?;
    }
    for error in &found.failed {
        remark(&format!("note: {error}"));
    }
    let left = found.wanted.len() + found.waiting.len();
    let failed = if found.failed.is_empty() { "" } else { " Not everything could be read, see the notes above." };
    match (left, tried) {
        (0, _) if found.failed.is_empty() => say("nothing is left of hitless here"),
        (0, _) => Err(Failure::Failed(format!("nothing was found.{failed}"))),
        (left, false) => Err(Failure::Failed(format!(
            "{left} to put back; what is held goes on natively then. Do it with: kubectl hitless cleanup --yes.{failed}"
        ))),
        (left, true) => Err(Failure::Failed(format!("{left} could not be put back.{}{failed}", hint(&found.wanted)))),
    }
}

/// Why writes that were accepted had no effect.
fn hint(left: &[Restore]) -> &'static str {
    if left.iter().any(|restore| matches!(restore, Restore::Workload(_))) {
        " While the guard is installed only the uninstall's account may let a workload go: remove the guard (kubectl delete \
         mutatingadmissionpolicybindings,validatingadmissionpolicybindings -l hitless.dev/guard), or act as that account (--as \
         system:serviceaccount:hitless-system:hitless-uninstall)."
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hitless_api::PodRef;
    use serde_json::json;

    fn lease(spec: &serde_json::Value) -> Lease {
        serde_json::from_value(json!({"metadata": {"name": CONTROLLER}, "spec": spec})).unwrap()
    }

    #[test]
    fn who_has_renewed_a_moment_ago_leads() {
        let at = |renewed: &str, holder: &str| {
            let lease = lease(&json!({"holderIdentity": holder, "renewTime": renewed}));
            leader(&lease, "2026-01-01T00:01:00Z".parse().unwrap()).map(str::to_owned)
        };
        assert_eq!(at("2026-01-01T00:00:50.000000Z", "a"), Some("a".to_owned()));
        assert_eq!(at("2026-01-01T00:00:30.000000Z", "a"), None, "it has ended");
        assert_eq!(at("2026-01-01T00:00:50.000000Z", ""), None, "it has given the Lease back");
        assert_eq!(leader(&lease(&json!({})), Timestamp::UNIX_EPOCH), None);
    }

    #[test]
    fn what_is_left_is_an_error_with_the_way_out() {
        assert!(ended(&Found::default(), true).is_ok());
        let pod = PodRef { namespace: "a".into(), name: "p".into(), uid: "u".into() };
        let found = Found { wanted: vec![Restore::Raise { pod, resource_version: "1".into() }], ..Found::default() };
        let words = |tried| ended(&found, tried).unwrap_err().to_string();
        assert!(
            words(false).starts_with("1 to put back") && words(false).contains("cleanup --yes"),
            "{}",
            words(false)
        );
        assert_eq!(words(true), "1 could not be put back.");
    }
}
