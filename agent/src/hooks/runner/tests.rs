//! Real requests to servers on this machine's loopback.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering};

use hitless_api::{HookFailurePolicy, HookMethod, HookScheme, HookTime, HttpHook};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::hooks::called::Called;

/// What a server does once it has read a request.
#[derive(Clone, Copy)]
enum Does {
    Say(&'static str),
    /// An answer whose body does not end.
    SayForEver(&'static str),
    Nothing,
    HangUp,
}

struct Server {
    port: u16,
    requests: Arc<Mutex<Vec<String>>>,
    open: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

impl Server {
    async fn start(does: Does, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (requests, open) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
        let (log, count) = (requests.clone(), open.clone());
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                count.fetch_add(1, Ordering::Relaxed);
                match &tls {
                    None => answer(stream, does, &log).await,
                    Some(tls) => {
                        if let Ok(stream) = tls.accept(stream).await {
                            answer(stream, does, &log).await;
                        }
                    }
                }
                count.fetch_sub(1, Ordering::Relaxed);
            }
        });
        Self { port, requests, open, _tasks: tasks }
    }

    fn hook(&self) -> Hook {
        Hook {
            name: "ask".into(),
            when: HookTime::BeforeDrain,
            http: Some(HttpHook {
                port: self.port,
                path: "/hitless?x=1".into(),
                method: HookMethod::Post,
                scheme: HookScheme::Http,
            }),
            exec: None,
            timeout_seconds: 5,
            retries: 0,
            failure_policy: HookFailurePolicy::Fail,
            deadline_seconds: 600,
        }
    }
}

/// Until the client hangs up.
async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin, does: Does, requests: &Mutex<Vec<String>>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    lock(requests).push(String::from_utf8(head).unwrap());
    match does {
        Does::Say(text) => {
            stream.write_all(text.as_bytes()).await.unwrap();
            let _ = stream.shutdown().await;
        }
        Does::SayForEver(text) => while stream.write_all(text.as_bytes()).await.is_ok() {},
        Does::Nothing => {}
        Does::HangUp => return,
    }
    let _ = stream.read(&mut [0]).await;
}

fn spec(hook: Hook) -> CallSpec {
    CallSpec {
        call: CallKey { grant: "uid.hash".into(), granted: Timestamp::UNIX_EPOCH, hook: hook.name.clone(), attempt: 1 },
        address: Some(Ipv4Addr::LOCALHOST.into()),
        pod: PodRef { namespace: "shop".into(), name: "web-0".into(), uid: "uid".into() },
        container_id: None,
        hook,
    }
}

struct Caller {
    runner: Runner,
    wake: Arc<Notify>,
}

impl Caller {
    fn new() -> Self {
        let wake = Arc::new(Notify::new());
        Self { runner: Runner::new(wake.clone(), Node::new("/proc".into(), "/sys/fs/cgroup".into())), wake }
    }

    async fn reply(&self) -> Reply {
        loop {
            self.wake.notified().await;
            if let Some(reply) = self.runner.replies().pop() {
                return reply;
            }
        }
    }
}

async fn call(hook: Hook) -> (Verdict, String) {
    let caller = Caller::new();
    caller.runner.set_calls(vec![spec(hook)]);
    let Answer { verdict, output, .. } = caller.reply().await.answer;
    (verdict, output)
}

async fn said(does: Does) -> (Verdict, String) {
    call(Server::start(does, None).await.hook()).await
}

const NOT_YET: &str =
    "HTTP/1.1 200 OK\r\nContent-Length: 55\r\n\r\n{\"task\":\"notYet\",\"retryAfterSeconds\":9,\"message\":\"mid\"}";

