//! A pod in an ambient mesh: the mesh's tunnel has sockets in the pod's namespace, and connects to the application from the client's
//! own address. A mark on what it sends leads the answers back to it.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::thread;
use std::time::Instant;

use hitless_kernel::SynHold;
use socket2::{Domain, Socket, Type};

use crate::hold::{PATIENCE, REPETITION, held_clients, spec};
use crate::lab::{CLIENT_V4, Lab, POD_V4, eventually};
use crate::ports::DUAL_STACK;
use crate::{answer, ask, open};

/// On all that Istio's tunnel sends.
const MARK: u32 = 0x539;

/// What Istio has in the namespace of a pod of an ambient mesh: whatever others than the tunnel send is redirected to it, and answers
/// to what it has sent go to the loopback device.
const RULES: &str = "
    table ip mesh {
        chain marks_in {
            type filter hook prerouting priority mangle;
            meta mark & 0x00000fff == 0x00000539 ct mark set ct mark and 0xfffff000 or 0x00000111
        }
        chain marks_out {
            type route hook output priority mangle;
            ct mark & 0x00000fff == 0x00000111 meta mark set ct mark
        }
        chain redirect_in {
            type nat hook prerouting priority dstnat;
            ip daddr != 127.0.0.1 tcp dport != 15008 meta mark & 0x00000fff != 0x00000539 redirect to :15006
        }
        chain redirect_out {
            type nat hook output priority -100;
            meta mark & 0x00000fff == 0x00000111 accept
            ip daddr != 127.0.0.1 oifname lo accept
            ip daddr != 127.0.0.1 meta l4proto tcp meta mark & 0x00000fff != 0x00000539 redirect to :15001
        }
    }";

fn join_the_mesh(lab: &Lab) {
    let run = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output().unwrap();
        assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    };
    lab.in_pod(|| {
        run("nft", &[RULES]);
        run("ip", &["rule", "add", "fwmark", "0x111/0xfff", "lookup", "100"]);
        run("ip", &["route", "add", "local", "0.0.0.0/0", "dev", "lo", "table", "100"]);
    });
}

/// A connection of the tunnel, in the calling thread's namespace, for the client with this port.
fn connect(client_port: u16) -> io::Result<TcpStream> {
    let tunnel = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    tunnel.set_ip_transparent_v4(true)?;
    tunnel.set_mark(MARK)?;
    tunnel.bind(&SocketAddr::from((CLIENT_V4, client_port)).into())?;
    tunnel.connect_timeout(&SocketAddr::from((POD_V4, DUAL_STACK)).into(), PATIENCE)?;
    Ok(tunnel.into())
}

#[test]
fn what_an_ambient_meshs_tunnel_asks_for_counts_and_is_held_and_sent_once_more() {
    let Some(lab) = Lab::new() else { return };
    let _server = lab.start_server();
    join_the_mesh(&lab);
    let before = lab.in_pod(|| connect(45_000)).unwrap();
    ask(&before, "fast");
    assert_eq!(answer(&before), "done\n");
    let netns = open(&lab);
    let peers: Vec<SocketAddr> = netns.connections().unwrap().inbound.iter().map(|each| each.peer).collect();
    assert_eq!(peers, [SocketAddr::from((CLIENT_V4, 45_000))], "it counts as the client's, and once");

    let mut hold = SynHold::open(&netns).unwrap();
    hold.begin(spec(&[DUAL_STACK])).unwrap();
    let start = Instant::now();
    let clients = [45_001, 45_002].map(|port| lab.in_pod(|| thread::spawn(move || connect(port))));
    eventually("the tunnel's clients are held", || (held_clients(&mut hold) == 2).then_some(()));
    assert_eq!(hold.release().unwrap().replayed, 2);
    for client in clients {
        let client = client.join().unwrap().unwrap();
        ask(&client, "fast");
        assert_eq!(answer(&client), "done\n");
    }
    assert!(start.elapsed() < REPETITION, "by replay, not by repetition");
}
