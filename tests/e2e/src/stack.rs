//! hitless on a cluster, installed as a user installs it: images in a registry, `kubectl apply -k`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use hitless_cluster::Cluster;
use hitless_cluster::image::{Ballast, ImageSpec};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::app::{PATIENCE, all_ready, is_ready};
use crate::build::{Programs, workspace};
use crate::{Kubectl, Watch};

/// The setting that names the cluster of the end-to-end tests.
pub const CLUSTER: &str = "HITLESS_E2E_CLUSTER";
/// The setting that names a file to which every test appends its name and its seconds.
pub const TIMES: &str = "HITLESS_E2E_TIMES";
/// Namespace that hitless runs in.
pub const SYSTEM_NAMESPACE: &str = "hitless-system";

/// Where the definitions of what people write are.
const DEFINITIONS: [&str; 3] = ["manifests/crds", "manifests/kusionstack/crds", "manifests/kruise/crds"];

/// Label selector of the agents' pods.
const AGENTS: &str = "app.kubernetes.io/name=hitless-agent";
/// Label selector of the controllers' pods.
const CONTROLLERS: &str = "app.kubernetes.io/name=hitless-controller";

/// Registry of all images: the cluster's own stands for every other one.
pub const REGISTRY: &str = "hitless.test";

/// Versions of the reference server that are pushed: tag and the environment that makes the difference.
const ECHO_VERSIONS: [(&str, &[(&str, &str)]); 6] = [
    ("v1", &[]),
    ("v2", &[]),
    ("v3", &[]),
    ("v4", &[]),
    ("slow", &[("START_DELAY", "3000")]),
    ("unready", &[("FAIL", "unready")]),
];

/// Image of the reference server of that version.
#[must_use]
pub fn echo_image(version: &str) -> String {
    image("echo", version)
}

/// An image in the cluster's registry.
#[must_use]
pub fn image(repository: &str, version: &str) -> String {
    format!("{REGISTRY}/{repository}:{version}")
}

/// hitless on a cluster.
pub struct Stack {
    /// The cluster.
    pub cluster: Arc<Cluster>,
    /// The programs that were installed.
    pub programs: Programs,
}

impl Stack {
    /// The installation that `cargo xtask test` made before it started the tests.
    pub fn attach() -> anyhow::Result<Self> {
        let name =
            std::env::var(CLUSTER).context("these tests run on a cluster: start them by `cargo xtask test e2e`")?;
        Ok(Self { cluster: Arc::new(Cluster::open(&name)?), programs: Programs::existing()? })
    }

    /// Pushes the images and installs hitless on a cluster that is up. `kubectl hitless` works there from then on.
    pub fn install_on(cluster: Arc<Cluster>, programs: Programs) -> anyhow::Result<Self> {
        let stack = Self { cluster, programs };
        for (version, environment) in ECHO_VERSIONS {
            stack.push_echo("echo", version, environment, None)?;
        }
        for version in ["v1", "v2"] {
            let spec = ImageSpec::from_binary(&stack.programs.streams_server)?.with_env("VERSION", version);
            stack.cluster.push_image(&format!("streams:{version}"), &spec.build()?)?;
        }
        stack.cluster.provide(&stack.programs.cli)?;
        stack.install()?;
        Ok(stack)
    }

    /// Pushes a version of the reference server: `environment` sets what it does, `ballast` makes its image large. A version that no
    /// node has seen yet must have a name of its own: it is in the environment, and so in the digest, which is returned.
    pub fn push_echo(
        &self,
        repository: &str,
        version: &str,
        environment: &[(&str, &str)],
        ballast: Option<Ballast>,
    ) -> anyhow::Result<String> {
        let spec = self.stage("echo")?.with_env("VERSION", version);
        let spec = environment.iter().fold(spec, |spec, (name, value)| spec.with_env(name, value));
        // The registry stands for every other one, so it is pushed without the name of one.
        let pushed =
            self.cluster.push_image(&format!("{repository}:{version}"), &ImageSpec { ballast, ..spec }.build()?)?;
        Ok(pushed.rsplit('@').next().unwrap_or_default().to_owned())
    }

