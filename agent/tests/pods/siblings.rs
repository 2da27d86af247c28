//! A pod with another container that talks to the one that is replaced, as the proxy of a mesh does, and with listeners that stay.

use std::net::{SocketAddr, TcpListener, TcpStream};

use hitless_agent::drain::observed::Stage as Looking;
use hitless_agent::view::Count;
use hitless_api::DrainSpec;

use super::lab::{Lab, SERVICE_V4, Sibling};
use super::leaving::Looker;
use super::{PATIENCE, Shop, drain, netns};

/// Where an ambient mesh listens in each pod.
const HBONE: u16 = 15008;

/// A proxy with a connection that is idle, and one with a request in flight.
fn start_proxy(lab: &Lab) -> Sibling {
    let mut proxy = lab.start_sibling(
        "exec 3<>/dev/tcp/127.0.0.1/8080 4<>/dev/tcp/127.0.0.1/8080
        echo fast >&3; read -u 3 line; echo idle $line
        echo slow >&4; sleep 0.1; echo asked
        read -u 3 line || echo closed
        read -u 4 line; echo answered $line",
    );
    proxy.expect("idle done");
    proxy.expect("asked");
    proxy
}

pub(crate) fn held(lab: &Lab) {
    let mut server = lab.start_server();
    let mut proxy = start_proxy(lab);
    let shop = Shop::new(lab, drain());
    assert_eq!(shop.begin(), 1, "the request in flight is waited for as long as clients may be held for it");
    proxy.expect("closed");
    server.command("release");
    proxy.expect("answered done");
    shop.holds.set_targets(std::collections::BTreeMap::new());
}

pub(crate) fn leaving(lab: &Lab) {
    let mut server = lab.start_server();
    // A connection of the application to itself ends with it.
    server.command("dial 127.0.0.1:8080");
    let mut proxy = start_proxy(lab);
    let looker = Looker::new(lab);
    looker.set_target(Looking::Draining, drain());
    let waited = |count: &Count| count.quiet && (count.closed, count.inbound) == (0, 2);
    let count = looker.counted("the proxy is waited for, and may use any of its connections", waited);
    assert!(!count.drained(), "{count:?}");
    server.command("release");
    // Its connections stay: closed ones would be opened anew for its next clients, again and again.
    looker.counted("the proxy has no request in flight", |count| count.drained() && count.closed == 0);
    looker.set_target(Looking::Replacing, drain());
    proxy.expect("closed");
    proxy.expect("answered done");
}

/// Who listens belongs to no container of the pod.
pub(crate) fn staying(lab: &Lab) {
    let _server = lab.start_server();
    let mesh = lab.in_pod(|| TcpListener::bind(("0.0.0.0", HBONE)).unwrap());
    let service = SocketAddr::from((SERVICE_V4, HBONE));
    let _pooled = lab.in_client(|| TcpStream::connect_timeout(&service, PATIENCE).unwrap());
    let _accepted = mesh.accept().unwrap();
    assert_eq!(netns(lab).connections().unwrap().inbound.len(), 1);
    let looker = Looker::new(lab);
    looker.set_target(Looking::Draining, DrainSpec::default());
    looker.counted("it is drained", |count| count.drained());
}
