//! What HAProxy answers: the servers of a backend, and whether one was deleted.

use hitless_balancer::ServerName;
use hitless_balancer::haproxy::fuzz::{deleted, servers};

use crate::Target;
use crate::parts::{BETWEEN, parts};
use crate::pool::{check, mark, pool};

pub(crate) const TARGET: Target = Target { name: "haproxy", run, seeds, words: &WORDS };

const WORDS: [&str; 24] = [
    BETWEEN,
    "\n\n",
    "# ",
    "raw ",
    "raw,",
    "srv_name",
    "srv_op_state",
    "srv_admin_state",
    "srv_uweight",
    "srv_addr",
    "srv_port",
    "svname",
    "scur",
    "qcur",
    "bck",
    "hitless_127.0.0.1_18103",
    "hitless_127.0.0.1_1",
    "hitless_",
    "127.0.0.1",
    "fd00::1",
    "-",
    "\"",
    "Server deleted.",
    "No such backend.",
];

const STATES: &str = include_str!("../../../../crates/balancer/tests/data/servers-state.txt");
const COUNTS: &str = include_str!("../../../../crates/balancer/tests/data/stat.txt");

fn seeds() -> Vec<Vec<u8>> {
    let with = |answer: &str| format!("{STATES}{COUNTS}{BETWEEN}{answer}").into_bytes();
    // Few servers, so that an input is short: the first two.
    let first = |text: &str, lines: usize| text.split_inclusive('\n').take(lines).collect::<String>();
    let short = format!("{}\n{}\n", first(STATES, 4), first(COUNTS, 3)).into_bytes();
    let refusals = ["No such backend.", "Permission denied", "Unknown command: 'del'", "No such server."];
    let refused = refusals.map(|refusal| format!("{refusal}\n\n{BETWEEN}{refusal}\n\n").into_bytes());
    [vec![with("Server deleted.\n"), short], refused.to_vec()].concat()
}

fn run(data: &[u8]) {
    let answers = parts(data);
    let list = answers.first().copied().unwrap_or_default();
    if let Ok(whole) = servers(&pool(), &mark(), list.to_vec()) {
        // An answer that breaks off is none, or says the same.
        for cut in [list.len() / 2, list.len().saturating_sub(2), list.len().saturating_sub(1)] {
            if let Ok(some) = servers(&pool(), &mark(), list[..cut].to_vec()) {
                assert_eq!(some, whole, "cut off after {cut} bytes");
            }
        }
        assert!(whole.iter().all(|server| server.sessions.is_some()), "HAProxy counts sessions");
        check(&whole);
    }
    if let Some(answer) = answers.get(1) {
        let server = ServerName::new("hitless_127.0.0.1_18103").expect("a name");
        match deleted(&pool(), &server, answer.to_vec()) {
            Ok(()) => assert!(answer.trim_ascii_end().ends_with(b"Server deleted."), "it does not say so"),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}
