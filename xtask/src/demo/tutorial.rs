//! `cargo xtask demo tutorial`: KusionStack's tutorial, with its own manifests, changed in nothing but the names of images and the
//! address.

mod client;
mod update;

use anyhow::ensure;
use hitless_cluster::image::ImageSpec;
use hitless_e2e::haproxy::POOL;
use hitless_e2e::stack::{Stack, image};
use hitless_e2e::{HaProxy, Kubectl, Watch, namespace};
use serde::Serialize;

use super::say::Say;
use client::Client;
use update::Update;

const NAMESPACE: &str = "operating-tutorial";
/// Name of the TrafficProvider.
const PROVIDER: &str = "edge";
const SERVER: &str = include_str!("tutorial/server.yaml");
const SERVICE: &str = include_str!("tutorial/service.yaml");
const CLIENT: &str = include_str!("tutorial/client.yaml");
/// Another image and another command.
const UPDATE: &str = include_str!("tutorial/update.yaml");
const RULE: &str = include_str!("tutorial/rule.yaml");
/// The tutorial's repository, and its tags.
const REPOSITORY: &str = "wu8685/echo";
const TAGS: [&str; 3] = ["1.2", "1.3", "1.4"];

/// The last line of `--json`.
#[derive(Serialize)]
pub(super) struct Outcome {
    without_rule: Paths,
    /// One entry a run.
    with_rule: Vec<Paths>,
    /// From the start of the command, builds included.
    total_seconds: f64,
}

/// By the path that requests take.
#[derive(Serialize)]
struct Paths {
    cluster_ip: Updates,
    /// HAProxy as the load balancer of the tutorial's Service, with pods as servers.
    haproxy: Updates,
}

/// The two cases.
#[derive(Serialize)]
struct Updates {
    /// Only the image is another one.
    image: Update,
    /// The image and the command are.
    image_and_command: Update,
}

impl Updates {
    const fn failed(&self) -> u64 {
        self.image.failed + self.image_and_command.failed
    }
}

/// What was seen on one path.
struct Path {
    without_rule: Updates,
    /// One entry a run.
    with_rule: Vec<Updates>,
}

impl Outcome {
    /// What the tutorial promises: nothing fails with the rule.
    pub(super) fn is_good(&self) -> bool {
        self.with_rule.iter().map(|paths| paths.cluster_ip.failed() + paths.haproxy.failed()).sum::<u64>() == 0
    }
}

/// The tutorial's text with our image in place of its own. Its second version by tag is an update of the image alone.
fn manifest(text: &str, tag: Option<&str>) -> String {
    let ours = image(REPOSITORY, "");
    let text = text.replace(&format!("{REPOSITORY}:"), &ours);
    tag.map_or_else(|| text.clone(), |tag| text.replace(&format!("{ours}1.3"), &format!("{ours}{tag}")))
}

pub(super) fn play(say: &Say, stack: &Stack, runs: u32) -> anyhow::Result<Outcome> {
    push_images(stack)?;
    let kubectl = Kubectl::new(stack.cluster.clone(), NAMESPACE);
    namespace::make(&kubectl)?;
    say.line("the tutorial's CollaSet \"server\" with 3 replicas, and its Service");
    kubectl.feed_text(&["apply"], &manifest(SERVER, None))?;
    update::wait_available(&kubectl, "server", 3)?;
    kubectl.feed_text(&["apply"], SERVICE)?;
    let address = kubectl.get(&["service", "server"])?["spec"]["clusterIP"].as_str().unwrap_or_default().to_owned();
    ensure!(!address.is_empty(), "Service server has no address");
    let cluster_ip = through(say, &kubectl, &address, runs)?;
    say.line("HAProxy becomes the Service's load balancer: a TrafficProvider, and an annotation on the Service");
    let haproxy = HaProxy::start(&stack.cluster, 0)?;
    stack.system().feed(&["apply"], &haproxy.provider(PROVIDER, NAMESPACE))?;
    kubectl.run(&["annotate", "service", "server", &format!("hitless.dev/traffic={PROVIDER}/{POOL}")])?;
    let servers = Watch::start(&kubectl, &["pods", "-l", "app=server"])?;
    haproxy.wait_servers(|| servers.objects())?;
    let behind = through(say, &kubectl, &haproxy.address().to_string(), runs)?;
    haproxy.wait_servers(|| servers.objects())?;
    kubectl.run(&["delete", "namespace", NAMESPACE, "--wait=false"])?;
    stack.system().run(&["delete", "trafficprovider", PROVIDER])?;
    let both = cluster_ip.with_rule.into_iter().zip(behind.with_rule);
    Ok(Outcome {
        without_rule: Paths { cluster_ip: cluster_ip.without_rule, haproxy: behind.without_rule },
        with_rule: both.map(|(cluster_ip, haproxy)| Paths { cluster_ip, haproxy }).collect(),
        total_seconds: say.seconds(),
    })
}