    /// Loads the reference server into all nodes under this reference. Its digest is one that no registry has.
    pub fn load_echo(&self, reference: &str) -> anyhow::Result<()> {
        let image = self.stage("echo")?.with_env("VERSION", reference).build()?;
        Ok(self.cluster.load_image(reference, &image)?)
    }

    /// `kubectl apply -k` of the manifests with these images, and waits until all parts are ready.
    pub fn install(&self) -> anyhow::Result<()> {
        if self.mutating_policies()?.is_none() {
            return self.install_refusing();
        }
        let overlay = self.write_overlay()?;
        self.apply_definitions()?;
        self.apply(&overlay)?;
        self.wait_ready()?;
        self.wait_gate()
    }

    fn apply(&self, kustomization: &Path) -> anyhow::Result<()> {
        self.apply_with(kustomization, &[])
    }

    fn apply_with(&self, kustomization: &Path, options: &[&str]) -> anyhow::Result<()> {
        let kustomization = kustomization.to_string_lossy();
        self.system().run(&[&["apply", "--server-side", "-k", &kustomization], options].concat()).map(drop)
    }

    /// The definitions of what people write, which an uninstall leaves.
    pub fn apply_definitions(&self) -> anyhow::Result<()> {
        DEFINITIONS.into_iter().try_for_each(|path| self.apply(&workspace().join(path)))
    }

    /// The same of those that are a Helm release's.
    pub fn take_over_definitions(&self) -> anyhow::Result<()> {
        DEFINITIONS.into_iter().try_for_each(|path| self.apply_with(&workspace().join(path), &["--force-conflicts"]))
    }

