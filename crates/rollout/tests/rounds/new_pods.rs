//! What new pods have and those that run have not: another one beside each of them, and pull secrets that their service account was given
//! later.

use std::sync::Arc;

use hitless_api::PullIdentity;
use hitless_rollout::mode::ServiceView;
use hitless_rollout::prefetch::{PrefetchState, PrefetchView, Pull};
use hitless_rollout::round::{PodVerdict, PrefetchWrite, Round, WaitReason, Write};
use hitless_rollout::snapshot::Snapshot;
use k8s_openapi::api::core::v1::{Pod, Service};
use serde_json::{Value, json};

use crate::agentless::lets_go;
use crate::blips::{Is, V1, rollout};
use crate::lost::daemon_set;
use crate::refusals::unfetched;
use crate::scene::decide;
use crate::stateful_set::granted;

/// A DaemonSet of two pods behind Services with these policies: a `Local` one sends what comes to a node to the pod of that node only.
fn behind(policies: &[&str], strategy: &Value) -> Snapshot {
    let service = |(index, policy): (usize, &&str)| {
        let spec = json!({"clusterIP": "10.0.0.1", "selector": {"app": "web"}, "internalTrafficPolicy": policy});
        let service = json!({"metadata": {"namespace": "shop", "name": format!("web-{index}")}, "spec": spec});
        Arc::new(ServiceView::from(&serde_json::from_value::<Service>(service).unwrap()))
    };
    let services = policies.iter().enumerate().map(service).collect();
    Snapshot { services, ..daemon_set(strategy, &[(V1, Is::Ready), (V1, Is::Ready)]) }
}

fn is_sent_natively(round: &Round) -> bool {
    let is_natively = |verdict: &PodVerdict| matches!(verdict.waiting, Some(WaitReason::Natively(_)));
    let is_written = round.steps.iter().any(|step| matches!(step.write, Write::Workload(_)));
    is_written && round.verdicts.iter().any(is_natively)
}

#[test]
fn a_daemon_set_that_starts_another_pod_beside_each_one_goes_natively_where_a_nodes_clients_would_be_refused() {
    let surging = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    for policies in [&["Local"][..], &["Cluster", "Local"]] {
        let beside = decide(&behind(policies, &surging));
        assert!(is_sent_natively(&beside) && granted(&beside).is_empty(), "{:?}", beside.verdicts);
        let words = beside.verdicts[0].text().unwrap();
        assert!(words.starts_with("no other pod serves all clients of its node, and in place new"), "{words}");
    }
    let others_serve = decide(&behind(&["Cluster"], &surging));
    assert!(!is_sent_natively(&others_serve) && !granted(&others_serve).is_empty(), "{:?}", others_serve.verdicts);

    // Natively the node's clients would be refused as well.
    for rolling in [Value::Null, json!({"maxSurge": 0, "maxUnavailable": 1})] {
        let after = decide(&behind(&["Local"], &json!({"type": "RollingUpdate", "rollingUpdate": rolling})));
        assert!(!is_sent_natively(&after), "{:?}", after.steps);
        assert!(
            matches!(after.verdicts[0].waiting, Some(WaitReason::ServicePublishing(_))),
            "it is going to be held: {:?}",
            after.verdicts
        );
    }
}

/// The prefetch pods of a round as the API server makes them, where the service account has these pull secrets by now.
fn admitted(snapshot: &Snapshot, secrets: &[&str]) -> Vec<Arc<PrefetchView>> {
    let creates = decide(snapshot);
    let pulls = creates.steps.iter().filter_map(|step| match &step.write {
        Write::Prefetch(PrefetchWrite::Create { pull, .. }) => Some(&**pull),
        _ => None,
    });
    let view = |pull: &Pull| {
        let secrets: Vec<Value> = secrets.iter().map(|name| json!({"name": name})).collect();
        let container = json!({"name": "image", "image": pull.image, "imagePullPolicy": pull.policy.name()});
        let pod = json!({"metadata": {"name": pull.pod_name(1), "namespace": pull.namespace, "uid": pull.pod_name(1),
                "labels": {"hitless.dev/prefetch": pull.key()}, "annotations": {"hitless.dev/image": pull.image}},
            "spec": {"nodeName": pull.node, "serviceAccountName": "default", "imagePullSecrets": secrets, "containers": [container]}});
        Arc::new(PrefetchView::of(&serde_json::from_value::<Pod>(pod).unwrap()).unwrap())
    };
    pulls.map(view).collect()
}

#[test]
fn pods_that_were_made_before_their_service_account_had_a_pull_secret_are_made_anew() {
    let before = unfetched();
    let with = |secrets: &[&str]| {
        let prefetches = admitted(&before, secrets);
        assert!(!prefetches.is_empty());
        decide(&Snapshot { prefetches, ..before.clone() })
    };
    assert!(!lets_go(&with(&[])), "they are waited for");
    let round = with(&["registry"]);
    assert!(lets_go(&round) && granted(&round).is_empty(), "{:?}", round.verdicts);
    let told = round.steps.iter().find_map(|step| step.done.as_ref()).unwrap();
    assert!(told.text.contains("before its service account had the pull secret registry"), "{}", told.text);

    // One that has it pulls with it.
    let prefetches = admitted(&before, &["registry"]);
    assert!(!lets_go(&decide(&Snapshot { prefetches, ..with_secret(before, "registry") })));
}

/// Pods that were made when their service account had this pull secret.
fn with_secret(snapshot: Snapshot, name: &str) -> Snapshot {
    let mut pods = snapshot.pods.clone();
    for pod in &mut pods {
        Arc::make_mut(pod).pull_identity = PullIdentity { service_account: None, secrets: vec![name.to_owned()] };
    }
    snapshot.with_pods(pods)
}

/// The image is on the node, where the kubelet lets nobody have it who could not have pulled it.
#[test]
fn pods_whose_pull_secrets_do_not_count_any_more_are_made_anew_and_none_is_taken_out_before_that_is_known() {
    let there = rollout([(V1, Is::Ready), (V1, Is::Ready), (V1, Is::Ready)]);
    assert!(!granted(&decide(&there)).is_empty() && admitted(&there, &[]).is_empty(), "anybody may have it");
    let before = with_secret(there, "old");
    assert!(granted(&decide(&before)).is_empty());
    let refused = |attempt: u32, words: &str| {
        let failed = PrefetchState::Failed { reason: "ErrImagePull".to_owned(), message: words.to_owned() };
        let prefetches = admitted(&before, &["old"]).into_iter().map(|prefetch| {
            Arc::new(PrefetchView { attempt, state: failed.clone(), ..PrefetchView::clone(&prefetch) })
        });
        decide(&Snapshot { prefetches: prefetches.collect(), ..before.clone() })
    };
    assert!(!lets_go(&refused(1, "401 unauthorized")), "it may be the registry's moment");
    assert!(!lets_go(&refused(2, "manifest unknown")), "a new pod would not have it either");
    let round = refused(2, "401 unauthorized");
    assert!(lets_go(&round) && granted(&round).is_empty(), "{:?}", round.verdicts);
}
