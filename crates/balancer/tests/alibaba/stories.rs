//! What the provider does, in sentences that hold for each product.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use hitless_balancer::alibaba::Credentials;
use hitless_balancer::{
    Evidence, Last, Mark, Observation, Owner, PodName, PoolName, Provider, ProviderError, Reason, Round, Server,
    ServerName, ServerState, Stand, Wanted, Weight, evidence, observe, round,
};

use crate::cloud::{Cloud, Trouble};
use crate::group::Backend;
use crate::kind::Kind;
use crate::signature::{KEY_ID, SECRET};

pub(crate) const OUT: Stand = Stand::Out(Last::Keep);

pub(crate) fn address(number: u8) -> SocketAddr {
    ([10, 0, 0, number], 8080).into()
}

pub(crate) fn name(number: u8) -> ServerName {
    Mark::new("hitless").unwrap().name_of(address(number))
}

pub(crate) fn wanted(number: u8, stand: Stand) -> Wanted {
    let pod = PodName { namespace: "shop".into(), name: format!("web-{number}") };
    Wanted { pod, address: address(number), weight: Weight::new(10).unwrap(), stand }
}

pub(crate) fn proof(number: u8, observation: &Observation) -> Evidence {
    evidence(address(number), observation, Instant::now())
}

/// Rounds until none has anything to do and nothing changes any more.
pub(crate) async fn settle(cloud: &Cloud, wanted: &[Wanted]) -> Round {
    loop {
        let round = round(&cloud.provider(), &cloud.pool(), wanted).await;
        assert!(round.failed.is_empty(), "{:?}", round.failed);
        let servers = round.observation.servers(Instant::now()).unwrap();
        let busy = |server: &Server| matches!(server.state, ServerState::Changing | ServerState::Leaving);
        if round.plan.steps.is_empty() && !servers.iter().any(busy) {
            return round;
        }
    }
}

pub(crate) fn of_others(number: u8) -> Backend {
    let ip = address(number).ip().to_string();
    Backend {
        id: format!("eni-bp67acfmxazb{number}"),
        ip,
        kind: "Eni".into(),
        port: 8080,
        weight: 100,
        description: "k8s.80.web.shop".into(),
        status: "Available",
        health: "normal",
    }
}

pub(crate) fn put(cloud: &Cloud, backend: Backend) {
    cloud.account().group.servers.insert((backend.ip.clone(), backend.port), backend);
}

async fn refusal(kind: Kind, status: u16, code: &'static str) -> ProviderError {
    let cloud = Cloud::start(kind).await;
    cloud.account().troubles.push_back(Trouble::Refused(status, code));
    cloud.provider().register(&cloud.pool(), address(1), Weight::ONE).await.unwrap_err()
}

pub(crate) async fn a_pod_is_added_by_its_address_and_serves_when_the_api_says_so(kind: Kind) {
    let cloud = Cloud::start(kind).await;
    let first = round(&cloud.provider(), &cloud.pool(), &[wanted(1, Stand::In)]).await;
    let at_first = if kind.is_asynchronous() { Evidence::Changing } else { Evidence::Serving };
    assert_eq!(proof(1, &first.observation), at_first);
    let settled = settle(&cloud, &[wanted(1, Stand::In)]).await;
    assert_eq!(proof(1, &settled.observation), Evidence::Serving);
    let added = cloud.account().group.servers[&("10.0.0.1".into(), 8080)].clone();
    let (id, server) = kind.server();
    let expected = Backend {
        id: id.into(),
        ip: "10.0.0.1".into(),
        kind: server.into(),
        port: 8080,
        weight: 10,
        description: "hitless_10.0.0.1_8080".into(),
        status: "Available",
        health: added.health,
    };
    assert_eq!(added, expected);
}

pub(crate) async fn a_pod_that_leaves_gets_weight_0_and_is_out_when_it_is_no_longer_listed(kind: Kind) {
    let cloud = Cloud::start(kind).await;
    settle(&cloud, &[wanted(1, Stand::In), wanted(2, Stand::In)]).await;
    let leave = [wanted(1, OUT), wanted(2, Stand::In)];
    let mut seen = Vec::new();
    while seen.last() != Some(&Evidence::NotRegistered) {
        let round = round(&cloud.provider(), &cloud.pool(), &leave).await;
        assert!(round.failed.is_empty(), "{:?}", round.failed);
        seen.push(proof(1, &round.observation));
    }
    assert!(seen.contains(&Evidence::Draining { sessions: None }) && !seen.contains(&Evidence::Out), "{seen:?}");
    let back = settle(&cloud, &[wanted(1, Stand::In), wanted(2, Stand::In)]).await;
    assert_eq!(proof(1, &back.observation), Evidence::Serving);
}

