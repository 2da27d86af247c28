//! Faults of the registry, as somebody meets them who pulls. Runs the registry alone, without a cluster.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hitless_cluster::image::ImageSpec;
use hitless_cluster::{Fault, Options, Registry, Tools};
use serde_json::Value;

/// Bytes of the image's large layer, without what the archive adds.
const LARGE: usize = 1_000_000;

/// A registry on a port of its own; ended when dropped.
struct Running {
    child: Child,
    address: SocketAddr,
    registry: Registry,
    _directory: tempfile::TempDir,
}

/// What a pull was answered.
#[derive(Debug)]
struct Answer {
    /// 0: the connection was closed without an answer.
    status: u16,
    head: String,
    body: Vec<u8>,
    /// Whether the body has the length that the head tells.
    complete: bool,
}

impl Running {
    /// Starts it and pushes `web:v1`, whose second layer is large.
    fn start() -> Self {
        let program = Tools::ensure(Options::default(), &|line| eprintln!("{line}")).unwrap().path("registry").unwrap();
        let directory = tempfile::tempdir().unwrap();
        let mut command = Command::new(program);
        command.args(["--address", "127.0.0.1:0", "--directory"]).arg(directory.path());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let listening = |line: String| line.split_once("listening on ").map(|(_, address)| address.parse().unwrap());
        let address = lines.find_map(listening).unwrap();
        // It writes a line for each request; nobody may make it wait.
        std::thread::spawn(move || lines.for_each(drop));
        let registry = Registry::at(address);
        let running = Self { child, address, registry, _directory: directory };
        running.registry.push("web:v1", &image()).unwrap();
        running
    }

    fn set(&self, fault: &Fault) {
        self.registry.set_fault("web", fault).unwrap();
    }

