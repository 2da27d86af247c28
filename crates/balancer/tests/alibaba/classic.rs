//! What is CLB's alone: network interfaces, health, and writes without client tokens.

use std::time::Duration;

use hitless_balancer::alibaba::{Alibaba, Credentials, Product, Vpc};
use hitless_balancer::{Evidence, Provider, ProviderError, Reason, ServerState, Stand, Weight, observe};

use crate::cloud::{Cloud, Trouble};
use crate::group::Backend;
use crate::interfaces::{Interface, SHARED};
use crate::kind::Kind;
use crate::signature::{KEY_ID, SECRET};
use crate::stories::{OUT, address, name, of_others, proof, put, settle, wanted};

fn interface(id: &str, vpc: &'static str, number: u8) -> Interface {
    Interface { id: id.into(), vpc, ips: vec!["10.0.0.250".into(), address(number).ip().to_string()] }
}

fn within(cloud: &Cloud, vpc: &str) -> Alibaba {
    let product = Product::Clb { vpc: Some(Vpc::new(vpc).unwrap()) };
    cloud.provider_for(product, Credentials::new(KEY_ID, SECRET), Duration::from_mins(1))
}

async fn register(cloud: &Cloud) -> Result<(), ProviderError> {
    cloud.provider().register(&cloud.pool(), address(1), Weight::ONE).await
}

fn weight(cloud: &Cloud, number: u8) -> Option<u16> {
    cloud.account().group.servers.get(&(address(number).ip().to_string(), 8080)).map(|server| server.weight)
}

#[tokio::test]
async fn a_pod_is_added_by_the_interface_that_has_its_address() {
    let cloud = Cloud::start(Kind::Clb).await;
    cloud.account().interfaces.0 = vec![interface("eni-other", "vpc-1", 2), interface("eni-mine", "vpc-1", 1)];
    register(&cloud).await.unwrap();
    assert_eq!(cloud.account().group.servers[&("10.0.0.1".into(), 8080)].id, "eni-mine");
}

#[tokio::test]
async fn an_address_of_no_interface_is_told() {
    let cloud = Cloud::start(Kind::Clb).await;
    cloud.account().interfaces.0.clear();
    let error = register(&cloud).await.unwrap_err();
    assert!(error.is_lasting() && error.to_string().contains("10.0.0.1"), "{error}");
    assert!(error.to_string().contains("Terway"), "{error}");
    assert_eq!(cloud.account().requests.len(), 0);
}

#[tokio::test]
async fn an_address_in_two_vpcs_needs_the_right_one() {
    let cloud = Cloud::start(Kind::Clb).await;
    cloud.account().interfaces.0 = vec![interface("eni-one", "vpc-1", 1), interface("eni-two", "vpc-2", 1)];
    let error = register(&cloud).await.unwrap_err();
    assert!(error.is_lasting() && error.to_string().contains("alibabaClb.vpc"), "{error}");
    within(&cloud, "vpc-2").register(&cloud.pool(), address(1), Weight::ONE).await.unwrap();
    assert_eq!(cloud.account().group.servers[&("10.0.0.1".into(), 8080)].id, "eni-two");
    let elsewhere = within(&cloud, "vpc-3").register(&cloud.pool(), address(2), Weight::ONE).await;
    assert!(matches!(elsewhere, Err(ProviderError::NotSupported { .. })), "{elsewhere:?}");
}