pub(crate) async fn what_others_have_added_is_never_changed_or_removed(kind: Kind) {
    let cloud = Cloud::start(kind).await;
    put(&cloud, of_others(1));
    // A description that was copied from a server of ours does not make it ours.
    put(&cloud, Backend { description: "hitless_10.0.0.1_8080".into(), ..of_others(2) });
    put(&cloud, Backend { description: String::new(), ..of_others(3) });
    let before = cloud.account().group.servers.clone();
    let take = Stand::Gone(Last::Take);
    let settled = settle(&cloud, &[wanted(1, take), wanted(2, take), wanted(3, take)]).await;
    assert!(settled.plan.kept.len() == 3 && settled.plan.kept.iter().all(|kept| kept.reason == Reason::NotOurs));
    assert_eq!(cloud.account().group.servers, before);
    let servers = cloud.provider().read(&cloud.pool()).await.unwrap();
    assert!(servers.len() == 3 && servers.iter().all(|server| server.owner == Owner::Others));
    for server in servers {
        let refused = cloud.provider().drain(&cloud.pool(), &server.name).await;
        assert!(matches!(refused, Err(ProviderError::NotSupported { .. })), "{refused:?}");
    }
    assert_eq!(cloud.account().group.servers, before);
}

pub(crate) async fn a_server_that_others_have_changed_is_put_back(kind: Kind) {
    let cloud = Cloud::start(kind).await;
    settle(&cloud, &[wanted(1, Stand::In)]).await;
    for weight in [0, 77] {
        cloud.account().group.servers.get_mut(&("10.0.0.1".into(), 8080)).unwrap().weight = weight;
        settle(&cloud, &[wanted(1, Stand::In)]).await;
        assert_eq!(cloud.account().group.servers[&("10.0.0.1".into(), 8080)].weight, 10);
    }
}

pub(crate) async fn the_last_server_stays(kind: Kind) {
    let cloud = Cloud::start(kind).await;
    settle(&cloud, &[wanted(1, Stand::In)]).await;
    let settled = settle(&cloud, &[wanted(1, OUT)]).await;
    assert_eq!(proof(1, &settled.observation), Evidence::Serving);
    assert!(matches!(settled.plan.kept.as_slice(), [kept] if kept.reason == Reason::LastServing));
}

pub(crate) async fn all_servers_are_read(kind: Kind) {
    let cloud = Cloud::start(kind).await;
    assert_eq!(cloud.provider().read(&cloud.pool()).await.unwrap(), []);
    (1..=250).for_each(|number| put(&cloud, of_others(number)));
    assert_eq!(cloud.provider().read(&cloud.pool()).await.unwrap().len(), 250);
}

/// That nonces are new is checked by the API.
pub(crate) async fn throttled_requests_are_repeated_with_new_nonces(kind: Kind) {
    let cloud = Cloud::start(kind).await;
    let throttled = ["Throttling", "Throttling.User", "Throttling.Api"].map(|code| Trouble::Refused(400, code));
    cloud.account().troubles.extend(throttled);
    cloud.provider().register(&cloud.pool(), address(1), Weight::ONE).await.unwrap();
    let account = cloud.account();
    let tokens: Vec<Option<&String>> = account.requests.iter().map(|(_, given)| given.get("ClientToken")).collect();
    assert_eq!(tokens.len(), 4);
    assert!(tokens.iter().all(|token| *token == tokens[0] && token.is_some() == kind.is_asynchronous()), "{tokens:?}");
    assert!(account.requests.iter().all(|request| *request == account.requests[0]), "nothing else differs");
}

pub(crate) async fn patience_ends(kind: Kind) {
    let cloud = Cloud::start(kind).await;
    cloud.account().troubles.extend(vec![Trouble::Refused(400, "Throttling.User"); 9]);
    let error = cloud.provider().read(&cloud.pool()).await.unwrap_err();
    assert!(matches!(&error, ProviderError::Refused { answer, .. } if answer.contains("Throttling.User")), "{error}");
    assert_eq!(cloud.account().requests.len(), 4);
}

pub(crate) async fn a_request_whose_answer_was_lost_is_done_once(kind: Kind) {
    let cloud = Cloud::start(kind).await;
    cloud.account().troubles.push_back(Trouble::DoneAndRefused(503, "ServiceUnavailable"));
    cloud.provider().register(&cloud.pool(), address(1), Weight::ONE).await.unwrap();
    let account = cloud.account();
    // Without tokens the list is asked.
    let requests = if kind.is_asynchronous() { 2 } else { 3 };
    assert_eq!((account.requests.len(), account.group.servers.len()), (requests, 1));
}

