//! The server in the pod, which the tests start in the pod's namespace and control group.
//!
//! Clients send lines: `fast` is answered at once, `slow` when standard input says `release`. Standard input also knows
//! `dial ADDRESS`: open a connection and keep it. Each command is answered by `ok` on standard error output.

#![allow(clippy::unwrap_used, clippy::panic, reason = "part of a test")]

#[path = "../ports.rs"]
mod ports;

use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use ports::{DUAL_STACK, QUEUE_ONLY, V4_ONLY};

/// How often `release` was said.
#[derive(Default)]
struct Releases {
    count: Mutex<u32>,
    said: Condvar,
}

fn main() {
    let releases = Arc::new(Releases::default());
    let _unserved = TcpListener::bind(("::", QUEUE_ONLY)).unwrap();
    for (host, port) in [("::", DUAL_STACK), ("0.0.0.0", V4_ONLY)] {
        let (listener, releases) = (TcpListener::bind((host, port)).unwrap(), Arc::clone(&releases));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, releases) = (stream.unwrap(), Arc::clone(&releases));
                thread::spawn(move || serve(&stream, &releases));
            }
        });
    }
    let ok = || io::stderr().write_all(b"ok\n").unwrap();
    ok();
    let mut dialled = Vec::new();
    for line in io::stdin().lines() {
        let line = line.unwrap();
        match line.split_once(' ') {
            Some(("dial", address)) => dialled.push(TcpStream::connect(address).unwrap()),
            None if line == "release" => {
                *releases.count.lock().unwrap() += 1;
                releases.said.notify_all();
            }
            _ => panic!("command {line:?}"),
        }
        ok();
    }
}

/// Until the client closes, or its connection seems to.
fn serve(mut stream: &TcpStream, releases: &Releases) {
    for line in BufReader::new(stream).lines() {
        let Ok(line) = line else { return };
        if line == "slow" {
            let count = releases.count.lock().unwrap();
            let before = *count;
            drop(releases.said.wait_while(count, |count| *count == before).unwrap());
        }
        if stream.write_all(b"done\n").is_err() {
            return;
        }
    }
}
