//! What the provider does, in sentences.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use hitless_balancer::alibaba::Credentials;
use hitless_balancer::{
    Evidence, Last, Observation, Owner, PodName, PoolName, Provider, ProviderError, Reason, Round, Server, ServerState,
    Stand, Wanted, Weight, evidence, observe, round,
};

use crate::cloud::{Cloud, Trouble, pool};
use crate::group::Backend;
use crate::signature::KEY_ID;

const OUT: Stand = Stand::Out(Last::Keep);

fn address(number: u8) -> SocketAddr {
    ([10, 0, 0, number], 8080).into()
}

fn wanted(number: u8, stand: Stand) -> Wanted {
    let pod = PodName { namespace: "shop".into(), name: format!("web-{number}") };
    Wanted { pod, address: address(number), weight: Weight::new(10).unwrap(), stand }
}

fn proof(number: u8, observation: &Observation) -> Evidence {
    evidence(address(number), observation, Instant::now())
}

/// Rounds until none has anything to do and nothing changes any more.
async fn settle(cloud: &Cloud, wanted: &[Wanted]) -> Round {
    loop {
        let round = round(&cloud.nlb(), &pool(), wanted).await;
        assert!(round.failed.is_empty(), "{:?}", round.failed);
        let servers = round.observation.servers(Instant::now()).unwrap();
        let busy = |server: &Server| matches!(server.state, ServerState::Changing | ServerState::Leaving);
        if round.plan.steps.is_empty() && !servers.iter().any(busy) {
            return round;
        }
    }
}

async fn refusal(status: u16, code: &'static str) -> ProviderError {
    let cloud = Cloud::start().await;
    cloud.account().troubles.push_back(Trouble::Refused(status, code));
    cloud.nlb().register(&pool(), address(1), Weight::ONE).await.unwrap_err()
}

fn of_others(number: u8) -> Backend {
    let ip = address(number).ip().to_string();
    Backend {
        id: format!("eni-bp67acfmxazb{number}"),
        ip,
        kind: "Eni".into(),
        port: 8080,
        weight: 100,
        description: "k8s.80.web.shop".into(),
        status: "Available",
    }
}

fn put(cloud: &Cloud, backend: Backend) {
    cloud.account().group.servers.insert((backend.ip.clone(), backend.port), backend);
}

#[tokio::test]
async fn a_pod_is_added_by_its_address_and_serves_when_the_api_says_so() {
    let cloud = Cloud::start().await;
    let first = round(&cloud.nlb(), &pool(), &[wanted(1, Stand::In)]).await;
    assert_eq!(proof(1, &first.observation), Evidence::Changing);
    let settled = settle(&cloud, &[wanted(1, Stand::In)]).await;
    assert_eq!(proof(1, &settled.observation), Evidence::Serving);
    let added = cloud.account().group.servers[&("10.0.0.1".into(), 8080)].clone();
    let expected = Backend {
        id: "10.0.0.1".into(),
        ip: "10.0.0.1".into(),
        kind: "Ip".into(),
        port: 8080,
        weight: 10,
        description: "hitless_10.0.0.1_8080".into(),
        status: "Available",
    };
    assert_eq!(added, expected);
}

#[tokio::test]
async fn a_pod_that_leaves_gets_weight_0_and_is_out_when_it_is_no_longer_listed() {
    let cloud = Cloud::start().await;
    settle(&cloud, &[wanted(1, Stand::In), wanted(2, Stand::In)]).await;
    let leave = [wanted(1, OUT), wanted(2, Stand::In)];
    let mut seen = Vec::new();
    while seen.last() != Some(&Evidence::NotRegistered) {
        let round = round(&cloud.nlb(), &pool(), &leave).await;
        assert!(round.failed.is_empty(), "{:?}", round.failed);
        seen.push(proof(1, &round.observation));
    }
    assert!(seen.contains(&Evidence::Draining { sessions: None }) && !seen.contains(&Evidence::Out), "{seen:?}");
    let back = settle(&cloud, &[wanted(1, Stand::In), wanted(2, Stand::In)]).await;
    assert_eq!(proof(1, &back.observation), Evidence::Serving);
}

