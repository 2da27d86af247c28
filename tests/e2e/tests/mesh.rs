//! A pod with a mesh's proxy: what clients send to the application's port is redirected to a sidecar in the pod's own network
//! namespace, and that has connections to the application. The proxy is Debian's HAProxy, the redirect the packet filter's.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use hitless_e2e::app::{PATIENCE, Shape};
use hitless_e2e::operations::{Operations, number};
use hitless_e2e::servers::Server;
use hitless_e2e::stack::main_process;
use hitless_e2e::traffic::Rate;
use hitless_e2e::{App, Stack, Traffic};
use serde_json::{Value, json};

/// As Istio's init container has it, but for users and ports that are left out.
const REDIRECT: &str = "table ip mesh {
    chain prerouting { type nat hook prerouting priority dstnat; tcp dport 8080 redirect to :15006; }
}";

fn redirect(pod: &Value) -> anyhow::Result<()> {
    let pid = main_process(pod)?.to_string();
    let mut nft = Command::new("nsenter")
        .args(["--net", "--target", &pid, "--", "nft", "-f", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .context("run nsenter and nft")?;
    nft.stdin.take().context("no standard input")?.write_all(REDIRECT.as_bytes())?;
    ensure!(nft.wait()?.success(), "the packet filter of the pod refused the redirect");
    Ok(())
}

/// What the proxies have logged: the requests that they could not bring to an end.
fn proxies_words(app: &App) -> Vec<String> {
    let names = app.pods.objects().into_keys();
    let logs = names.map(|name| app.kubectl.run(&["logs", &name, "--container", "proxy"]));
    logs.map(|log| log.unwrap_or_else(|error| format!("{error:#}"))).collect()
}

/// Two pods are brought to another version under load; says what their operations report.
fn upgrade(name: &str, mode: &str, rate: Rate) -> anyhow::Result<Vec<i64>> {
    let stack = Stack::attach()?;
    let proxy = Server::named("haproxy")?;
    proxy.push(&stack.cluster)?;
    let image = hitless_e2e::stack::image(&proxy.repository(), "v1");
    let proxy = json!({"name": "proxy", "image": image, "restartPolicy": "Always",
        "command": ["/usr/sbin/haproxy", "-W", "-db", "-f", "/srv/mesh.cfg"]});
    let drain = json!({"ports": [{"port": 8080, "treat": "http1"}]}).to_string();
    let patch = json!({"spec": {"template": {"metadata": {"annotations": {"hitless.dev/mode": mode, "hitless.dev/drain": drain}},
        "spec": {"initContainers": [proxy]}}}});
    let shape = Shape { replicas: 2, mode: None, patch, ..Shape::default() };
    let app = App::start(&stack.cluster, name, &shape)?;
    app.pods.objects().values().try_for_each(redirect)?;
    app.wait_ready(2)?;
    let before = app.identities();
    let traffic = Traffic::start(&stack.cluster, &stack.programs, app.address, rate)?;
    traffic.wait_for_requests(200, PATIENCE)?;
    let operations = Arc::new(Operations::start(&stack)?);
    let ends: Vec<_> = before
        .iter()
        .map(|pod| {
            let (operations, uid) = (Arc::clone(&operations), pod.uid.clone());
            std::thread::spawn(move || operations.wait_end(&uid, PATIENCE))
        })
        .collect();
    app.set_version("v2")?;
    let mut given_up = Vec::new();
    for end in ends {
        let end = end.join().map_err(|_| anyhow::anyhow!("a thread that waits for an operation has died"))??;
        println!("{}", serde_json::to_string(&end.result)?);
        given_up.push(number(&end, "givenUp")?);
    }
    app.wait_unheld()?;
    app.wait_version("v2", 2)?;
    traffic.wait_for_more(200, PATIENCE)?;
    let report = traffic.stop()?;
    println!("{}", serde_json::to_string(&report)?);
    ensure!(report.failed() == 0, "requests failed: {:?}; the proxies: {:#?}", report.failures, proxies_words(&app));
    ensure!(app.identities() == before, "pods were replaced");
    Ok(given_up)
}

#[test]
fn behind_a_meshs_proxy_a_hold_answers_what_the_proxy_has_asked_for() -> anyhow::Result<()> {
    let given_up = upgrade("t-mesh-hold", "Hold", Rate { delay_ms: 20, ..Rate::default() })?;
    ensure!(given_up == [0, 0], "requests of the proxy were cut off: {given_up:?}");
    Ok(())
}

/// The clients' own connections to the proxy outlive the application's restart, and its requests are not cut off.
#[test]
fn behind_a_meshs_proxy_a_pod_leaves_without_waiting_for_the_proxys_clients() -> anyhow::Result<()> {
    // The drain ends at a look at which no request of the proxy is in flight. With answers that take 20 ms each pod has 2.3 of them
    // on average, and one of 20 drains finds none of them away before the deadline (docs/draining.md, Meshes).
    let given_up = upgrade("t-mesh-leave", "Leave", Rate { delay_ms: 5, ..Rate::default() })?;
    ensure!(given_up == [0, 0], "connections were given up: {given_up:?}");
    Ok(())
}