pub(crate) async fn weights_and_removals_whose_answers_were_lost_are_as_wanted(kind: Kind) {
    let cloud = Cloud::start(kind).await;
    settle(&cloud, &[wanted(1, Stand::In)]).await;
    let lost = || {
        // CLB's list is asked first for the server's id.
        if !kind.is_asynchronous() {
            cloud.account().troubles.push_back(Trouble::Refused(503, "ServiceUnavailable"));
            cloud.account().troubles.push_back(Trouble::DoneAndRefused(503, "ServiceUnavailable"));
        }
        cloud.account().troubles.push_back(Trouble::DoneAndRefused(503, "ServiceUnavailable"));
    };
    lost();
    cloud.provider().drain(&cloud.pool(), &name(1)).await.unwrap();
    assert_eq!(cloud.account().group.servers[&("10.0.0.1".into(), 8080)].weight, 0);
    settle(&cloud, &[]).await;
    lost();
    cloud.provider().deregister(&cloud.pool(), &name(1)).await.unwrap();
    settle(&cloud, &[]).await;
    assert!(cloud.account().group.servers.is_empty() && cloud.account().troubles.is_empty());
}

pub(crate) async fn wrong_credentials_are_told_and_not_tried_again(kind: Kind) {
    let cloud = Cloud::start(kind).await;
    for credentials in [Credentials::new(KEY_ID, "wrong"), Credentials::new("wrong", "wrong")] {
        let provider = cloud.provider_as(credentials, Duration::from_mins(1));
        for error in [
            provider.read(&cloud.pool()).await.unwrap_err(),
            provider.register(&cloud.pool(), address(1), Weight::ONE).await.unwrap_err(),
        ] {
            assert!(
                matches!(error, ProviderError::Denied { .. }) && error.to_string().contains("access key"),
                "{error}"
            );
        }
    }
    let account = cloud.account();
    assert_eq!((account.requests.len(), account.asked_for_interfaces), (0, 0));
}

pub(crate) async fn a_temporary_key_sends_its_token_signed(kind: Kind) {
    let cloud = Cloud::start(kind).await;
    let credentials = Credentials::new(KEY_ID, SECRET).with_token("token");
    assert_eq!(cloud.provider_as(credentials, Duration::from_mins(1)).read(&cloud.pool()).await.unwrap(), []);
}

pub(crate) async fn each_documented_refusal_is_an_error_of_its_own(kind: Kind) {
    let (no_pool, busy, other) = match kind {
        Kind::Nlb | Kind::Alb => {
            assert!(matches!(
                refusal(kind, 404, "ResourceNotFound.BackendServer").await,
                ProviderError::NoServer { .. }
            ));
            assert!(matches!(
                refusal(kind, 400, "ResourceAlreadyExist.BackendServer").await,
                ProviderError::Exists { .. }
            ));
            let busy = ["Conflict.Lock", "IncorrectStatus.serverGroup", "OperationFailed.ResourceIsConfiguring"];
            ((404, "ResourceNotFound.ServerGroup"), busy, "QuotaExceeded.Servers")
        }
        Kind::Clb => {
            let busy = ["BackendServer.configuring", "VServerGroupProcessing", "OperationBusy"];
            (
                (404, "InvalidParameter: The specified VServerGroupId does not exist."),
                busy,
                "InvalidParameter: The Port.",
            )
        }
    };
    assert!(matches!(refusal(kind, no_pool.0, no_pool.1).await, ProviderError::NoPool(_)));
    for code in busy {
        assert!(matches!(refusal(kind, 400, code).await, ProviderError::Busy { .. }), "{code}");
    }
    for code in ["Forbidden.NoPermission", "Forbidden.RAM", "NoPermission", "Forbbiden.SubUser"] {
        let denied = refusal(kind, 403, code).await;
        assert!(
            matches!(denied, ProviderError::Denied { .. }) && denied.to_string().contains(kind.right()),
            "{denied}"
        );
    }
    let refused = refusal(kind, 400, other).await;
    assert!(matches!(refused, ProviderError::Refused { .. }) && refused.is_lasting(), "{refused}");
}

pub(crate) async fn a_group_that_is_not_there_is_named(kind: Kind) {
    let cloud = Cloud::start(kind).await;
    let other = PoolName::new(kind.other_group()).unwrap();
    let error = cloud.provider().read(&other).await.unwrap_err();
    assert!(matches!(&error, ProviderError::NoPool(pool) if *pool == other), "{error}");
}