#[tokio::test]
async fn what_others_have_added_is_never_changed_or_removed() {
    let cloud = Cloud::start().await;
    put(&cloud, of_others(1));
    // A description that was copied from a server of ours does not make it ours.
    put(&cloud, Backend { description: "hitless_10.0.0.1_8080".into(), ..of_others(2) });
    let before = cloud.account().group.servers.clone();
    let take = Stand::Gone(Last::Take);
    let settled = settle(&cloud, &[wanted(1, take), wanted(2, take)]).await;
    assert!(settled.plan.kept.len() == 2 && settled.plan.kept.iter().all(|kept| kept.reason == Reason::NotOurs));
    assert_eq!(cloud.account().group.servers, before);
    assert!(cloud.nlb().read(&pool()).await.unwrap().iter().all(|server| server.owner == Owner::Others));
}

#[tokio::test]
async fn all_pages_are_read() {
    let cloud = Cloud::start().await;
    (1..=250).for_each(|number| put(&cloud, of_others(number)));
    assert_eq!(cloud.nlb().read(&pool()).await.unwrap().len(), 250);
}

#[tokio::test]
async fn a_list_that_changes_between_two_pages_is_void() {
    let cloud = Cloud::start().await;
    (1..=101).for_each(|number| put(&cloud, of_others(number)));
    // Shown on the last page, and gone when the pages are read again.
    put(&cloud, Backend { status: "Removing", ..of_others(250) });
    assert!(matches!(cloud.nlb().read(&pool()).await, Err(ProviderError::Changed { .. })));
}

#[tokio::test]
async fn throttled_requests_are_repeated_with_new_nonces_and_the_same_client_token() {
    let cloud = Cloud::start().await;
    let throttled = ["Throttling", "Throttling.User", "Throttling.Api"].map(|code| Trouble::Refused(400, code));
    cloud.account().troubles.extend(throttled);
    cloud.nlb().register(&pool(), address(1), Weight::ONE).await.unwrap();
    let account = cloud.account();
    let tokens: Vec<&String> = account.requests.iter().map(|(_, given)| &given["ClientToken"]).collect();
    assert_eq!(tokens.len(), 4);
    assert!(tokens.iter().all(|token| *token == tokens[0]));
}

#[tokio::test]
async fn patience_ends() {
    let cloud = Cloud::start().await;
    cloud.account().troubles.extend(vec![Trouble::Refused(400, "Throttling.User"); 9]);
    let error = cloud.nlb().read(&pool()).await.unwrap_err();
    assert!(matches!(&error, ProviderError::Refused { answer, .. } if answer.contains("Throttling.User")), "{error}");
    assert_eq!(cloud.account().requests.len(), 4);
}

#[tokio::test]
async fn a_request_whose_answer_was_lost_is_done_once() {
    let cloud = Cloud::start().await;
    cloud.account().troubles.push_back(Trouble::DoneAndRefused(503, "ServiceUnavailable"));
    cloud.nlb().register(&pool(), address(1), Weight::ONE).await.unwrap();
    let account = cloud.account();
    assert_eq!((account.requests.len(), account.group.servers.len()), (2, 1));
}

#[tokio::test]
async fn wrong_credentials_are_told_and_not_tried_again() {
    let cloud = Cloud::start().await;
    for credentials in [Credentials::new(KEY_ID, "wrong"), Credentials::new("wrong", "wrong")] {
        let error = cloud.nlb_as(credentials, Duration::from_mins(1)).read(&pool()).await.unwrap_err();
        assert!(matches!(error, ProviderError::Denied { .. }) && error.to_string().contains("access key"), "{error}");
    }
    assert_eq!(cloud.account().requests.len(), 0);
}

#[tokio::test]
async fn a_temporary_key_sends_its_token_signed() {
    let cloud = Cloud::start().await;
    let credentials = Credentials::new(KEY_ID, crate::signature::SECRET).with_token("token");
    assert_eq!(cloud.nlb_as(credentials, Duration::from_mins(1)).read(&pool()).await.unwrap(), []);
}