#[tokio::test]
async fn a_call_names_its_operation_and_its_answer_comes_back() {
    let server = Server::start(Does::Say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"), None).await;
    let caller = Caller::new();
    caller.runner.set_calls(vec![spec(server.hook())]);
    let reply = caller.reply().await;
    assert_eq!((reply.answer.verdict, reply.answer.output.as_str()), (Verdict::Go, "ok"));
    assert_eq!(reply.call, spec(server.hook()).call);
    let requests = lock(&server.requests).clone();
    let [request] = requests.as_slice() else { panic!("one request: {requests:?}") };
    assert!(request.starts_with("POST /hitless?x=1 HTTP/1.1\r\n"), "{request}");
    for header in ["hitless-operation: uid.hash/ask", &format!("host: 127.0.0.1:{}", server.port)] {
        assert!(request.lines().any(|line| line.to_ascii_lowercase() == header), "{header}: {request}");
    }
}

#[tokio::test]
async fn answers_are_understood() {
    let mut hook = Server::start(Does::Nothing, None).await.hook();
    assert_eq!(said(Does::Say(NOT_YET)).await, (Verdict::NotYet { retry_after_seconds: 9 }, "mid".to_owned()));
    let later = "HTTP/1.1 503 Later\r\nRetry-After: 4\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(said(Does::Say(later)).await.0, Verdict::NotYet { retry_after_seconds: 4 });
    let never = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{\"task\": \"never\"}";
    assert_eq!(said(Does::Say(never)).await.0, Verdict::Never);
    let refused = said(Does::Say("HTTP/1.1 500 Oh\r\nContent-Length: 3\r\n\r\nbad")).await;
    assert_eq!(refused, (Verdict::Failed, "HTTP 500: bad".to_owned()));
    for does in [Does::HangUp, Does::Say("nonsense\r\n\r\n")] {
        let (verdict, output) = said(does).await;
        assert!(verdict == Verdict::Failed && output.starts_with("no HTTP answer"), "{output}");
    }
    // Nobody listens.
    hook.http.as_mut().unwrap().port = 1;
    let (verdict, output) = call(hook).await;
    assert!(verdict == Verdict::Failed && output.starts_with("no connection to 127.0.0.1:1: "), "{output}");
}

#[tokio::test]
async fn an_answer_is_noted_for_its_own_grant_and_not_for_a_later_one_of_the_same_id() {
    let server = Server::start(Does::Say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"), None).await;
    let wanted = spec(server.hook());
    for (granted, noted) in [(wanted.call.granted, 1), (wanted.call.granted + jiff::SignedDuration::from_secs(9), 0)] {
        let ask = Ask { name: "ask".into(), when: HookTime::BeforeDrain, attempt: 1, deadline: Timestamp::MAX };
        let hooks = BTreeMap::from([("ask".to_owned(), Called::new(&ask, granted))]);
        let memory = Memory { granted: Some(granted), hooks, ..Memory::default() };
        let mut memories = BTreeMap::from([(wanted.call.grant.clone(), memory)]);
        let caller = Caller::new();
        caller.runner.set_calls(vec![wanted.clone()]);
        caller.wake.notified().await;
        caller.runner.tell(&mut memories, granted);
        assert_eq!(memories["uid.hash"].hooks["ask"].attempts, noted);
    }
}

#[tokio::test]
async fn who_does_not_answer_in_time_has_failed_and_the_connection_is_closed() {
    let server = Server::start(Does::Nothing, None).await;
    let hook = Hook { timeout_seconds: 1, ..server.hook() };
    let caller = Caller::new();
    caller.runner.set_calls(vec![spec(hook)]);
    let answer = caller.reply().await.answer;
    assert_eq!((answer.verdict, answer.output.as_str()), (Verdict::Failed, "no answer within 1 s (timeoutSeconds)"));
    assert!((1000..3000).contains(&answer.milliseconds), "{} ms", answer.milliseconds);
    while server.open.load(Ordering::Relaxed) > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn an_answer_without_an_end_is_cut_and_only_what_can_not_be_a_word_means_go() {
    assert_eq!(said(Does::Say("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort")).await.0, Verdict::Failed);
    let endless = Server::start(Does::SayForEver("HTTP/1.1 200 OK\r\n\r\nxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"), None).await;
    let (verdict, output) = call(endless.hook()).await;
    assert_eq!(verdict, Verdict::Go);
    assert!(output.len() <= 16 * 1024, "{}", output.len());
    let endless =
        Server::start(Does::SayForEver("HTTP/1.1 200 OK\r\n\r\n{\"x\": \"xxxxxxxxxxxxxxxxxxxxxx\"}"), None).await;
    let (verdict, output) = call(endless.hook()).await;
    assert_eq!((verdict, output.as_str()), (Verdict::Failed, "the answer is longer than 16384 bytes"));
}

#[tokio::test]
async fn tls_is_spoken_with_any_certificate() {
    let key = rcgen::generate_simple_self_signed(["somebody.else".to_owned()]).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![key.cert.der().clone()],
            rustls::pki_types::PrivateKeyDer::try_from(key.signing_key.serialize_der()).unwrap(),
        )
        .unwrap();
    let server = Server::start(Does::Say(NOT_YET), Some(TlsAcceptor::from(Arc::new(config)))).await;
    let mut hook = server.hook();
    hook.http.as_mut().unwrap().scheme = HookScheme::Https;
    assert_eq!(call(hook.clone()).await.0, Verdict::NotYet { retry_after_seconds: 9 });
    let plain = Server::start(Does::Say("HTTP/1.1 200 OK\r\n\r\n"), None).await;
    hook.http.as_mut().unwrap().port = plain.port;
    let (verdict, output) = call(Hook { timeout_seconds: 2, ..hook }).await;
    assert!(verdict == Verdict::Failed, "{output}");
}

#[tokio::test]
async fn a_command_in_a_container_that_is_not_there_has_failed() {
    let command = vec!["true".to_owned()];
    let exec = Some(ExecHook { container: "web".into(), command });
    let hook = Hook { http: None, exec, ..Server::start(Does::Nothing, None).await.hook() };
    assert_eq!(call(hook.clone()).await, (Verdict::Failed, "container web does not run".to_owned()));
    let caller = Caller::new();
    caller.runner.set_calls(vec![CallSpec { container_id: Some("containerd://gone".into()), ..spec(hook) }]);
    let output = caller.reply().await.answer.output;
    assert!(output.starts_with("container gone of pod uid has no process"), "{output}");
}

#[tokio::test]
async fn a_call_that_is_not_asked_for_any_more_is_given_up_and_one_that_is_is_not_begun_again() {
    let server = Server::start(Does::Nothing, None).await;
    let caller = Caller::new();
    let wanted = spec(server.hook());
    caller.runner.set_calls(vec![wanted.clone()]);
    while lock(&server.requests).len() != 1 {
        caller.runner.set_calls(vec![wanted.clone()]);
        tokio::task::yield_now().await;
    }
    let next = CallSpec { call: CallKey { attempt: 2, ..wanted.call.clone() }, ..wanted.clone() };
    caller.runner.set_calls(vec![next]);
    while lock(&server.requests).len() != 2 {
        tokio::task::yield_now().await;
    }
    caller.runner.set_calls(Vec::new());
    while server.open.load(Ordering::Relaxed) > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(caller.runner.replies(), [], "nobody hears of them");
    let no_address = CallSpec { address: None, ..wanted };
    caller.runner.set_calls(vec![no_address]);
    assert_eq!(caller.reply().await.answer.output, "the pod has no address");
    assert_eq!(lock(&server.requests).len(), 2);
}