#[tokio::test]
async fn interfaces_are_read_page_by_page_and_an_answer_about_others_is_no_proof() {
    let cloud = Cloud::start(Kind::Clb).await;
    let page = |token: &str, id: &str, ip: &str| {
        let ips = format!(r#"{{"PrivateIpSet":[{{"PrivateIpAddress":"{ip}"}}]}}"#);
        let interface = format!(r#"{{"NetworkInterfaceId":"{id}","PrivateIpSets":{ips}}}"#);
        Trouble::Answered(format!(
            r#"{{"NextToken":"{token}","NetworkInterfaceSets":{{"NetworkInterfaceSet":[{interface}]}}}}"#
        ))
    };
    cloud.account().troubles_of_interfaces.extend([page("1", "eni-1", "10.0.0.11"), page("", "eni-2", "10.0.0.1")]);
    register(&cloud).await.unwrap();
    assert_eq!(cloud.account().group.servers[&("10.0.0.1".into(), 8080)].id, "eni-2");
    assert_eq!(cloud.account().asked_for_interfaces, 2);
}

#[tokio::test]
async fn calls_about_interfaces_are_repeated_and_refused_as_all_others() {
    let cloud = Cloud::start(Kind::Clb).await;
    cloud.account().troubles_of_interfaces.extend(vec![Trouble::Refused(400, "Throttling.User"); 3]);
    register(&cloud).await.unwrap();
    cloud.account().troubles_of_interfaces.push_back(Trouble::Refused(403, "Forbidden.RAM"));
    let denied = register(&cloud).await.unwrap_err();
    assert!(denied.to_string().contains("ecs:DescribeNetworkInterfaces"), "{denied}");
    cloud.account().troubles_of_interfaces.push_back(Trouble::Answered("{}".into()));
    assert!(matches!(register(&cloud).await, Err(ProviderError::Unexpected { .. })));
}

#[tokio::test]
async fn a_server_is_changed_and_removed_by_the_interface_that_it_was_added_with() {
    let cloud = Cloud::start(Kind::Clb).await;
    settle(&cloud, &[wanted(1, Stand::In)]).await;
    cloud.account().interfaces.0 = vec![interface("eni-new", "vpc-1", 1)];
    let asked = cloud.account().asked_for_interfaces;
    cloud.provider().drain(&cloud.pool(), &name(1)).await.unwrap();
    assert_eq!(weight(&cloud, 1), Some(0));
    cloud.provider().deregister(&cloud.pool(), &name(1)).await.unwrap();
    assert_eq!((weight(&cloud, 1), cloud.account().asked_for_interfaces), (None, asked));
}

#[tokio::test]
async fn a_server_of_others_at_our_address_is_not_touched() {
    let cloud = Cloud::start(Kind::Clb).await;
    put(&cloud, of_others(1));
    let drained = cloud.provider().drain(&cloud.pool(), &name(1)).await;
    assert!(matches!(drained, Err(ProviderError::NoServer { .. })), "{drained:?}");
    let added = register(&cloud).await;
    assert!(matches!(added, Err(ProviderError::Exists { .. })), "the server that is listed is not ours: {added:?}");
    cloud.account().troubles.push_back(Trouble::Refused(400, "InvalidServerId.NotExist"));
    assert!(matches!(register(&cloud).await, Err(ProviderError::Refused { .. })));
    assert_eq!(weight(&cloud, 1), Some(100));
}

#[tokio::test]
async fn a_server_that_fails_its_health_check_does_not_serve() {
    let cloud = Cloud::start(Kind::Clb).await;
    settle(&cloud, &[wanted(1, Stand::In), wanted(2, Stand::In)]).await;
    let fail = |health| cloud.account().group.servers.get_mut(&("10.0.0.2".into(), 8080)).unwrap().health = health;
    fail("abnormal");
    let settled = settle(&cloud, &[wanted(1, OUT), wanted(2, Stand::In)]).await;
    assert_eq!(proof(2, &settled.observation), Evidence::Unhealthy);
    // Both are on the same interface, so the address tells them apart.
    assert_eq!(proof(1, &settled.observation), Evidence::Serving);
    assert!(settled.plan.kept.iter().any(|kept| kept.reason == Reason::LastServing));
    // Without a health check nothing is known, as with NLB.
    fail("unavailable");
    let settled = settle(&cloud, &[wanted(1, OUT), wanted(2, Stand::In)]).await;
    assert_eq!(
        (proof(1, &settled.observation), proof(2, &settled.observation)),
        (Evidence::NotRegistered, Evidence::Serving)
    );
}

#[tokio::test]
async fn health_without_an_address_is_about_all_of_the_interface() {
    let cloud = Cloud::start(Kind::Clb).await;
    put(&cloud, Backend { id: SHARED.into(), ..of_others(1) });
    put(&cloud, Backend { id: SHARED.into(), port: 9090, ..of_others(1) });
    let group = r#"{"LoadBalancerId":"lb-1","BackendServers":{"BackendServer":[
        {"ServerId":"eni-1","ServerIp":"10.0.0.1","Port":"8080","Weight":"5"},
        {"ServerId":"eni-1","ServerIp":"10.0.0.1","Port":9090,"Weight":5}]}}"#;
    let health = r#"{"BackendServers":{"BackendServer":[
        {"ServerId":"eni-1","Port":"8080","ServerHealthStatus":"abnormal"},
        {"ServerId":"eni-2","Port":9090,"ServerHealthStatus":"abnormal"}]}}"#;
    cloud.account().troubles.extend([group, health].map(|answer| Trouble::Answered(answer.into())));
    let states: Vec<ServerState> =
        cloud.provider().read(&cloud.pool()).await.unwrap().into_iter().map(|server| server.state).collect();
    assert_eq!(states, [ServerState::Unhealthy, ServerState::Ready]);
}

#[tokio::test]
async fn a_pool_whose_health_can_not_be_read_is_not_known() {
    let cloud = Cloud::start(Kind::Clb).await;
    settle(&cloud, &[wanted(1, Stand::In)]).await;
    let group = r#"{"LoadBalancerId":"lb-1","BackendServers":{"BackendServer":[
        {"ServerId":"eni-1","ServerIp":"10.0.0.1","Port":8080,"Weight":5}]}}"#;
    let health = group.replace(r#""Weight":5"#, r#""ServerHealthStatus":"tired""#);
    for trouble in [Trouble::Answered(health), Trouble::Refused(403, "Forbidden.RAM")] {
        cloud.account().troubles.extend([Trouble::Answered(group.into()), trouble]);
        let observed = observe(&cloud.provider(), &cloud.pool()).await;
        assert!(matches!(proof(1, &observed), Evidence::Unknown(_)), "{observed:?}");
    }
}
