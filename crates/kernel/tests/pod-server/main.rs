//! The server in the pod, which the tests start in the pod's namespace and control group.
//!
//! Clients send lines: `fast` is answered at once, `slow` when standard input says `release`, `pieces` bit by bit unless the client seems
//! to close, `finish` makes the server close its direction, and after `upgrade` it does not close when its client seems to. Standard input
//! also knows `dial ADDRESS`: open a connection and keep it, and `deafen`: listen no more, and serve those who are there. Each command is
//! answered by `ok` on standard error output.

#![allow(clippy::unwrap_used, clippy::panic, reason = "part of a test")]

#[path = "../ports.rs"]
mod ports;

use std::io::{self, BufRead, BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use ports::{DATAGRAMS, DUAL_STACK, QUEUE_ONLY, SHORT_QUEUE, SLOW_TO_ACCEPT, V4_ONLY};

/// Pieces of an answer.
const PIECES: usize = 20;
/// Before each of them.
const PAUSE: Duration = Duration::from_millis(100);

/// How often `release` was said.
#[derive(Default)]
struct Releases {
    count: Mutex<u32>,
    said: Condvar,
}

/// Room for all clients of a hold that ends at its cap. Who comes while the queue is full gets a SYN cookie, and some of those are reset.
const CROWD: i32 = 4096;

pub(crate) fn main() {
    let releases = Arc::new(Releases::default());
    let _unserved = TcpListener::bind(("::", QUEUE_ONLY)).unwrap();
    let (at_once, mut listeners) = (Duration::ZERO, Vec::new());
    for (host, port, queue, rest) in [
        ("::", DUAL_STACK, CROWD, at_once),
        ("0.0.0.0", V4_ONLY, 128, at_once),
        ("::", SLOW_TO_ACCEPT, 1024, Duration::from_millis(4)),
        ("::", SHORT_QUEUE, 4, at_once),
    ] {
        let (listener, releases) = (TcpListener::bind((host, port)).unwrap(), Arc::clone(&releases));
        rustix::net::listen(&listener, queue).unwrap();
        listeners.push(listener.try_clone().unwrap());
        thread::spawn(move || {
            for stream in listener.incoming() {
                thread::sleep(rest);
                // It listens no more.
                let Ok(stream) = stream else { return };
                let releases = Arc::clone(&releases);
                thread::spawn(move || serve(&stream, &releases));
            }
        });
    }
    let datagrams = UdpSocket::bind(("::", DATAGRAMS)).unwrap();
    thread::spawn(move || while datagrams.recv(&mut [0]).is_ok() {});
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
            None if line == "deafen" => {
                for listener in listeners.drain(..) {
                    rustix::net::shutdown(&listener, rustix::net::Shutdown::Both).unwrap();
                }
            }
            _ => panic!("command {line:?}"),
        }
        ok();
    }
}

/// Until the client closes, or its connection seems to.
fn serve(mut stream: &TcpStream, releases: &Releases) {
    let mut is_upgraded = false;
    for line in BufReader::new(stream).lines() {
        let Ok(line) = line else { return };
        is_upgraded |= line == "upgrade";
        if line == "slow" {
            let count = releases.count.lock().unwrap();
            let before = *count;
            drop(releases.said.wait_while(count, |count| *count == before).unwrap());
        }
        if line == "pieces" && !send_pieces(stream) {
            return;
        }
        if line == "finish" {
            stream.shutdown(Shutdown::Write).unwrap();
        } else if stream.write_all(b"done\n").is_err() {
            return;
        }
    }
    if is_upgraded {
        loop {
            thread::park();
        }
    }
}

/// As servers do that look whether their client is still there; whether it was all the time.
fn send_pieces(mut stream: &TcpStream) -> bool {
    for _ in 0..PIECES {
        stream.set_read_timeout(Some(PAUSE)).unwrap();
        if matches!(stream.peek(&mut [0]), Ok(0)) || stream.write_all(b"more ").is_err() {
            return false;
        }
    }
    stream.set_read_timeout(None).unwrap();
    true
}