/// The tutorial with its client on that path, without and with the rule.
fn through(say: &Say, kubectl: &Kubectl, address: &str, runs: u32) -> anyhow::Result<Path> {
    say.line(&format!("the tutorial's client: 10 workers with 10 requests/s each to http://{address}/echo"));
    kubectl.feed_text(&["apply"], &manifest(CLIENT, None).replace("<EXTERNAL_IP>", address))?;
    update::wait_available(kubectl, "client", 1)?;
    let client = Client::find(kubectl)?;
    // In its first second the Service may not be known on the client's node.
    let first = client.sum_after(1)?;
    let second = client.sum_after(1)?;
    ensure!(first.failed == second.failed, "requests fail before anything is updated: {first:?}, then {second:?}");
    Say::more(&format!("the client: {}", client.last_line()?));
    say.line("without a rule");
    let without_rule = updates(say, kubectl, &client)?;
    say.line("with the tutorial's PodTransitionRule, maxUnavailableValue: 50%");
    kubectl.feed_text(&["apply"], RULE)?;
    let with_rule = (0..runs).map(|_| updates(say, kubectl, &client)).collect::<anyhow::Result<_>>()?;
    kubectl.feed_text(&["delete"], RULE)?;
    kubectl.run(&["delete", "collaset", "client"])?;
    kubectl.run(&["wait", "pods", "-l", "app=client", "--for=delete", "--timeout=120s"])?;
    Ok(Path { without_rule, with_rule })
}

/// From the tutorial's first version to another image, then to another image and command, and back to the first version.
fn updates(say: &Say, kubectl: &Kubectl, client: &Client<'_>) -> anyhow::Result<Updates> {
    let update = |what: &str, manifest: &str| -> anyhow::Result<Update> {
        let update = update::carry_out(kubectl, client, manifest)?;
        Say::more(&format!("{what}: {}", update.text()));
        Say::more(&format!("the client: {}", client.last_line()?));
        Ok(update)
    };
    let image = update("the image changes", &manifest(SERVER, Some("1.4")))?;
    let image_and_command = update("image and command change", &manifest(UPDATE, None))?;
    update("and back", &manifest(SERVER, None))?;
    say.line("all pods are as the tutorial begins");
    Ok(Updates { image, image_and_command })
}

/// The reference server and the client, under the names that the tutorial's commands have.
fn push_images(stack: &Stack) -> anyhow::Result<()> {
    let programs = &stack.programs;
    let at = |program: &std::path::Path, name: &str| (program.to_path_buf(), name.to_owned());
    for tag in TAGS {
        let files = vec![
            at(&programs.echo_server, "/server"),
            at(&programs.echo_server, "/app/echo"),
            at(&programs.tutorial_client, "/client"),
        ];
        let spec = ImageSpec { files, ..ImageSpec::default() }.with_env("VERSION", tag);
        stack.cluster.push_image(&format!("{REPOSITORY}:{tag}"), &spec.build()?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_the_tutorials_manifests_changes_but_the_images() {
        let ours = image(REPOSITORY, "1.3");
        assert_eq!(manifest(SERVER, None).replace(&ours, "wu8685/echo:1.3"), SERVER);
        assert!(manifest(SERVER, Some("1.4")).contains(&image(REPOSITORY, "1.4")));
        assert!(manifest(UPDATE, None).contains(&image(REPOSITORY, "1.2")));
        assert!(CLIENT.contains("http://<EXTERNAL_IP>/echo"));
    }
}
