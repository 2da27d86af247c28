//! Who asks, from an address of its choice.

use std::net::{Ipv4Addr, SocketAddr};

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::node::{Node, PATIENCE};

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let line = self.head.lines().find(|line| line.to_lowercase().starts_with(&format!("{name}: ")))?;
        line.split_once(": ").map(|(_, value)| value)
    }
}

pub(crate) async fn connect(address: SocketAddr, from: Ipv4Addr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((from, 0).into()).unwrap();
    socket.connect(address).await.unwrap()
}

pub(crate) async fn get(node: &Node, from: Ipv4Addr, path: &str) -> Answer {
    get_with(node, from, path, "").await
}

/// `fields`: more header fields, each with its line's end.
pub(crate) async fn get_with(node: &Node, from: Ipv4Addr, path: &str, fields: &str) -> Answer {
    let stream = connect(node.address, from).await;
    ask(stream, &format!("GET {path} HTTP/1.1\r\nHost: n1\r\nConnection: close\r\n{fields}\r\n")).await
}

pub(crate) async fn ask(mut stream: impl AsyncRead + AsyncWriteExt + Unpin, request: &str) -> Answer {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut text)).await.unwrap().unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}

/// Reads until `text` has come.
pub(crate) async fn read_until(stream: &mut (impl AsyncRead + Unpin), text: &str) -> String {
    let mut read = String::new();
    let all = async {
        while !read.contains(text) {
            let mut part = [0; 4096];
            let length = stream.read(&mut part).await.unwrap();
            assert!(length > 0, "ended before {text:?}: {read}");
            read.push_str(std::str::from_utf8(&part[..length]).unwrap());
        }
    };
    timeout(PATIENCE, all).await.unwrap();
    read
}
