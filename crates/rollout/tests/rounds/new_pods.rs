//! What new pods have and those that run have not: another one beside each of them, and pull secrets that their service account was given
//! later.

use std::sync::Arc;

use hitless_api::PullIdentity;
use hitless_rollout::mode::ServiceView;
use hitless_rollout::prefetch::{PrefetchState, PrefetchView};
use hitless_rollout::round::{Round, WaitReason};
use hitless_rollout::snapshot::Snapshot;
use hitless_workloads::{Request, Write};
use k8s_openapi::api::core::v1::{Pod, Service};
use serde_json::{Value, json};

use crate::blips::{Is, V1, rollout};
use crate::lost::daemon_set;
use crate::refusals::unfetched;
use crate::scene::{decide, written};
use crate::stateful_set::granted;
use crate::unfit;

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
    round.steps.iter().any(|step| format!("{:?}", step.write).contains("hitless.dev~1way"))
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

/// The prefetch pods that a round makes, by how the API server makes them: those that ask for no pull secret are given these.
fn admitted(round: &Round, given: &[&str]) -> Vec<Arc<PrefetchView>> {
    let admit = |write: &Write| {
        let Request::Create(mut pod) = write.request.clone() else { panic!("{write:?}") };
        pod["metadata"]["uid"] = pod["metadata"]["name"].clone();
        let spec = &mut pod["spec"];
        spec["serviceAccountName"] = json!("default");
        if spec["imagePullSecrets"].is_null() {
            spec["imagePullSecrets"] = given.iter().map(|name| json!({"name": name})).collect();
        }
        // Another plugin of admission wants the registry to be asked each time.
        spec["containers"][0]["imagePullPolicy"] = json!("Always");
        Arc::new(PrefetchView::of(&serde_json::from_value::<Pod>(pod).unwrap()).unwrap())
    };
    written(round, "prefetch").into_iter().map(admit).collect()
}

fn with_prefetches(snapshot: &Snapshot, prefetches: Vec<Arc<PrefetchView>>) -> Snapshot {
    Snapshot { prefetches, ..snapshot.clone() }
}

fn deletes_prefetch_pods(round: &Round) -> bool {
    written(round, "prefetch").iter().any(|write| matches!(write.request, Request::Delete(_)))
}

pub(crate) fn waits(round: &Round) -> Vec<&str> {
    round.verdicts.iter().filter_map(|verdict| Some(verdict.waiting.as_ref()?.reason())).collect()
}

/// Pods that were made when their service account had this pull secret.
fn with_secret(snapshot: &Snapshot, name: &str) -> Snapshot {
    let mut pods = snapshot.pods.clone();
    for pod in &mut pods {
        Arc::make_mut(pod).pull_identity = PullIdentity { service_account: None, secrets: vec![name.to_owned()] };
    }
    snapshot.clone().with_pods(pods)
}

#[test]
fn pods_that_were_made_before_their_service_account_had_a_pull_secret_are_made_anew() {
    let before = unfetched();
    let created = decide(&before);
    let with = |snapshot: &Snapshot, given: &[&str]| {
        let prefetches = admitted(&created, given);
        assert!(!prefetches.is_empty());
        decide(&with_prefetches(snapshot, prefetches))
    };
    assert!(!is_sent_natively(&with(&before, &[])), "they are waited for");
    let round = with(&before, &["registry"]);
    assert!(is_sent_natively(&round) && granted(&round).is_empty(), "{:?}", round.verdicts);
    let words = round.verdicts.iter().find_map(|verdict| verdict.text().filter(|text| text.contains("registry")));
    assert!(words.unwrap().contains("was made before its service account had pull secrets (registry); make new pods"));

    // Where its owner lets no pod be made anew it stays, and so does what shows it.
    let only = unfit::with(before.clone(), "hitless.dev/update", "in-place-only");
    let round = with(&only, &["registry"]);
    assert!(!is_sent_natively(&round) && granted(&round).is_empty() && !deletes_prefetch_pods(&round));
    assert!(waits(&round).contains(&"PullSecretsChanged"), "{:?}", round.verdicts);

    // One that has it pulls with it.
    let has_it = with_secret(&before, "registry");
    assert!(!is_sent_natively(&decide(&with_prefetches(&has_it, admitted(&created, &["registry"])))));
}

/// The image is on the node, where the kubelet lets nobody have it who could not have pulled it.
#[test]
fn pods_whose_pull_secrets_do_not_count_any_more_are_made_anew_only_where_new_pods_have_others() {
    let there = rollout([(V1, Is::Ready), (V1, Is::Ready), (V1, Is::Ready)]);
    assert!(!granted(&decide(&there)).is_empty() && admitted(&decide(&there), &[]).is_empty(), "anybody may have it");
    let before = with_secret(&there, "old");
    let first = decide(&before);
    assert!(granted(&first).is_empty());
    let failed = |attempt: u32, words: &str| -> Vec<Arc<PrefetchView>> {
        let state = PrefetchState::Failed { reason: "ErrImagePull".to_owned(), message: words.to_owned() };
        let fails = |prefetch: Arc<PrefetchView>| {
            Arc::new(PrefetchView { attempt, state: state.clone(), ..PrefetchView::clone(&prefetch) })
        };
        admitted(&first, &[]).into_iter().map(fails).collect()
    };
    for (attempt, words) in [(1, "401 Unauthorized"), (2, "manifest unknown")] {
        let round = decide(&with_prefetches(&before, failed(attempt, words)));
        let others = admitted(&round, &["new"]);
        assert!(others.iter().all(|prefetch| prefetch.given.is_none()), "{words}: nothing is to be shown");
    }
    // A registry says so of an image that is not there, too: what new pods would have is looked at first.
    let refused = failed(2, "401 Unauthorized");
    let looks = decide(&with_prefetches(&before, refused.clone()));
    assert!(!is_sent_natively(&looks) && granted(&looks).is_empty());
    let shown = |given: &[&str]| {
        let others = admitted(&looks, given).into_iter().filter(|prefetch| prefetch.given.is_some());
        let round = decide(&with_prefetches(&before, refused.iter().cloned().chain(others).collect()));
        assert!(granted(&round).is_empty() && !deletes_prefetch_pods(&round), "{:?}", round.verdicts);
        is_sent_natively(&round)
    };
    assert!(shown(&["new"]));
    assert!(!shown(&["old"]), "a new pod could not pull it either");
}

#[test]
fn where_nobody_can_fetch_it_an_image_that_is_there_is_good_enough() {
    let before = with_secret(&rollout([(V1, Is::Ready), (V1, Is::Ready), (V1, Is::Ready)]), "old");
    let first = decide(&before);
    let state = PrefetchState::Rejected { reason: "OutOfpods".to_owned(), message: "Node has no room".to_owned() };
    let full = |prefetch: Arc<PrefetchView>| {
        Arc::new(PrefetchView { attempt: 2, state: state.clone(), ..PrefetchView::clone(&prefetch) })
    };
    let full = admitted(&first, &[]).into_iter().map(full).collect();
    let granted = granted(&decide(&with_prefetches(&before, full)));
    assert!(!granted.is_empty() && granted.iter().all(|grant| !grant.unfetched), "{granted:?}");
}
