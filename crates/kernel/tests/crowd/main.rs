//! Opens as many sockets as it is told, over loopback, and keeps them until it is killed. Says `ok` on standard error
//! output once they are there.
//!
//! The files that one process may open are limited, so it has others do it; they end when their standard input does.

#![allow(clippy::unwrap_used, reason = "part of a test")]

use std::env;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Command, Stdio};

/// The usual limit is 20,000 or more.
const SOCKETS_A_PROCESS: usize = 10_000;
/// The argument of the others.
const MEMBER: &str = "member";

pub(crate) fn main() {
    let argument = env::args().nth(1).unwrap();
    if argument == MEMBER {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let pair = |_| (TcpStream::connect(address).unwrap(), listener.accept().unwrap());
        let pairs: Vec<_> = (0..SOCKETS_A_PROCESS / 2).map(pair).collect();
        say_ok_and_wait();
        drop(pairs);
    } else {
        let sockets: usize = argument.parse().unwrap();
        assert!(Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap().success());
        let join = |_| {
            let mut member = Command::new(env::current_exe().unwrap());
            let mut member = member.arg(MEMBER).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            let mut line = String::new();
            BufReader::new(member.stderr.take().unwrap()).read_line(&mut line).unwrap();
            assert_eq!(line, "ok\n");
            member
        };
        let mut members: Vec<_> = (0..sockets.div_ceil(SOCKETS_A_PROCESS)).map(join).collect();
        say_ok_and_wait();
        for member in &mut members {
            drop(member.stdin.take());
            member.wait().unwrap();
        }
    }
}

fn say_ok_and_wait() {
    io::stderr().write_all(b"ok\n").unwrap();
    io::stdin().read_to_end(&mut Vec::new()).unwrap();
}
