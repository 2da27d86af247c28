//! The commands of the pages, as they stand there: a new user pastes them in order, those of the first page first.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use hitless_e2e::app::{PATIENCE, Shape, all_ready, image_of};
use hitless_e2e::build::workspace;
use hitless_e2e::until::until_answered;
use hitless_e2e::{App, Kubectl, Stack};
use hitless_pages::pages;
use serde_json::json;

/// The namespace that the first page speaks of.
const NAMESPACE: &str = "shop";
/// Where an image without a registry comes from. The cluster's own registry stands for that one, too.
const DOCKER_HUB: &str = "docker.io";

/// The first page.
const FIRST: &str = "README.md";

/// Lines of the blocks of shell, in order, but of those that say why they are not run.
fn commands() -> anyhow::Result<Vec<String>> {
    let mut pages = pages()?;
    pages.sort_by_key(|page| page.path != FIRST);
    let blocks = pages.iter().flat_map(|page| &page.fences);
    let pasted = blocks.filter(|fence| fence.language() == "sh" && fence.remark().is_empty());
    Ok(pasted.flat_map(|fence| fence.text.lines()).map(ToOwned::to_owned).collect())
}

/// A directory such as the user's: the manifests to apply, rules to look at, and a kubeconfig whose namespace is [`NAMESPACE`].
struct Desk {
    directory: PathBuf,
    kubectl: Kubectl,
}

impl Desk {
    fn new(stack: &Stack) -> anyhow::Result<Self> {
        let directory = workspace().join("target/tmp/docs");
        if directory.exists() {
            fs::remove_dir_all(&directory)?;
        }
        fs::create_dir_all(directory.join("rules"))?;
        // With the images that this cluster has.
        let overlay = stack.write_overlay()?;
        fs::create_dir_all(overlay.join("crds"))?;
        fs::write(overlay.join("crds/kustomization.yaml"), "resources: [../../../../manifests/crds]\n")?;
        symlink(overlay, directory.join("manifests"))?;
        let rule = json!({"apiVersion": "apps.kusionstack.io/v1alpha1", "kind": "PodTransitionRule",
            "metadata": {"name": "web", "namespace": NAMESPACE}, "spec": {"selector": {"matchLabels": {"app": "web"}},
            "rules": [{"name": "half", "availablePolicy": {"maxUnavailableValue": "50%"}}]}});
        fs::write(directory.join("rules/web.json"), rule.to_string())?;
        let kubectl = Kubectl::new(Arc::clone(&stack.cluster), NAMESPACE);
        let desk = Self { directory, kubectl };
        fs::write(desk.kubeconfig(), desk.kubectl.run(&["config", "view", "--raw"])?)?;
        desk.run(&format!("kubectl config set-context --current --namespace={NAMESPACE}"))?;
        Ok(desk)
    }

    fn kubeconfig(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }

    fn shell(&self, command: &str) -> anyhow::Result<Command> {
        let mut shell = self.kubectl.program("bash")?;
        shell.args(["-euc", command]).env("KUBECONFIG", self.kubeconfig()).current_dir(&self.directory);
        Ok(shell)
    }

    fn run(&self, command: &str) -> anyhow::Result<()> {
        println!("$ {command}");
        let output = self.shell(command)?.stdin(Stdio::null()).output()?;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        println!("{text}");
        ensure!(output.status.success(), "`{command}` ended with {}:\n{text}", output.status);
        Ok(())
    }

    /// Of a command that goes on for ever: until it speaks of that.
    fn run_until(&self, command: &str, word: &str) -> anyhow::Result<()> {
        println!("$ {command}");
        let mut child = self.shell(command)?.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().context("no standard output")?;
        let is_told = BufReader::new(output).lines().map_while(Result::ok).any(|line| line.contains(word));
        child.kill()?;
        child.wait()?;
        ensure!(is_told, "`{command}` ended and did not speak of {word}");
        Ok(())
    }
}

#[test]
fn the_pages_can_be_pasted() -> anyhow::Result<()> {
    let stack = Stack::attach()?;
    for version in ["v1", "v2", "v3"] {
        stack.push_echo("library/web", version, &[], None)?;
    }
    let commands = commands()?;
    ensure!(commands.len() > 8, "the pages have the commands {commands:?}");
    let shape = Shape {
        registry: format!("{DOCKER_HUB}/library"),
        repository: "web".to_owned(),
        update: None,
        mode: None,
        gate: false,
        ..Shape::default()
    };
    let app = App::start(&stack.cluster, NAMESPACE, &shape)?;
    let database = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}, "spec": {"replicas": 0,
        "serviceName": "db", "selector": {"matchLabels": {"app": "db"}}, "template": {"metadata": {"labels": {"app": "db"}},
        "spec": {"containers": [{"name": "db", "image": "web:v1"}]}}}});
    app.kubectl.feed(&["apply"], &database)?;
    let desk = Desk::new(&stack)?;
    let mut before = Vec::new();
    for command in &commands {
        if command.contains("set image") {
            app.wait_ready(3)?;
            before = app.identities();
        }
        if command.trim_end().ends_with(" -w") {
            desk.run_until(command, "web")?;
        } else if command.contains("doctor") {
            // The tests beside this one kill controllers.
            until_answered(|| desk.run(command))?;
        } else {
            desk.run(command)?;
        }
    }
    app.pods.wait("the new image in all pods", PATIENCE, |pods| {
        (all_ready(pods, 3) && pods.values().all(|pod| image_of(pod) == "web:v2")).then_some(())
    })?;
    ensure!(app.identities() == before, "pods were replaced: {before:?} became {:?}", app.identities());
    // What is said of it stands where people look: `kubectl get events --sort-by=.lastTimestamp`.
    let events = app.kubectl.list(&["events"])?;
    let ours: Vec<_> = events.iter().filter(|event| event["reportingComponent"] == "hitless-controller").collect();
    let timeless = ours.iter().find(|event| !event["lastTimestamp"].is_string());
    ensure!(!ours.is_empty() && timeless.is_none(), "{} Events, and one without its time: {timeless:?}", ours.len());
    Ok(())
}
