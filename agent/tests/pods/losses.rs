//! Connections that a data plane cuts off when the pod becomes not Ready.

use std::net::TcpStream;
use std::time::Duration;

use hitless_agent::drain::observed::Stage as Looking;
use hitless_agent::view::Losses;
use hitless_api::DrainSpec;
use rustix::net::sockopt::set_socket_linger;

use super::lab::{Lab, eventually};
use super::leaving::Looker;
use super::{answer, ask, connect, drain};

/// Nothing is closed, for all that the agent knows.
fn tcp() -> DrainSpec {
    DrainSpec { ports: Vec::new(), ..drain() }
}

fn client(lab: &Lab) -> TcpStream {
    let client = connect(lab);
    ask(&client, "fast");
    assert_eq!(answer(&client).unwrap(), "done\n");
    client
}

fn end_by_reset(client: TcpStream) {
    set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
    drop(client);
}

pub(crate) fn reset(lab: &Lab) {
    let _server = lab.start_server();
    let mut clients: Vec<TcpStream> = (0..7).map(|_| client(lab)).collect();
    let looker = Looker::new(lab);
    looker.set_target(Looking::Leaving, tcp());
    looker.counted("all are there", |count| count.inbound == 7);
    end_by_reset(clients.remove(0));
    let count = looker.counted("one was reset while the pod was Ready", |count| count.inbound == 6);
    assert_eq!(count.losses, None, "{count:?}");

    looker.set_target(Looking::Draining, tcp());
    looker.counted("Ready has fallen", |count| count.losses.is_some());
    clients.drain(..2).for_each(drop);
    clients.drain(..3).for_each(end_by_reset);
    let count = looker.counted("one is left", |count| count.quiet && count.inbound == 1);
    assert_eq!(count.losses, Some(Losses { open: 6, reset: 3, unanswered: 0 }), "{count:?}");

    looker.set_target(Looking::Destroying, tcp());
    let count = looker.counted("that is reset by the agent", |count| count.destroyed == 1);
    assert_eq!(count.losses.unwrap().reset, 3, "{count:?}");
}

pub(crate) fn given_to_another(lab: &Lab) {
    let _server = lab.start_server();
    let clients: Vec<TcpStream> = (0..4).map(|_| client(lab)).collect();
    let looker = Looker::new(lab);
    looker.set_target(Looking::Leaving, tcp());
    for client in &clients {
        ask(client, "pieces");
        eventually("its answer begins", || client.peek(&mut [0]).ok());
    }
    looker.counted("all are there", |count| count.inbound == 4);
    looker.set_target(Looking::Draining, tcp());
    looker.counted("Ready has fallen", |count| count.losses.is_some());
    lab.give_connections_to_another();
    let count = looker.counted("nobody answers", |count| count.losses.unwrap().unanswered == 4);
    assert_eq!(count.losses, Some(Losses { open: 4, reset: 0, unanswered: 4 }), "{count:?}");
}
