use super::*;

use std::collections::BTreeMap;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

fn kubeconfig(server: &str, proxy: Option<&str>) -> String {
    let proxy = proxy.map(|url| format!(", \"proxy-url\": {url:?}")).unwrap_or_default();
    format!(
        r#"{{"apiVersion": "v1", "kind": "Config", "current-context": "here",
            "clusters": [{{"name": "c", "cluster": {{"server": {server:?}{proxy}}}}}], "users": [{{"name": "u", "user": {{}}}}],
            "contexts": [{{"name": "here", "context": {{"cluster": "c", "user": "u", "namespace": "team"}}}}]}}"#
    )
}

#[tokio::test]
async fn an_unknown_context_or_file_is_an_error_that_names_it() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("config");
    let error = connect(Some(&file), None, ActAs::default(), Requests::default()).await.err().unwrap();
    assert!(error.to_string().contains("kubeconfig"), "{error}");
    std::fs::write(&file, kubeconfig("http://127.0.0.1:1", None)).unwrap();
    assert_eq!(
        connect(Some(&file), None, ActAs::default(), Requests::default()).await.unwrap().default_namespace(),
        "team"
    );
    assert!(connect(Some(&file), Some("elsewhere"), ActAs::default(), Requests::default()).await.is_err());
    let list = [PathBuf::from("/nonexistent"), file.clone()];
    assert!(merged(&list).is_ok(), "kubectl passes over a file that is not there");
    assert!(merged(&list[..1]).unwrap_err().to_string().contains("/nonexistent"));
}

#[test]
fn who_acts_as_somebody_says_so_in_headers() {
    let names = |groups: &[&str]| groups.iter().map(|name| (*name).to_owned()).collect();
    let act_as = ActAs { user: Some("jane".to_owned()), groups: names(&["dev", "ops"]) };
    let headers = act_as.headers().unwrap();
    let sent: Vec<(&str, &str)> =
        headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
    assert_eq!(sent, [("impersonate-user", "jane"), ("impersonate-group", "dev"), ("impersonate-group", "ops")]);
    let bad = ActAs { user: Some("a\nb".to_owned()), groups: Vec::new() };
    assert!(bad.headers().unwrap_err().to_string().contains("can't act as"));
    let mut config = Config::new("http://127.0.0.1".parse().unwrap());
    config.auth_info.impersonate = Some("of-file".to_owned());
    assert_eq!(ActAs::default().or_of(&config).user.as_deref(), Some("of-file"));
    let given = ActAs { user: Some("jane".to_owned()), groups: Vec::new() };
    assert_eq!(given.or_of(&config).user.as_deref(), Some("jane"));
}

#[test]
fn the_proxy_is_the_one_that_kubectl_asks() {
    let of = |server: &str, written: Option<&str>, environment: &[(&str, &str)]| {
        let environment: BTreeMap<&str, &str> = environment.iter().copied().collect();
        let found =
            proxy::of(&server.parse().unwrap(), written, |name| environment.get(name).map(|value| (*value).to_owned()));
        found.map(|proxy| proxy.map(|proxy| proxy.uri().to_string())).map_err(|error| error.to_string())
    };
    let to = |url: &str| Ok(Some(url.to_owned()));
    let (server, https) = ("https://api.example.com:6443", ("HTTPS_PROXY", "http://proxy:3128"));
    assert_eq!(of(server, None, &[]), Ok(None));
    assert_eq!(of(server, None, &[https]), to("http://proxy:3128/"));
    assert_eq!(of(server, None, &[("https_proxy", "proxy:3128")]), to("http://proxy:3128/"));
    assert_eq!(of(server, None, &[("HTTP_PROXY", "http://other"), ("ALL_PROXY", "http://other")]), Ok(None));
    assert_eq!(of("http://10.0.0.1", None, &[("HTTP_PROXY", "socks5://other:1")]), to("socks5://other:1/"));
    assert_eq!(of("https://127.0.0.1:6443", None, &[https]), Ok(None), "the machine itself");
    assert_eq!(of("https://[::1]:6443", None, &[https]), Ok(None));
    for (excluded, server, is_asked) in [
        ("*", server, false),
        ("example.com", server, false),
        (".example.com", server, false),
        ("*.example.com", server, false),
        (".api.example.com", server, true),
        ("other.com, API.example.com:6443", server, false),
        ("api.example.com:443", server, true),
        ("10.0.0.0/8", "https://10.1.2.3", false),
        ("10.0.0.0/8", "https://11.1.2.3", true),
        ("fd00::/8,", "https://[fd00::1]:6443", false),
        ("[fd00::1]:6443", "https://[fd00::1]:6443", false),
        ("fd00::1", "https://[fd00::2]:6443", true),
    ] {
        let found = of(server, None, &[https, ("NO_PROXY", excluded)]).unwrap();
        assert_eq!(found.is_some(), is_asked, "{server} and NO_PROXY={excluded}");
    }
    // Who writes it into the kubeconfig means it.
    let excluded = [https, ("NO_PROXY", "*")];
    assert_eq!(of(server, Some("https://bastion:8443"), &excluded), to("https://bastion:8443/"));
    assert_eq!(of("http://127.0.0.1", Some("http://bastion"), &[]), to("http://bastion/"));
    let error = of(server, Some("ftp://me:secret@bastion"), &[]).unwrap_err();
    assert!(error.contains("…@bastion") && !error.contains("secret"), "{error}");
}

/// A server that tells its version, and a proxy that lets one connection through to it. Nobody knows the name `api.test` but the proxy.
#[tokio::test]
async fn the_server_is_asked_through_a_proxy() {
    let (server, proxy) =
        (TcpListener::bind("127.0.0.1:0").await.unwrap(), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let (to, url) = (server.local_addr().unwrap(), format!("http://me:pass@{}", proxy.local_addr().unwrap()));
    tokio::spawn(async move {
        let (mut connection, _) = server.accept().await.unwrap();
        head(&mut connection).await;
        let body = r#"{"major": "1", "minor": "36", "gitVersion": "v1.36.3", "gitCommit": "", "gitTreeState": "", "buildDate": "",
            "goVersion": "", "compiler": "", "platform": ""}"#;
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        connection.write_all(answer.as_bytes()).await.unwrap();
    });
    let asked = tokio::spawn(async move {
        let (mut connection, _) = proxy.accept().await.unwrap();
        let asked = head(&mut connection).await;
        connection.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        let mut onward = TcpStream::connect(to).await.unwrap();
        let _ = copy_bidirectional(&mut connection, &mut onward).await;
        asked
    });
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("config");
    std::fs::write(&file, kubeconfig("http://api.test:6443", Some(&url))).unwrap();
    let client = connect(Some(&file), None, ActAs::default(), Requests::default()).await.unwrap();
    assert_eq!(client.apiserver_version().await.unwrap().git_version, "v1.36.3");
    drop(client);
    let asked = asked.await.unwrap();
    assert!(asked.starts_with("CONNECT api.test:6443 HTTP/1.1\r\n"), "{asked}");
    assert!(asked.to_ascii_lowercase().contains("proxy-authorization: basic bwu6cgfzcw=="), "{asked}");
}

/// What is sent before the body.
async fn head(connection: &mut TcpStream) -> String {
    let mut read = Vec::new();
    while !read.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        connection.read_exact(&mut byte).await.unwrap();
        read.extend(byte);
    }
    String::from_utf8(read).unwrap()
}
