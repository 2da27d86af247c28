//! Both binaries as their users start them.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::io::{BufRead, BufReader, Lines, Read};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

use hitless_load::Report;
use rustix::process::{Pid, Signal, kill_process};

struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn server(settings: &[(&str, &str)]) -> (Self, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_echo-server"));
        let mut server = Self::start(command.env("PORT", "0").envs(settings.iter().copied()));
        let line = server.lines.next().unwrap().unwrap();
        let port = line.rsplit(':').next().unwrap();
        (server, format!("127.0.0.1:{port}"))
    }

    fn load(target: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_load"));
        Self::start(command.args(["--target", target, "--progress-every-ms", "20"]).args(arguments))
    }

    fn next_report(&mut self) -> Report {
        serde_json::from_str(&self.lines.next().unwrap().unwrap()).unwrap()
    }

    fn reports_until(&mut self, wanted: impl Fn(&Report) -> bool) -> Report {
        loop {
            let report = self.next_report();
            if wanted(&report) {
                return report;
            }
            assert!(!report.finished, "{report:?}");
        }
    }

    fn terminate(&mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
    }

    fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _already_gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

#[test]
fn progress_is_printed_until_standard_input_closes() {
    let (mut server, address) = Process::server(&[("VERSION", "v7"), ("HOSTNAME", "web-3")]);
    let mut load = Process::load(&address, &["--until-stdin-closes"]);
    let live = load.reports_until(|report| report.fresh.answered >= 5 && report.keepalive.answered >= 5);
    assert!(!live.finished);
    drop(load.child.stdin.take());
    let last = load.reports_until(|report| report.finished);
    assert!(load.lines.next().is_none(), "the final object is the last line");
    assert!(load.wait().success());
    assert_eq!((last.failed_unretried(), last.fresh.outstanding(), last.keepalive.outstanding()), (0, 0, 0));
    assert!(last.versions.contains_key("v7") && last.pods.contains_key("web-3"), "{last:?}");
    server.terminate();
    assert!(server.wait().success());
}

#[test]
fn a_naive_server_dies_at_once_and_its_requests_with_it() {
    let (mut server, address) = Process::server(&[]);
    let mut load = Process::load(&address, &["--delay-ms", "500", "--fresh", "0", "--connections", "1"]);
    load.reports_until(|report| report.keepalive.outstanding() >= 1);
    server.terminate();
    assert!(server.wait().success());
    load.reports_until(|report| report.keepalive.failed_unretried >= 1 && report.keepalive.answered == 0);
    load.terminate();
    let last = load.reports_until(|report| report.finished);
    assert!(load.wait().success());
    assert!(last.keepalive.failed >= 1, "{last:?}");
}

#[test]
fn a_graceful_server_answers_first() {
    let (mut server, address) = Process::server(&[("MODE", "graceful")]);
    let mut load = Process::load(&address, &["--delay-ms", "300", "--fresh", "20", "--keepalive", "0"]);
    // From the first answer on about six requests are always under way in the server.
    let before = load.reports_until(|report| report.fresh.answered >= 1).fresh.answered;
    server.terminate();
    assert!(server.wait().success());
    load.terminate();
    let last = load.reports_until(|report| report.finished);
    assert!(last.fresh.answered >= before + 3, "{before} answered before, then {last:?}");
}

#[test]
fn a_bad_version_fails_as_asked() {
    let run = |name: &str, value: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_echo-server"));
        command.env("PORT", "0").env(name, value).stderr(Stdio::null()).status().unwrap().code()
    };
    assert_eq!(run("FAIL", "exit"), Some(1));
    assert_eq!(run("MODE", "kind"), Some(64));
    let (_server, address) = Process::server(&[("FAIL", "unready")]);
    let mut load = Process::load(&address, &["--path", "/healthz", "--fresh", "0"]);
    load.reports_until(|report| report.keepalive.failed >= 3 && report.keepalive.answered == 0);
}

#[test]
fn a_server_that_has_not_started_yet_can_be_ended() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_echo-server"));
    let mut server = Process::start(command.env("PORT", "0").env("START_DELAY", "4000000"));
    // The handler is there before the delay begins; the kernel shows it in the mask of caught signals.
    let term = 1_u64 << (15 - 1);
    while caught_signals(server.child.id()) & term == 0 {
        std::thread::yield_now();
    }
    server.terminate();
    assert!(server.wait().success());
}

fn caught_signals(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap()
}

#[test]
fn a_public_target_is_refused() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_load"));
    let output = command.args(["--target", "203.0.113.1:80"]).output().unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    let mut message = String::new();
    output.stderr.as_slice().read_to_string(&mut message).unwrap();
    assert!(message.contains("refusing to send load to 203.0.113.1:80"), "{message}");
}