    /// Pulls as a container runtime does.
    fn pull(&self, method: &str, path: &str, more: &str) -> Answer {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let head = format!("{method} {path} HTTP/1.1\r\nHost: registry\r\nConnection: close\r\n{more}\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut raw = Vec::new();
        // A connection that is cut may also be reset.
        let _ = stream.read_to_end(&mut raw);
        let Some(end) = raw.windows(4).position(|four| four == b"\r\n\r\n") else {
            return Answer { status: 0, head: String::new(), body: raw, complete: false };
        };
        let (head, body) = (String::from_utf8_lossy(&raw[..end]).into_owned(), raw[end + 4..].to_vec());
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
        let complete = length.is_none_or(|length| length == body.len().to_string());
        Answer { status, head, body, complete }
    }

    fn manifest(&self, repository: &str, more: &str) -> Answer {
        self.ask_manifest("GET", repository, more)
    }

    fn ask_manifest(&self, method: &str, repository: &str, more: &str) -> Answer {
        let more = format!("Accept: application/vnd.oci.image.manifest.v1+json\r\n{more}");
        self.pull(method, &format!("/v2/{repository}/manifests/v1"), &more)
    }

    /// The path of the large layer.
    fn layer(&self) -> String {
        let manifest: Value = serde_json::from_slice(&self.manifest("web", "").body).unwrap();
        format!("/v2/web/blobs/{}", manifest["layers"][1]["digest"].as_str().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn image() -> hitless_cluster::image::Image {
    ImageSpec::default().with_ballast(LARGE, 1).build().unwrap()
}

#[test]
fn a_refusal_has_the_registrys_words_holds_below_library_and_ends_when_it_is_cleared() {
    let running = Running::start();
    running.set(&Fault::Refuse { status: 429, message: "too many pulls".into(), heads: false });
    for repository in ["web", "library/web"] {
        let answer = running.manifest(repository, "");
        assert_eq!(answer.status, 429, "{answer:?}");
        let body: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(body["errors"][0]["message"], "too many pulls");
    }
    assert_eq!(running.ask_manifest("HEAD", "web", "").status, 200);
    running.set(&Fault::Refuse { status: 503, message: "down".into(), heads: true });
    assert_eq!(running.ask_manifest("HEAD", "web", "").status, 503);
    // Pushing goes on, also of what is there already and is asked for by HEAD.
    running.registry.push("web:v2", &image()).unwrap();
    running.registry.clear_fault("web").unwrap();
    assert_eq!(running.manifest("web", "").status, 200);
}

#[test]
fn a_login_is_asked_for_and_only_the_right_one_is_let_in() {
    let running = Running::start();
    let layer = running.layer();
    running.set(&Fault::Login { user: "u".into(), password: "p".into() });
    for path in ["/v2/web/manifests/v1", layer.as_str()] {
        let answer = running.pull("GET", path, "");
        assert_eq!(answer.status, 401);
        assert!(answer.head.contains("Www-Authenticate: Basic realm="), "{}", answer.head);
    }
    // u:p, and u:q.
    assert_eq!(running.manifest("web", "Authorization: Basic dTpw\r\n").status, 200);
    assert_eq!(running.manifest("web", "Authorization: Basic dTpx\r\n").status, 401);
    running.registry.push("web:v2", &image()).unwrap();
}

#[test]
fn a_throttled_layer_takes_its_time_until_the_fault_is_cleared() {
    let running = Running::start();
    let layer = running.layer();
    // Two seconds for the whole layer.
    running.set(&Fault::Throttle { bytes_per_second: LARGE as u64 / 2 });
    let begin = Instant::now();
    let answer = running.pull("GET", &layer, "");
    assert!(answer.complete && answer.status == 200 && answer.body.len() > LARGE, "{}", answer.head);
    assert!(begin.elapsed() >= Duration::from_secs(2), "it came in {:?}", begin.elapsed());
    // A hundred seconds, if it were not cleared.
    running.set(&Fault::Throttle { bytes_per_second: LARGE as u64 / 100 });
    std::thread::scope(|scope| {
        let pull = scope.spawn(|| running.pull("GET", &layer, ""));
        running.registry.clear_fault("web").unwrap();
        assert!(pull.join().unwrap().complete);
    });
    assert!(begin.elapsed() < Duration::from_secs(30), "it came in {:?}", begin.elapsed());
}

#[test]
fn a_layer_is_cut_as_often_as_is_said_and_never_comes_further() {
    let running = Running::start();
    let layer = running.layer();
    running.set(&Fault::Cut { after: 100_000, times: 3 });
    let first = running.pull("GET", &layer, "");
    assert_eq!((first.status, first.complete, first.body.len()), (200, false, 100_000));
    // Who asks for the rest does not get further.
    let rest = running.pull("GET", &layer, "Range: bytes=100000-\r\n");
    assert_eq!((rest.status, rest.complete, rest.body.len()), (206, false, 0));
    let part = running.pull("GET", &layer, "Range: bytes=99000-\r\n");
    assert_eq!((part.status, part.complete, part.body.len()), (206, false, 1_000));
    assert!(running.pull("GET", &layer, "").complete, "the fourth time it arrives");
    running.set(&Fault::Cut { after: 100_000_000, times: 0 });
    assert!(running.pull("GET", &layer, "").complete, "what is shorter arrives");
}

#[test]
fn an_unreachable_repository_gives_no_answer_and_others_do() {
    let running = Running::start();
    running.registry.push("team/web:v1", &image()).unwrap();
    running.set(&Fault::Unreachable);
    assert_eq!(running.manifest("web", "").status, 0);
    assert_eq!(running.manifest("library/web", "").status, 0);
    assert_eq!(running.manifest("team/web", "").status, 200);
    assert_eq!(running.pull("GET", "/v2/", "").status, 200);
}

#[test]
fn what_makes_no_sense_is_refused_in_words() {
    let running = Running::start();
    let refused = |fault: &Fault| running.registry.set_fault("web", fault).unwrap_err().to_string();
    assert!(refused(&Fault::Throttle { bytes_per_second: 0 }).contains("bytes_per_second is 0"));
    let fine = Fault::Refuse { status: 200, message: String::new(), heads: true };
    assert!(refused(&fine).contains("status is 200"));
    let colon = Fault::Login { user: "a:b".into(), password: "p".into() };
    assert!(refused(&colon).contains("colon"));
    let long = Fault::Refuse { status: 500, message: "x".repeat(5_000), heads: true };
    assert!(refused(&long).contains("too large"));
    let name = running.registry.set_fault("Web", &Fault::Unreachable).unwrap_err().to_string();
    assert!(name.contains("no name of a repository"), "{name}");
    assert_eq!(running.manifest("web", "").status, 200);
}
