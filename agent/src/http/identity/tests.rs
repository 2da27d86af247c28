use super::*;
use hitless_runtime::prefix::Prefixes;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

fn pod(name: &str, metadata: &Value, spec: &Value, status: &Value) -> Arc<NodePod> {
    let mut pod: Pod = serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap();
    pod.metadata.name = Some(name.to_owned());
    pod.metadata.namespace = Some("shop".to_owned());
    pod.metadata.uid = Some(format!("uid-{name}"));
    Arc::new(NodePod::from(&pod))
}

fn pods() -> Vec<Arc<NodePod>> {
    let (none, spec) = (json!({}), json!({"containers": []}));
    let gone = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
    let mirror = json!({"annotations": {"kubernetes.io/config.mirror": "0123456789abcdef0123456789abcdef"}});
    let status = json!({"podIP": "10.1.0.5", "podIPs": [{"ip": "10.1.0.5"}, {"ip": "fd00::5"}]});
    vec![
        pod("was-web", &gone, &spec, &status),
        pod("web", &none, &spec, &status),
        pod("old", &none, &spec, &json!({"podIP": "10.1.0.6", "phase": "Succeeded"})),
        pod("proxy", &mirror, &json!({"containers": [], "hostNetwork": true}), &json!({"podIP": "192.168.0.1"})),
    ]
}

fn by_address(from: &str) -> Caller {
    let trusted: Prefixes = "172.16.0.0/12, 2001:db8::/32".parse().unwrap();
    Caller::of(&Peer::tcp(from.parse().unwrap(), "192.168.0.2".parse().unwrap()), &pods(), &trusted.0)
}

fn name(caller: &Caller) -> &str {
    match caller {
        Caller::Node => "the node",
        Caller::Pod(pod) | Caller::NodeFor(pod) => &pod.name,
        Caller::Stranger { is_trusted: true, .. } => "trusted",
        Caller::Stranger { is_trusted: false, .. } => "stranger",
    }
}

#[test]
fn an_address_is_a_pods_the_nodes_or_a_strangers() {
    for (from, expected) in [
        ("10.1.0.5", "web"),
        ("fd00::5", "web"),
        ("::ffff:10.1.0.5", "web"),
        ("10.1.0.6", "stranger"),
        ("10.2.0.5", "stranger"),
        ("192.168.0.1", "the node"),
        ("192.168.0.2", "the node"),
        ("::ffff:192.168.0.2", "the node"),
        ("127.0.0.1", "the node"),
        ("::1", "the node"),
        ("172.31.9.9", "trusted"),
        ("172.32.0.1", "stranger"),
        ("2001:db8:7::1", "trusted"),
    ] {
        assert_eq!(name(&by_address(from)), expected, "{from}");
    }
}

#[test]
fn a_process_is_its_pod_and_root_outside_of_pods_is_the_node() {
    for (user, groups, expected) in [
        (1000, Some(vec!["uid-web"]), "web"),
        (0, Some(vec!["uid-web"]), "web"),
        (0, Some(vec!["0123456789abcdef0123456789abcdef"]), "proxy"),
        (0, Some(vec!["a-node-in-a-pod", "uid-web"]), "web"),
        (0, Some(vec!["a-pod-that-is-new"]), "stranger"),
        (0, Some(vec![]), "the node"),
        (1000, Some(vec![]), "stranger"),
        (0, None, "stranger"),
    ] {
        let groups = groups.map(|groups| groups.into_iter().map(str::to_owned).collect());
        let caller = Caller::of(&Peer::Process { user, pods: groups.clone() }, &pods(), &[]);
        assert_eq!(name(&caller), expected, "user {user} in {groups:?}");
    }
}

#[test]
fn inside_of_a_pod_the_pod_and_its_node_ask_as_the_pod() {
    let inside = |side| {
        let pod = PodRef { namespace: "shop".into(), name: "web".into(), uid: "uid-web".into() };
        Caller::of(&Peer::Inside { pod, from: "172.31.9.9".parse().unwrap(), side }, &pods(), &[])
    };
    assert_eq!(
        [Side::Pod, Side::Node, Side::Other].map(|side| name(&inside(side)).to_owned()),
        ["web", "web", "stranger"]
    );
    for side in [Side::Pod, Side::Node] {
        assert!(inside(side).sees("shop", "web") && !inside(side).sees("shop", "old"), "{side:?}");
    }
    let hook = |side| inside(side).source(Client::Hook);
    assert_eq!(hook(Side::Pod), Source::Pod("uid-web".to_owned()), "a pod can't take the kubelet's places");
    assert_eq!(hook(Side::Node), Source::Node(Client::Hook));
}

#[test]
fn a_pod_sees_itself_the_node_all_and_a_stranger_nobody() {
    for (from, own, other) in
        [("10.1.0.5", true, false), ("127.0.0.1", true, true), ("172.31.9.9", true, true), ("10.2.0.5", false, false)]
    {
        let caller = by_address(from);
        assert_eq!((caller.sees("shop", "web"), caller.sees("shop", "old")), (own, other), "{from}");
    }
    assert!(by_address("10.2.0.5").to_string().contains("HITLESS_TRUSTED"));
}

#[test]
fn a_network_of_ipv6_is_one_source_and_a_trusted_address_has_its_own() {
    let source = |from: &str| by_address(from).source(Client::Unknown);
    assert_eq!(source("2001:db9::1"), source("2001:db9::ffff:1"));
    assert_ne!(source("2001:db9::1"), source("2001:db9:0:1::1"));
    assert_ne!(source("10.2.0.5"), source("10.2.0.6"));
    assert_eq!(source("172.31.9.9"), Source::Trusted("172.31.9.9".parse().unwrap()));
}

#[test]
fn a_trusted_prefix_that_holds_a_pod_is_warned_of() {
    let warned = |text: &str| trusted_pods(&pods(), &text.parse::<Prefixes>().unwrap().0);
    assert_eq!(
        warned("192.168.0.0/16,10.1.0.6,172.16.0.0/12"),
        [""; 0],
        "the node itself, a pod that has ended, nobody"
    );
    let words = warned("192.168.0.0/16,10.0.0.0/8,fd00::/8");
    assert_eq!(words.len(), 2, "{words:?}");
    assert!(words[0].starts_with("10.0.0.0/8 in HITLESS_TRUSTED holds addresses of pods, e.g. of shop/"), "{words:?}");
}
