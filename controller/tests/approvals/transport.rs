//! The client against real TLS servers, and an API server in miniature for Services and pods.

use std::sync::Arc;

use hitless_controller::approval::client::{Approvers, Reach};
use hitless_controller::approval::requests::{Call, Config, Failure, Requests};
use hitless_controller::approval::{Interest, requests::Request};
use kube::client::Body;
use kube::{Client, client::ClientBuilder};
use serde_json::{Value, json};
use tokio::time::{Duration, timeout};

use crate::office::{ask, rule, view};
use crate::server::{Authority, Manner, Server, ok, self_signed_authority};

/// A Kubernetes API that knows these objects by path.
fn api(objects: Vec<(&'static str, Value)>) -> Client {
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let found = objects.iter().find(|(path, _)| *path == request.uri().path());
        let (code, body) = match found {
            Some((_, object)) => (200, object.clone()),
            None => (
                404,
                json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404, "message": "no"}),
            ),
        };
        let response = http::Response::builder().status(code).body(Body::from(body.to_string().into_bytes()));
        async move { response }
    });
    ClientBuilder::new(service, "default").build()
}

/// The servers of these tests are on this machine.
fn approvers(client: Client) -> Approvers {
    Approvers::new(client, Reach::OwnAddresses)
}

fn nobody() -> Approvers {
    approvers(api(vec![]))
}

/// The first request of a rule with this webhook.
fn first(webhook: &Value) -> Call {
    let rules = [view(&[rule(webhook)], 1, None)];
    let asks = [ask("a"), ask("b")];
    let interest = Interest { asks: &asks, ..Interest::default() };
    let mut calls = Requests::default().update(&interest, &rules, "2026-01-01T00:00:00Z".parse().unwrap());
    calls.remove(0)
}

fn https(server: &Server, host: &str) -> String {
    format!("https://{host}:{}/ask", server.address.port())
}

fn unreachable(outcome: Result<Vec<u8>, Failure>) -> String {
    match outcome {
        Err(Failure::Unreachable(text)) => text,
        other => panic!("not unreachable: {other:?}"),
    }
}