#[tokio::test]
async fn each_documented_refusal_is_an_error_of_its_own() {
    assert!(matches!(refusal(404, "ResourceNotFound.serverGroup").await, ProviderError::NoPool(_)));
    assert!(matches!(refusal(404, "ResourceNotFound.BackendServer").await, ProviderError::NoServer { .. }));
    assert!(matches!(refusal(400, "ResourceAlreadyExist.BackendServer").await, ProviderError::Exists { .. }));
    for code in ["Conflict.Lock", "IncorrectStatus.serverGroup", "OperationFailed.ResourceIsConfiguring"] {
        assert!(matches!(refusal(400, code).await, ProviderError::Busy { .. }), "{code}");
    }
    let denied = refusal(403, "Forbidden.NoPermission").await;
    assert!(denied.to_string().contains("nlb:AddServersToServerGroup"), "{denied}");
    assert!(matches!(refusal(400, "QuotaExceeded.Servers").await, ProviderError::Refused { .. }));
}

#[tokio::test]
async fn a_server_group_that_is_not_there_is_named() {
    let cloud = Cloud::start().await;
    let other = PoolName::new("sgp-other").unwrap();
    let error = cloud.nlb().read(&other).await.unwrap_err();
    assert!(matches!(&error, ProviderError::NoPool(pool) if *pool == other), "{error}");
}

#[tokio::test]
async fn an_api_that_is_away_or_silent_leads_to_no_step_and_proves_nothing() {
    let cloud = Cloud::start().await;
    settle(&cloud, &[wanted(1, Stand::In)]).await;
    let hasty = cloud.nlb_as(Credentials::new(KEY_ID, crate::signature::SECRET), Duration::from_millis(50));
    cloud.account().troubles.push_back(Trouble::Silent);
    assert!(matches!(hasty.read(&pool()).await, Err(ProviderError::TimedOut { .. })));
    cloud.stop();
    let gone = [wanted(1, Stand::Gone(Last::Take))];
    let round = round(&hasty, &pool(), &gone).await;
    assert_eq!(round.plan.steps, []);
    assert!(matches!(proof(1, &round.observation), Evidence::Unknown(_)));
}

#[tokio::test]
async fn an_answer_that_is_not_as_documented_is_not_guessed() {
    let server = r#"{"ServerId":"i-1","ServerIp":"10.0.0.1","Port":80,"Weight":1,"Status":"Sleeping"}"#;
    for answer in [
        String::new(),
        "<html>".into(),
        "{}".into(),
        format!(r#"{{"Servers":[{server}]}}"#),
        format!(r#"{{"Servers":[{}]}}"#, server.replace("Sleeping", "Available").replace("i-1", "i 1")),
        format!(r#"{{"Servers":[{}]}}"#, server.replace("Sleeping", "Available").replace(":80", ":80000")),
    ] {
        let cloud = Cloud::start().await;
        cloud.account().troubles.push_back(Trouble::Answered(answer.clone()));
        let read = cloud.nlb().read(&pool()).await;
        assert!(matches!(read, Err(ProviderError::Unexpected { .. })), "{answer:?}: {read:?}");
    }
    let cloud = Cloud::start().await;
    cloud.account().troubles.push_back(Trouble::Answered(" ".repeat(2 << 20)));
    assert!(matches!(cloud.nlb().read(&pool()).await, Err(ProviderError::TooLong { .. })));
}

#[tokio::test]
async fn pages_without_end_are_given_up() {
    let cloud = Cloud::start().await;
    let page = r#"{"Servers":[],"NextToken":"again"}"#;
    cloud.account().troubles.extend(vec![Trouble::Answered(page.into()); 99]);
    assert!(matches!(cloud.nlb().read(&pool()).await, Err(ProviderError::Unexpected { .. })));
}

#[tokio::test]
async fn what_does_not_fit_is_refused_before_the_api_is_asked() {
    let cloud = Cloud::start().await;
    let ipv6 = cloud.nlb().register(&pool(), "[fd00::1]:80".parse().unwrap(), Weight::ONE).await;
    let heavy = cloud.nlb().register(&pool(), address(1), Weight::new(101).unwrap()).await;
    for refused in [ipv6, heavy] {
        assert!(matches!(refused, Err(ProviderError::NotSupported { .. })), "{refused:?}");
    }
    assert_eq!(observe(&cloud.nlb(), &pool()).await.servers(Instant::now()).unwrap(), []);
    assert_eq!(cloud.account().requests.len(), 1);
}