    /// Waits until new pods get the readiness gate: an API server takes a while to obey a policy, and nothing tells when it does.
    pub fn wait_gate(&self) -> anyhow::Result<()> {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "gated", "labels": {"hitless.dev/gate": "enabled"}},
            "spec": {"containers": [{"name": "web", "image": "web"}]}});
        let begin = Instant::now();
        loop {
            let made = self.system().in_namespace("default").feed(&["create", "--dry-run=server", "-o", "json"], &pod);
            if made.as_ref().is_ok_and(|made| made.contains("readinessGates")) {
                return Ok(());
            }
            ensure!(begin.elapsed() < PATIENCE, "new pods do not get the readiness gate: {made:?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Waits until the policy is in force that opts in what is made in a labelled namespace. The namespace of this kubectl is made for that.
    pub fn wait_opt_in(&self, kubectl: &Kubectl) -> anyhow::Result<()> {
        crate::namespace::apply(kubectl, &json!({"hitless.dev/update": "in-place"}))?;
        let template =
            json!({"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "x", "image": "x"}]}});
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"},
            "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": template}});
        let begin = Instant::now();
        loop {
            let made = kubectl.feed(&["create", "--dry-run=server", "-o", "json"], &deployment);
            if made.as_ref().is_ok_and(|made| made.contains(r#""hitless.dev/update": "in-place""#)) {
                return Ok(());
            }
            ensure!(begin.elapsed() < PATIENCE, "new Deployments do not opt in by their namespace: {made:?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// The version of the mutating admission policies that the API server has, if it has any: `v1` from Kubernetes 1.36 on.
    pub fn mutating_policies(&self) -> anyhow::Result<Option<&'static str>> {
        let versions = self.system().run(&["get", "--raw", "/apis/admissionregistration.k8s.io"])?;
        let versions: Value = serde_json::from_str(&versions)?;
        let all: Vec<&Value> = versions["versions"].as_array().into_iter().flatten().collect();
        let is_there = |version: &&str| all.iter().any(|there| there["version"] == **version);
        for version in ["v1", "v1beta1"].into_iter().filter(is_there) {
            let path = format!("/apis/admissionregistration.k8s.io/{version}");
            if self.system().run(&["get", "--raw", &path])?.contains("\"mutatingadmissionpolicies\"") {
                return Ok(Some(version));
            }
        }
        Ok(None)
    }

    /// The same as [`Self::install`] for API servers that have none: `manifests/refusing`.
    pub fn install_refusing(&self) -> anyhow::Result<()> {
        let overlay = self.write_overlay_with(&["refusing"])?;
        self.apply_definitions()?;
        self.apply(&overlay)?;
        self.wait_ready()
    }

    /// Whatever policies would hold a change, or refuse one, are gone.
    pub fn remove_guards(&self) -> anyhow::Result<()> {
        let mut kinds = vec!["validatingadmissionpolicies", "validatingadmissionpolicybindings"];
        if self.mutating_policies()?.is_some() {
            kinds.extend(["mutatingadmissionpolicies", "mutatingadmissionpolicybindings"]);
        }
        self.system().run(&["delete", &kinds.join(","), "-l", hitless_rollout::guard::LABEL]).map(drop)
    }

    /// `kubectl delete -k` of the same.
    pub fn uninstall(&self) -> anyhow::Result<()> {
        let overlay = self.write_overlay()?;
        self.system().run(&["delete", "-k", &overlay.to_string_lossy(), "--wait=true", "--timeout=120s"]).map(drop)
    }

    /// What `helm uninstall` does: all of the same is deleted, but Namespace and definitions stay.
    pub fn uninstall_keeping_namespace(&self) -> anyhow::Result<()> {
        let overlay = self.write_overlay()?;
        let all = self.system().run(&["kustomize", &overlay.to_string_lossy()])?;
        let stays = |object: &&str| {
            let is = |kind| object.lines().any(|line| line == kind);
            is("kind: Namespace") || is("kind: CustomResourceDefinition")
        };
        let deleted: Vec<&str> = all.split("\n---\n").filter(|object| !stays(object)).collect();
        self.system().feed_text(&["delete", "--wait=false"], &deleted.join("\n---\n")).map(drop)
    }

    /// Replaces the controller's Deployment by force, and waits for its pods to go before: what a GitOps tool does that replaces.
    pub fn replace_controller_in_foreground(&self) -> anyhow::Result<()> {
        let overlay = self.write_overlay()?;
        let all = self.system().run(&["kustomize", &overlay.to_string_lossy()])?;
        let is_it = |object: &&str| {
            let has = |line: &str| object.lines().any(|each| each == line);
            has("kind: Deployment") && has("  name: hitless-controller")
        };
        let deployment =
            all.split("\n---\n").find(is_it).context("the manifests have no Deployment of the controller")?;
        self.system().feed_text(&["replace", "--force", "--cascade=foreground", "--timeout=120s"], deployment)?;
        self.wait_ready()
    }

    /// Waits until the controller and all agents are ready.
    pub fn wait_ready(&self) -> anyhow::Result<()> {
        Self::wait_ready_in(&self.system())
    }

    /// The same in the namespace of that kubectl.
    pub fn wait_ready_in(system: &Kubectl) -> anyhow::Result<()> {
        let timeout = format!("--timeout={}s", PATIENCE.as_secs());
        system.run(&["rollout", "status", "deployment/hitless-controller", &timeout])?;
        system.run(&["rollout", "status", "daemonset/hitless-agent", &timeout]).map(drop)
    }

    /// kubectl in hitless's own namespace.
    #[must_use]
    pub fn system(&self) -> Kubectl {
        Kubectl::new(Arc::clone(&self.cluster), SYSTEM_NAMESPACE)
    }

    /// The machine's clock, RFC 3339.
    #[must_use]
    pub fn now(&self) -> String {
        jiff::Timestamp::now().to_string()
    }

    /// Sees to it that one controller runs on each of two nodes, as far as the scheduler can.
    pub fn spread_controllers(&self) -> anyhow::Result<()> {
        let pods = self.system().list(&["pods", "-l", CONTROLLERS])?;
        let on: BTreeSet<&str> = pods.iter().filter_map(|pod| pod["spec"]["nodeName"].as_str()).collect();
        if let [first, _, ..] = pods.as_slice()
            && on.len() < 2
        {
            let name = first["metadata"]["name"].as_str().context("a pod without a name")?;
            self.system().run(&["delete", "pod", name, "--wait=true"])?;
        }
        self.wait_ready()
    }

    /// `kill -9` of the agent's process on a node; returns when it is dead, the kubelet starts another one. If the last one was
    /// killed just now, its successor is waited for.
    pub fn kill_agent(&self, node: &str) -> anyhow::Result<()> {
        kill(self.process_of_agent(node, |_| true)?)
    }

    /// The process of the agent on a node; waits for it after it was killed, and until the kubelet has noticed.
    pub fn agent_process(&self, node: &str) -> anyhow::Result<u32> {
        self.process_of_agent(node, is_ready)
    }

    /// Until the kubelet has told of a container that was started anew, the pod names one that has no process any more.
    fn process_of_agent(&self, node: &str, is_wanted: impl Fn(&Value) -> bool) -> anyhow::Result<u32> {
        let pods = Watch::start(&self.system(), &["pods", "-l", AGENTS])?;
        pods.wait("the agent's process", PATIENCE, |pods| {
            let mut there = pods.values().filter(|pod| pod["spec"]["nodeName"] == node && is_wanted(pod));
            there.find_map(|pod| main_process(pod).ok())
        })
    }

    /// The agent's pod on a node.
    pub fn agent_of(&self, node: &str) -> anyhow::Result<Value> {
        let pods = self.system().list(&["pods", "-l", AGENTS])?;
        let mine = |pod: &Value| pod["spec"]["nodeName"] == node;
        pods.into_iter().find(mine).with_context(|| format!("no agent on {node}"))
    }

    /// Deletes the agent's pod on a node, so that the next one has no back-off of the kubelet, and waits for that.
    pub fn renew_agent(&self, node: &str) -> anyhow::Result<()> {
        let pod = self.agent_of(node)?;
        let name = pod["metadata"]["name"].as_str().context("a pod without a name")?;
        self.system().run(&["delete", "pod", name, "--wait=true"])?;
        // `kubectl rollout status` may still count the one that is gone.
        let pods = Watch::start(&self.system(), &["pods", "-l", AGENTS])?;
        pods.wait(&format!("another agent on {node}"), PATIENCE, |pods| {
            let is_it =
                |(other, pod): (&String, &Value)| other != name && pod["spec"]["nodeName"] == node && is_ready(pod);
            pods.iter().any(is_it).then_some(())
        })?;
        self.wait_ready()
    }

    /// `kill -9` of the leading controller's process.
    pub fn kill_leader(&self) -> anyhow::Result<()> {
        let system = self.system();
        let pods = Watch::start(&system, &["pods", "-l", CONTROLLERS])?;
        let leases = Watch::start(&system, &["leases"])?;
        // One that was deleted holds the Lease until another one has taken it.
        let leader = leases.wait("a leader that is there", PATIENCE, |leases| {
            let holder = leases.get("hitless-controller")?["spec"]["holderIdentity"].as_str()?;
            let pods = pods.objects();
            let (_, pod) = pods.iter().find(|(name, pod)| holder.starts_with(*name) && is_ready(pod))?;
            main_process(pod).ok()
        })?;
        kill(leader)
    }

    /// Scales the controller and waits until exactly so many run.
    pub fn scale_controller(&self, replicas: usize) -> anyhow::Result<()> {
        let system = self.system();
        system.run(&["scale", "deployment/hitless-controller", &format!("--replicas={replicas}")])?;
        if replicas == 0 {
            // A watch that has just begun has seen no pod yet.
            let timeout = format!("--timeout={}s", PATIENCE.as_secs());
            return system.run(&["wait", "pods", "-l", CONTROLLERS, "--for=delete", &timeout]).map(drop);
        }
        let pods = Watch::start(&system, &["pods", "-l", CONTROLLERS])?;
        pods.wait(&format!("{replicas} controllers"), PATIENCE, |pods| all_ready(pods, replicas).then_some(()))
    }

    /// A kustomization over the manifests that names this build's images.
    /// Pushes the programs and writes what a user writes who has them in a registry of their own; returns the directory.
    pub fn write_overlay(&self) -> anyhow::Result<PathBuf> {
        match self.mutating_policies()? {
            Some("v1beta1") => self.write_overlay_with(&["kruise-kusionstack", "v1beta1"]),
            Some(_) | None => self.write_overlay_with(&["kruise-kusionstack"]),
        }
    }

    fn write_overlay_with(&self, components: &[&str]) -> anyhow::Result<PathBuf> {
        let agent = self.push("agent", &self.programs.agent, &[])?;
        let controller = self.push("controller", &self.programs.controller, &[])?;
        let directory = workspace().join(".cache/install").join(self.cluster.name());
        fs::create_dir_all(&directory)?;
        let components: Vec<String> = components.iter().map(|name| format!("../../../manifests/{name}")).collect();
        let components = components.join(", ");
        let text = format!(
            "resources: [../../../manifests]\ncomponents: [{components}]\nimages:\n- {{name: hitless/agent, newTag: \"{agent}\"}}\n- {{name: hitless/controller, newTag: \"{controller}\"}}\n{}",
            self.approvers_patch()
        );
        fs::write(directory.join("kustomization.yaml"), text)?;
        Ok(directory)
    }

    /// A patch that names the approvers of the tests: they listen at the control plane's address.
    fn approvers_patch(&self) -> String {
        format!(
            "patches:\n- target: {{kind: Deployment, name: hitless-controller}}\n  patch: |-\n    - {{op: add, path: /spec/template/spec/containers/0/env/-, value: {{name: HITLESS_APPROVERS, value: \"{}\"}}}}\n",
            self.approvers()
        )
    }

    /// The addresses of the tests' approvers.
    pub(crate) fn approvers(&self) -> String {
        let address = self.cluster.control_plane();
        format!("{address}/{}", if address.is_ipv4() { 32 } else { 128 })
    }

    /// Pushes a stage of the Dockerfile around an already built binary, with further files of this machine at the same paths; the tag is the
    /// binary's digest.
    pub(crate) fn push(&self, stage: &str, binary: &Path, files: &[String]) -> anyhow::Result<String> {
        let content = fs::read(binary).with_context(|| format!("read {}", binary.display()))?;
        let tag = format!("{:.12x}", Sha256::digest(&content));
        let mut spec = self.stage(stage)?;
        for file in files {
            spec.files.push((fs::canonicalize(file)?, file.clone()));
        }
        self.cluster.push_image(&format!("hitless/{stage}:{tag}"), &spec.build()?)?;
        Ok(tag)
    }

    /// A stage of the Dockerfile with the programs that were built already.
    fn stage(&self, stage: &str) -> anyhow::Result<ImageSpec> {
        let dockerfile = fs::read_to_string(workspace().join("Dockerfile"))?;
        let built = |path: &str| self.programs.named(path.strip_prefix("/out/")?).cloned();
        Ok(hitless_cluster::image::from_dockerfile(&dockerfile, stage, built)?)
    }
}

/// The first process of a pod's first container. All nodes of the test cluster share the machine's process table, in which
/// a container's processes are found by their cgroup.
pub fn main_process(pod: &Value) -> anyhow::Result<u32> {
    let id = pod["status"]["containerStatuses"][0]["containerID"].as_str().unwrap_or_default();
    let id = id.rsplit('/').next().filter(|id| !id.is_empty()).context("the container has no id yet")?;
    let pids = fs::read_dir("/proc")?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let of_container =
        |pid: &u32| fs::read_to_string(format!("/proc/{pid}/cgroup")).is_ok_and(|text| text.contains(id));
    pids.filter(of_container).min().with_context(|| format!("no process of container {id} was found"))
}

fn kill(pid: u32) -> anyhow::Result<()> {
    let killed = std::process::Command::new("kill").args(["-9", &pid.to_string()]).status()?;
    ensure!(killed.success(), "kill -9 {pid} failed");
    Ok(())
}
