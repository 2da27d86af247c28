//! The unix socket.

use std::path::Path;

use tokio::net::UnixStream;

use crate::client::{Answer, ask};
use crate::node::{Node, uid};

fn be_in(proc_root: &Path, cgroup: &str) {
    let own = proc_root.join(std::process::id().to_string());
    std::fs::create_dir_all(&own).unwrap();
    std::fs::write(own.join("cgroup"), cgroup).unwrap();
}

async fn get(socket: &Path, path: &str) -> Answer {
    let stream = UnixStream::connect(socket).await.unwrap();
    ask(stream, &format!("GET {path} HTTP/1.1\r\nHost: n1\r\nConnection: close\r\n\r\n")).await
}

#[tokio::test]
async fn a_process_is_told_by_its_control_group_to_be_its_pod() {
    let (node, directory) = (Node::start().await, tempfile::tempdir().unwrap());
    let (socket, proc_root) = (directory.path().join("agent.sock"), directory.path().join("proc"));
    node.listen(&socket, &proc_root);
    let web = uid("web");
    for cgroup in [
        format!("0::/kubepods/burstable/pod{web}/f00d\n"),
        format!("0::/kubepods.slice/kubepods-pod{}.slice/cri-containerd-f00d.scope\n", web.replace('-', "_")),
        format!("7:memory:/kubepods/pod{web}/f00d\n0::/\n"),
    ] {
        be_in(&proc_root, &cgroup);
        let answer = get(&socket, "/v1/self/drain").await;
        assert_eq!((answer.status, &answer.json()["pod"]), (200, &"shop/web".into()), "{cgroup}");
        assert_eq!(get(&socket, "/v1/pods/shop/web/drain").await.status, 200);
        assert_eq!(get(&socket, "/v1/pods/shop/other/drain").await.status, 403);
        assert_eq!(get(&socket, "/v1/node").await.status, 403);
        assert_eq!(get(&socket, "/lb/shop/other").await.status, 200);
    }
}

#[tokio::test]
async fn root_outside_of_pods_is_the_node_and_nobody_else_is() {
    let (node, directory) = (Node::start().await, tempfile::tempdir().unwrap());
    let (socket, proc_root) = (directory.path().join("agent.sock"), directory.path().join("proc"));
    node.listen(&socket, &proc_root);
    be_in(&proc_root, "0::/system.slice/kubelet.service\n");
    let is_root = rustix::process::geteuid().is_root();
    let answer = get(&socket, "/v1/node").await;
    assert_eq!(answer.status, if is_root { 200 } else { 403 }, "{answer:?}");
    // A pod that the agent does not know, and a process that is gone.
    be_in(&proc_root, "0::/kubepods/pod11111111-2222-3333-4444-555555555555/f00d\n");
    assert_eq!(get(&socket, "/v1/node").await.status, 403);
    std::fs::remove_dir_all(&proc_root).unwrap();
    let answer = get(&socket, "/v1/self/drain").await;
    assert!(answer.status == 403 && answer.body.contains("in no pod"), "{answer:?}");
}

#[tokio::test]
async fn it_is_removed_when_the_agent_stops() {
    let (node, directory) = (Node::start().await, tempfile::tempdir().unwrap());
    let socket = directory.path().join("agent.sock");
    let served = node.listen(&socket, directory.path());
    assert_eq!(get(&socket, "/healthz").await.status, 200);
    node.token.cancel();
    served.await.unwrap();
    assert!(!socket.exists());
}
