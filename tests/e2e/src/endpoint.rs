//! The agents' HTTP endpoint.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::Context as _;
use hitless_cluster::{Cluster, Place};
use serde_json::Value;

use crate::stack::main_process;

/// Port of the agent on its node's address.
const PORT: u16 = 9754;

/// `GET path` from the agent of the node with that name, as the node itself, which sees all: status and body.
pub fn get(cluster: &Cluster, node: &str, path: &str) -> anyhow::Result<(u16, String)> {
    let index = node.strip_prefix('n').and_then(|index| index.parse().ok());
    let index = index.with_context(|| format!("{node} is no name of a node here"))?;
    get_from(cluster, Place::Node(index), cluster.loopback(), path)
}

/// The same of the node with that address, by somebody in `place`. The control plane is a stranger to every node.
pub fn get_from(cluster: &Cluster, place: Place, node: IpAddr, path: &str) -> anyhow::Result<(u16, String)> {
    get_at(cluster, place, SocketAddr::new(node, PORT), path)
}

/// `GET path` of whoever listens there, by somebody in `place`.
pub fn get_at(cluster: &Cluster, place: Place, address: SocketAddr, path: &str) -> anyhow::Result<(u16, String)> {
    parse(&cluster.in_network(place, || ask(address, path))??)
}

/// `GET path` of the agent at that address of its node, by a pod: its request comes from the pod's own address.
pub fn get_as(cluster: &Cluster, pod: &Value, node: IpAddr, path: &str) -> anyhow::Result<(u16, String)> {
    parse(&cluster.in_network_of(main_process(pod)?, || ask(SocketAddr::new(node, PORT), path))??)
}

fn parse(answer: &str) -> anyhow::Result<(u16, String)> {
    let (head, body) = answer.split_once("\r\n\r\n").context("no HTTP answer")?;
    let status = head.split_whitespace().nth(1).and_then(|code| code.parse().ok()).context("no status")?;
    Ok((status, body.to_owned()))
}

fn ask(address: SocketAddr, path: &str) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