pub(crate) async fn an_id_that_is_none_of_a_group_is_told_before_the_api_is_asked(kind: Kind) {
    let cloud = Cloud::start(kind).await;
    let group = kind.group().split('-').next().unwrap();
    for id in ["shop", "lb-bp1qjwo61pqz3ah", if group == "sgp" { "rsp-cige6j5e7p" } else { "sgp-cb25e2i2vr" }] {
        let error = cloud.provider().read(&PoolName::new(id).unwrap()).await.unwrap_err();
        assert!(error.is_lasting() && error.to_string().contains(id), "{error}");
        assert!(error.to_string().contains(&format!("begin with {group}-")), "{error}");
    }
    assert_eq!(cloud.account().requests.len(), 0);
}

pub(crate) async fn a_server_that_is_gone_is_told(kind: Kind) {
    let cloud = Cloud::start(kind).await;
    let provider = cloud.provider();
    for outcome in [
        provider.set_weight(&cloud.pool(), &name(1), Weight::ONE).await,
        provider.drain(&cloud.pool(), &name(1)).await,
        provider.deregister(&cloud.pool(), &name(1)).await,
    ] {
        assert!(matches!(&outcome, Err(ProviderError::NoServer { server, .. }) if *server == name(1)), "{outcome:?}");
    }
}

pub(crate) async fn an_api_that_is_away_or_silent_leads_to_no_step_and_proves_nothing(kind: Kind) {
    let cloud = Cloud::start(kind).await;
    settle(&cloud, &[wanted(1, Stand::In)]).await;
    let hasty = cloud.provider_as(Credentials::new(KEY_ID, SECRET), Duration::from_millis(50));
    cloud.account().troubles.push_back(Trouble::Silent);
    assert!(matches!(hasty.read(&cloud.pool()).await, Err(ProviderError::TimedOut { .. })));
    cloud.stop();
    let gone = [wanted(1, Stand::Gone(Last::Take))];
    let round = round(&hasty, &cloud.pool(), &gone).await;
    assert_eq!(round.plan.steps, []);
    assert!(matches!(proof(1, &round.observation), Evidence::Unknown(_)));
}

pub(crate) async fn an_answer_that_is_not_as_documented_is_not_guessed(kind: Kind) {
    let server = r#"{"ServerId":"i-1","ServerIp":"10.0.0.1","Port":80,"Weight":1,"Status":"Available"}"#;
    let list = |server: &str| match kind {
        Kind::Nlb | Kind::Alb => format!(r#"{{"Servers":[{server}]}}"#),
        Kind::Clb => format!(r#"{{"LoadBalancerId":"lb-1","BackendServers":{{"BackendServer":[{server}]}}}}"#),
    };
    let bare = [String::new(), "<html>".into(), "{}".into(), r#"{"BackendServers":{}}"#.into()];
    let changed = [("i-1", "i 1"), (":80", ":80000"), (":80", r#":"http""#), (r#","Weight":1"#, "")];
    let mut void: Vec<String> = changed.iter().map(|(from, to)| list(&server.replace(from, to))).collect();
    void.extend(bare);
    if kind.is_asynchronous() {
        void.push(list(&server.replace("Available", "Sleeping")));
    }
    for answer in void {
        let cloud = Cloud::start(kind).await;
        cloud.account().troubles.push_back(Trouble::Answered(answer.clone()));
        let read = cloud.provider().read(&cloud.pool()).await;
        assert!(matches!(read, Err(ProviderError::Unexpected { .. })), "{answer:?}: {read:?}");
    }
    let cloud = Cloud::start(kind).await;
    cloud.account().troubles.push_back(Trouble::Answered(
        list(server).replace(r#","Status":"Available"}"#, r#","Status":"Available","New":1}"#),
    ));
    cloud.account().troubles.push_back(Trouble::Answered(r#"{"BackendServers":{"BackendServer":[]}}"#.into()));
    assert_eq!(cloud.provider().read(&cloud.pool()).await.unwrap().len(), 1, "what is added to the answer is no fault");
    cloud.account().troubles.clear();
    cloud.account().troubles.push_back(Trouble::Answered(" ".repeat(2 << 20)));
    assert!(matches!(cloud.provider().read(&cloud.pool()).await, Err(ProviderError::TooLong { .. })));
}

pub(crate) async fn what_does_not_fit_is_refused_before_the_api_is_asked(kind: Kind) {
    let cloud = Cloud::start(kind).await;
    let ipv6 = cloud.provider().register(&cloud.pool(), "[fd00::1]:80".parse().unwrap(), Weight::ONE).await;
    let heavy = cloud.provider().register(&cloud.pool(), address(1), Weight::new(101).unwrap()).await;
    for refused in [ipv6, heavy] {
        assert!(matches!(refused, Err(ProviderError::NotSupported { .. })), "{refused:?}");
    }
    assert_eq!(observe(&cloud.provider(), &cloud.pool()).await.servers(Instant::now()).unwrap(), []);
    let account = cloud.account();
    assert_eq!((account.requests.len(), account.asked_for_interfaces), (1, 0));
}
