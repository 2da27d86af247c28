//! An application of long streams: its Deployment and Service, and clients that keep streams open.

use std::net::SocketAddr;

use anyhow::Context as _;
use hitless_cluster::Place;
use hitless_streams::Report;
use hitless_streams::server::Port;
use serde_json::json;

use crate::app::{Shape, readiness_probe};
use crate::client::Client;
use crate::stack::image;
use crate::{App, Stack};

/// Repository of the server's images.
const REPOSITORY: &str = "streams";

/// Three replicas that leave service, and wait for streams as long as `seconds`.
#[must_use]
pub fn shape(seconds: u32) -> Shape {
    let drain = json!({"stragglerAfterSeconds": seconds, "deadlineSeconds": seconds}).to_string();
    let ports = Port::ALL.map(|port| json!({"name": port.name, "containerPort": port.number}));
    let container = json!({"name": "web", "image": image(REPOSITORY, "v1"), "ports": ports,
        "readinessProbe": readiness_probe(Port::HTTP.name)});
    let template =
        json!({"metadata": {"annotations": {"hitless.dev/drain": drain}}, "spec": {"containers": [container]}});
    Shape { patch: json!({"spec": {"template": template}}), repository: REPOSITORY.to_owned(), ..Shape::default() }
}

/// Makes a Service whose ports have the numbers of the pod's, waits until it answers, and returns the address of its first one.
pub fn expose(app: &App) -> anyhow::Result<SocketAddr> {
    let ports = Port::ALL.map(|port| json!({"name": port.name, "port": port.number, "targetPort": port.number}));
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "streams"},
        "spec": {"selector": {"app": "web"}, "ports": ports}});
    app.kubectl.feed(&["apply"], &service)?;
    let ip = app.kubectl.get(&["service", "streams"])?["spec"]["clusterIP"].clone();
    let ip = ip.as_str().context("the Service has no clusterIP")?.parse()?;
    let address = SocketAddr::new(ip, Port::HTTP.number);
    app.wait_answering_at(address)?;
    Ok(address)
}

/// Keeps `each` streams of each kind open from node `n1`, each for `milliseconds`.
pub fn start(stack: &Stack, service: SocketAddr, each: u32, milliseconds: u32) -> anyhow::Result<Client<Report>> {
    let mut command = stack.cluster.command(Place::Node(1), &stack.programs.streams.to_string_lossy())?;
    command.args(["--server", &service.ip().to_string(), "--each", &each.to_string()]);
    command.args(["--lasts-ms", &milliseconds.to_string()]);
    Client::start(command)
}