#[tokio::test]
async fn a_question_arrives_over_tls_and_the_answer_comes_back() {
    let authority = Authority::new();
    let server = Server::start(Some(authority.server(&["localhost"])), ok(r#"{"success":true}"#)).await;
    let parameters = json!([{"key": "team", "value": "x"}, {"key": "uid", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}]);
    let call = first(&json!({"clientConfig": {"url": https(&server, "localhost"), "caBundle": authority.bundle()},
        "parameters": parameters}));
    assert_eq!(nobody().send(&call).await, Ok(br#"{"success":true}"#.to_vec()));
    let request = server.request();
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /ask HTTP/1.1\r\n"), "{head}");
    let head = head.to_lowercase();
    assert!(head.contains(&format!("host: localhost:{}\r\n", server.address.port())), "{head}");
    assert!(head.contains("content-type: application/json\r\n"), "{head}");
    let mut body: Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["traceId"].take().as_str().unwrap().len(), 36);
    let pod = |name: &str| {
        json!({"apiVersion": "core/v1", "kind": "Pod", "name": name,
        "parameters": {"team": "x", "uid": format!("uid-{name}")}})
    };
    assert_eq!(
        body,
        json!({"traceId": null, "ruleName": "ask", "resources": [pod("a"), pod("b")],
        "namespace": "ns", "podTransitionRule": "rules"})
    );
}

#[tokio::test]
async fn an_address_can_be_asked_by_its_number() {
    let authority = Authority::new();
    let server = Server::start(Some(authority.server(&["127.0.0.1"])), ok("{}")).await;
    let call = first(&json!({"clientConfig": {"url": https(&server, "127.0.0.1"), "caBundle": authority.bundle()}}));
    assert_eq!(nobody().send(&call).await, Ok(b"{}".to_vec()));
}

/// Upstream's caBundle has no effect on whom it trusts.
#[tokio::test]
async fn only_the_authorities_of_the_bundle_are_trusted() {
    let (authority, other) = (Authority::new(), Authority::new());
    let server = Server::start(Some(authority.server(&["localhost"])), ok("{}")).await;
    // The other one has the same name: an authority that was made anew.
    for (bundle, fault) in [(other.bundle(), "BadSignature"), (String::new(), "UnknownIssuer")] {
        let call = first(&json!({"clientConfig": {"url": https(&server, "localhost"), "caBundle": bundle}}));
        let text = unreachable(nobody().send(&call).await);
        assert!(text.contains(fault) && text.contains("caBundle"), "{text}");
    }
    assert_eq!(server.request(), "", "nothing was said to a stranger");
}

#[tokio::test]
async fn the_certificate_must_be_for_the_name() {
    let authority = Authority::new();
    let server = Server::start(Some(authority.server(&["approver.example"])), ok("{}")).await;
    let call = first(&json!({"clientConfig": {"url": https(&server, "localhost"), "caBundle": authority.bundle()}}));
    let text = unreachable(nobody().send(&call).await);
    assert!(text.contains("approver.example") && text.contains("subject alternative names"), "{text}");
}

#[tokio::test]
async fn an_authority_that_serves_itself_is_explained() {
    let (config, bundle) = self_signed_authority("localhost");
    let server = Server::start(Some(config), ok("{}")).await;
    let call = first(&json!({"clientConfig": {"url": https(&server, "localhost"), "caBundle": bundle}}));
    let text = unreachable(nobody().send(&call).await);
    assert!(text.contains("CaUsedAsEndEntity") && text.contains("one of its own"), "{text}");
}

#[tokio::test]
async fn plain_http_works_as_upstream_and_credentials_are_sent() {
    let server = Server::start(None, ok("{}")).await;
    let url = format!("http://me:a%20b@127.0.0.1:{}", server.address.port());
    assert_eq!(nobody().send(&first(&json!({"clientConfig": {"url": url}}))).await, Ok(b"{}".to_vec()));
    assert!(server.request().to_lowercase().contains("authorization: basic "), "{}", server.request());
    assert!(server.request().contains("bWU6YSBi"), "{}", server.request());
    assert!(!server.request().contains("me:a"), "{}", server.request());
}

#[tokio::test]
async fn whatever_is_no_good_answer_is_named() {
    let says = |text: &str| Manner::Says(text.as_bytes().to_vec());
    let rows = [
        (says("HTTP/1.1 500 Oops\r\nContent-Length: 2\r\n\r\n{}"), "the answer is HTTP 500"),
        (says("HTTP/1.1 404 Not Found\r\n\r\n"), "the answer is HTTP 404"),
        (says("HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n"), "redirects are not followed"),
        (says("nonsense\r\n\r\n"), "no HTTP answer"),
        (says("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}"), "breaks off"),
        (says(""), "no HTTP answer"),
        (ok(&" ".repeat(1_100_000)), "more than 1048576 bytes"),
        (Manner::Endless, "more than 1048576 bytes"),
    ];
    for (manner, expected) in rows {
        let server = Server::start(None, manner).await;
        let url = format!("http://{}/", server.address);
        let text = unreachable(nobody().send(&first(&json!({"clientConfig": {"url": url}}))).await);
        assert!(text.contains(expected), "{text}");
        assert_eq!(server.seen.lock().unwrap().len(), 1, "no request is made twice: {expected}");
    }
}

#[tokio::test]
async fn a_server_that_never_answers_costs_no_more_than_the_timeout() {
    let authority = Authority::new();
    let silent = Server::start(Some(authority.server(&["localhost"])), Manner::Silent).await;
    // One that does not even begin with TLS.
    let deaf = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    for port in [silent.address.port(), deaf.local_addr().unwrap().port()] {
        let url = format!("https://localhost:{port}/");
        let mut call = first(&json!({"clientConfig": {"url": url, "caBundle": authority.bundle()}}));
        call.timeout = jiff::SignedDuration::from_millis(300);
        let outcome = timeout(Duration::from_secs(20), nobody().send(&call)).await.expect("it ends by itself");
        assert!(unreachable(outcome).contains("no answer from the approver within"));
    }
}

#[tokio::test]
async fn nobody_at_the_address_and_no_such_name() {
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let text = unreachable(nobody().send(&first(&json!({"clientConfig": {"url": format!("http://{free}/")}}))).await);
    assert!(text.contains(&format!("no connection to {free}")), "{text}");
    let text =
        unreachable(nobody().send(&first(&json!({"clientConfig": {"url": "http://no-such-host.invalid/"}}))).await);
    assert!(text.contains("can't be resolved"), "{text}");
}

#[tokio::test]
async fn a_rule_that_names_nobody_properly_is_misconfigured() {
    for client in [
        json!({"url": ""}),
        json!({"url": "approver"}),
        json!({"url": "https://approver/", "caBundle": "?"}),
        json!({"service": {"namespace": "n s", "name": "x"}}),
    ] {
        let outcome = nobody().send(&first(&json!({"clientConfig": client}))).await;
        assert!(matches!(outcome, Err(Failure::Misconfigured(_))), "{outcome:?}");
    }
}

fn poll_of(call: &Call, id: &str) -> Call {
    Call { request: Request::Poll(id.into()), ..call.clone() }
}

#[tokio::test]
async fn a_poll_is_a_get_with_its_own_authority_and_an_escaped_id() {
    let (one, other) = (Authority::new(), Authority::new());
    let server = Server::start(Some(other.server(&["localhost"])), ok(r#"{"finished":true}"#)).await;
    let poll =
        json!({"url": format!("{}?x=y", https(&server, "localhost")), "rawQueryKey": "id", "caBundle": other.bundle()});
    let call = first(&json!({"clientConfig": {"url": "https://nowhere/", "caBundle": one.bundle(), "poll": poll}}));
    assert_eq!(nobody().send(&poll_of(&call, "a b&c\r\nX: y")).await, Ok(br#"{"finished":true}"#.to_vec()));
    let request = server.request();
    assert!(request.starts_with("GET /ask?x=y&id=a%20b%26c%0D%0AX%3A%20y HTTP/1.1\r\n"), "{request}");
    let mut none = (*call.config).clone();
    none.webhook.client_config.poll = None;
    let call = Call { config: Arc::new(Config { ..none }), ..poll_of(&call, "t") };
    assert!(matches!(nobody().send(&call).await, Err(Failure::Misconfigured(_))));
}

#[tokio::test]
async fn a_service_is_reached_by_its_cluster_address_under_its_name() {
    let authority = Authority::new();
    let server = Server::start(Some(authority.server(&["approver.tools.svc"])), ok("{}")).await;
    let service = |addresses: Value| {
        let first = addresses[0].clone();
        api(vec![(
            "/api/v1/namespaces/tools/services/approver",
            json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "approver", "namespace": "tools"},
            "spec": {"clusterIP": first, "clusterIPs": addresses}}),
        )])
    };
    let port = server.address.port();
    let by_reference = json!({"clientConfig": {"caBundle": authority.bundle(),
        "service": {"namespace": "tools", "name": "approver", "path": "/v1/x?y=z", "port": port}}});
    let by_name = json!({"clientConfig": {"caBundle": authority.bundle(), "url": format!("https://approver.tools.svc:{port}/v1/x?y=z")}});
    for webhook in [by_reference, by_name] {
        // The first address does not answer, the second does.
        let both = approvers(service(json!(["127.0.0.2", "127.0.0.1"])));
        assert_eq!(both.send(&first(&webhook)).await, Ok(b"{}".to_vec()));
        let request = server.request();
        assert!(request.starts_with("POST /v1/x?y=z HTTP/1.1\r\n"), "{request}");
        assert!(request.to_lowercase().contains(&format!("host: approver.tools.svc:{port}\r\n")), "{request}");
        let headless = approvers(service(json!(["None"]))).send(&first(&webhook)).await;
        assert!(unreachable(headless).contains("no cluster address"));
        assert!(unreachable(nobody().send(&first(&webhook)).await).contains("does not exist"));
    }
}

#[tokio::test]
async fn parameters_from_the_pod_are_read_from_the_api() {
    let server = Server::start(None, ok("{}")).await;
    let field = |key: &str, path: &str| json!({"key": key, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    let webhook = json!({"clientConfig": {"url": format!("http://{}/", server.address)},
        "parameters": [field("ip", "status.podIP"), field("tier", "metadata.labels['tier']"), field("none", "spec.a.b.c")]});
    let pod = |name: &str, uid: &str, ip: &str| {
        json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "uid": uid, "labels": {"tier": "web"}}, "spec": {"a": "text"}, "status": {"podIP": ip}})
    };
    let both = vec![
        ("/api/v1/namespaces/ns/pods/a", pod("a", "uid-a", "10.0.0.1")),
        ("/api/v1/namespaces/ns/pods/b", pod("b", "uid-b", "10.0.0.2")),
    ];
    assert_eq!(approvers(api(both)).send(&first(&webhook)).await, Ok(b"{}".to_vec()));
    let request = server.request();
    let body: Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(body["resources"][0]["parameters"], json!({"ip": "10.0.0.1", "tier": "web", "none": ""}));
    assert_eq!(body["resources"][1]["parameters"]["ip"], "10.0.0.2");
    let replaced = vec![
        ("/api/v1/namespaces/ns/pods/a", pod("a", "uid-a", "10.0.0.1")),
        ("/api/v1/namespaces/ns/pods/b", pod("b", "another uid", "10.0.0.2")),
    ];
    let text = unreachable(approvers(api(replaced)).send(&first(&webhook)).await);
    assert!(text.contains("pod ns/b is gone"), "{text}");
    assert_eq!(server.seen.lock().unwrap().len(), 1, "no question with another pod's values");
}
