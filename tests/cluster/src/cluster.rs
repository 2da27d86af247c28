//! Bringing a cluster up, opening one that is up, and using it.

mod start;

use std::fs::{self, File};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use jiff::Timestamp;

use crate::control_plane::{ADMIN, AUDIT_LOG, enter};
use crate::image::Image;
use crate::node::Node;
use crate::part::Parts;
use crate::state::{self, State, Summary};
use crate::{
    Error, IpFamily, Options, Place, Progress, Registry, Result, Tools, Write, address, audit, down,
    missing_requirements, network, packages, run, workspace,
};

/// The environment variables that would send the cluster's traffic through a proxy.
const PROXIES: [&str; 6] = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];

/// What cluster is wanted.
#[derive(Debug, Clone)]
pub struct UpOptions {
    /// Its name: 1 to 30 of a–z, 0–9 and `-`.
    pub name: String,
    /// How many nodes, 1 to 100; they are called n1, n2, ….
    pub nodes: u8,
    /// What it is made of.
    pub options: Options,
}

/// A cluster that is up.
#[derive(Debug, Clone)]
pub struct Cluster {
    name: String,
    nodes: u8,
    options: Options,
    directory: PathBuf,
    tools: Tools,
    parts: Parts,
}

impl Cluster {
    /// Makes a cluster, or finds it up already.
    ///
    /// What an earlier `up` of that name left half-made is removed first. Programs are built and system packages
    /// installed when they are missing, which is told to `progress`.
    pub fn up(options: &UpOptions, progress: Progress<'_>) -> Result<Self> {
        state::check_name(&options.name)?;
        if options.nodes == 0 || options.nodes > address::MAX_NODES {
            let message = format!("a cluster has 1 to {} nodes, not {}", address::MAX_NODES, options.nodes);
            return Err(Error::Invalid(message));
        }
        check_machine()?;
        packages::ensure_for_options(options.options, progress)?;
        let tools = Tools::ensure(options.options, progress)?;
        let _lock = lock(&options.name)?;
        if let Some(cluster) = Self::existing(options, &tools)? {
            progress(&format!("cluster {} is already up", options.name));
            return Ok(cluster);
        }
        down::remove(&options.name)?;
        let directory = state::directory(&options.name);
        fs::create_dir_all(&directory).map_err(Error::file("create", &directory))?;
        let parts = Parts::of(&options.name, &directory)?;
        let cluster = Self {
            name: options.name.clone(),
            nodes: options.nodes,
            options: options.options,
            directory,
            tools,
            parts,
        };
        let mut state = State {
            name: cluster.name.clone(),
            nodes: cluster.nodes,
            options: cluster.options,
            created: Timestamp::now(),
            complete: false,
            tools: cluster.tools.clone(),
        };
        state.write()?;
        cluster.start(progress)?;
        state.complete = true;
        state.write()?;
        Ok(cluster)
    }

    /// Opens a cluster that is up.
    pub fn open(name: &str) -> Result<Self> {
        state::check_name(name)?;
        if !state::directory(name).exists() {
            return Err(Error::NoCluster(name.to_owned()));
        }
        let state = State::read(name)?.filter(|state| state.complete);
        Self::of(state.ok_or_else(|| Error::HalfMade(name.to_owned()))?)
    }

    /// Removes a cluster: its processes, mounts, namespaces, cgroups and files. It is no error if there is none.
    pub fn down(name: &str) -> Result<()> {
        state::check_name(name)?;
        check_machine()?;
        let _lock = lock(name)?;
        down::remove(name)
    }

    /// All clusters of this workspace, with what is wrong with them.
    pub fn list() -> Result<Vec<Summary>> {
        state::list()
    }

    /// The cluster's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The names of its nodes, n1 first.
    #[must_use]
    pub fn node_names(&self) -> Vec<String> {
        (1..=self.nodes).map(|index| format!("n{index}")).collect()
    }

    /// What it is made of.
    #[must_use]
    pub fn options(&self) -> Options {
        self.options
    }

    /// The addresses of nodes, pods and Services.
    #[must_use]
    pub fn ip_family(&self) -> IpFamily {
        self.options.ip_family
    }

    /// The control plane's address, of the family of `status.podIP`.
    #[must_use]
    pub fn control_plane(&self) -> IpAddr {
        self.ip_family().first().control_plane()
    }

    /// The address in the network outside of the cluster, of the family of `status.podIP`: see [`Place::Outside`].
    #[must_use]
    pub fn outside(&self) -> IpAddr {
        self.ip_family().first().outside()
    }

    /// A host's own address, of the family of `status.podIP`.
    #[must_use]
    pub fn loopback(&self) -> IpAddr {
        self.ip_family().first().loopback()
    }

    /// The administrator's kubeconfig. It is of use only inside the cluster's network namespaces.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.join(ADMIN)
    }

    /// A part's output, for instance of `kube-apiserver` or `n1/kubelet`.
    #[must_use]
    pub fn log(&self, part: &str) -> PathBuf {
        self.parts.log(part)
    }

    /// The network namespace of a place as a file, for `nsenter --net=`.
    #[must_use]
    pub fn network_namespace(&self, place: Place) -> PathBuf {
        place.namespace_file(&self.name)
    }

    /// Runs `work` on a thread that is in the network namespace of `place`. Threads it starts are there, too.
    pub fn in_network<T: Send>(&self, place: Place, work: impl FnOnce() -> T + Send) -> Result<T> {
        network::inside(&self.name, place, work)
    }

    /// The same in the network namespace of a process, for instance of a pod.
    pub fn in_network_of<T: Send>(&self, pid: u32, work: impl FnOnce() -> T + Send) -> Result<T> {
        network::inside_process(pid, work)
    }

    /// A command that runs `program` in a place, with `KUBECONFIG` set and the cluster's programs on `PATH`: kubectl, and what
    /// [`Cluster::provide`] was given.
    ///
    /// On a node it is in the node's mount namespace too: `ctr` finds containerd, `/run` is the node's.
    /// The working directory is the caller's.
    pub fn command(&self, place: Place, program: &str) -> Result<Command> {
        let holder = match place {
            Place::ControlPlane | Place::Outside => None,
            Place::Node(index) if index == 0 || index > self.nodes => {
                let message = format!("cluster {} has the nodes n1 to n{}, not n{index}", self.name, self.nodes);
                return Err(Error::Invalid(message));
            }
            Place::Node(index) => Some(self.parts.alive(&Node::holder(index))?),
        };
        let mut command = enter(&self.name, place, holder);
        if let (Some(_), Ok(here)) = (holder, std::env::current_dir()) {
            command.arg(format!("--wd={}", here.display()));
        }
        let path = format!("{}:{}", self.programs().display(), self.tools.search_path());
        command.arg(program).env("PATH", path).env("KUBECONFIG", self.kubeconfig());
        // The address is the same in every cluster, and kubectl's cache of an API's resources goes by the address.
        command.env("KUBECACHEDIR", self.directory.join("kubectl"));
        for variable in PROXIES {
            command.env_remove(variable);
        }
        Ok(command)
    }

    /// Puts a copy of a program on the `PATH` of all later commands, for instance a plugin of kubectl.
    pub fn provide(&self, program: &Path) -> Result<()> {
        let name = program.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = name.filter(|_| program.is_file());
        let name = name.ok_or_else(|| Error::Invalid(format!("{} is not a file", program.display())))?;
        let directory = self.programs();
        fs::create_dir_all(&directory).map_err(Error::file("create", &directory))?;
        // A program that runs can't be written, but replaced.
        let unfinished = directory.join(format!(".{name}.unfinished"));
        fs::copy(program, &unfinished).map_err(Error::file("write", &unfinished))?;
        let path = directory.join(name);
        fs::rename(&unfinished, &path).map_err(Error::file("move into place", path))
    }

    /// Runs kubectl as the administrator; what it printed.
    ///
    /// If it fails while a part of the cluster is dead, the error is that part's death.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        let mut command = self.command(Place::ControlPlane, "kubectl")?;
        run::output(command.args(arguments)).map_err(|error| self.explained(error))
    }

    /// As [`Cluster::kubectl`], with something on its standard input (`apply -f -`).
    pub fn kubectl_with_input(&self, arguments: &[&str], input: &str) -> Result<String> {
        let mut command = self.command(Place::ControlPlane, "kubectl")?;
        run::output_with_input(command.args(arguments), input.as_bytes()).map_err(|error| self.explained(error))
    }

    /// The process of a part, for instance `kube-apiserver` or `n1/kubelet`; an error if it has died.
    pub fn process(&self, part: &str) -> Result<i32> {
        self.parts.alive(part)
    }

    /// Takes a node off the network, or puts it back. Whatever runs on it goes on running.
    pub fn set_connected(&self, node: u8, connected: bool) -> Result<()> {
        network::set_connected(&self.name, node, connected)
    }

    /// Fails with the last log lines of the first part that has died.
    pub fn check(&self) -> Result<()> {
        self.parts.names().iter().try_for_each(|part| self.parts.alive(part).map(drop))
    }

    /// Puts an image onto all nodes under this reference, as `kind load` does: no registry has it.
    pub fn load_image(&self, reference: &str, image: &Image) -> Result<()> {
        let archive = image.archive(reference)?;
        (1..=self.nodes).try_for_each(|node| {
            let mut import = self.command(Place::Node(node), "ctr")?;
            import.args(["--namespace", "k8s.io", "images", "import", "-"]);
            run::output_with_input(&mut import, &archive).map(drop)
        })
    }

    /// Puts an image into the cluster's registry as `name:tag`; the reference with its digest
    /// (`172.31.255.1:5000/name@sha256:…`).
    ///
    /// Pods may use `name:tag` itself: the registry stands for every other one.
    pub fn push_image(&self, name_and_tag: &str, image: &Image) -> Result<String> {
        self.in_network(Place::ControlPlane, || self.registry().push(name_and_tag, image))?
    }

    /// The API writes since a moment, from the audit log, in the order in which they ended.
    pub fn writes(&self, since: Timestamp) -> Result<Vec<Write>> {
        audit::read(&self.directory.join(AUDIT_LOG), since)
    }

    /// Its image registry, which is reached from the control plane's namespace.
    pub(crate) fn registry(&self) -> Registry {
        Registry::at(self.ip_family().first().registry())
    }

    /// Where [`Cluster::provide`] puts programs.
    fn programs(&self) -> PathBuf {
        self.directory.join("bin")
    }

    fn of(state: State) -> Result<Self> {
        let directory = state::directory(&state.name);
        let parts = Parts::of(&state.name, &directory)?;
        let State { name, nodes, options, tools, .. } = state;
        Ok(Self { name, nodes, options, directory, tools, parts })
    }

    /// The cluster of that name if it is complete and well; none if it must be made (again).
    fn existing(options: &UpOptions, tools: &Tools) -> Result<Option<Self>> {
        let Some(state) = State::read(&options.name)?.filter(|state| state.complete) else { return Ok(None) };
        if network::namespaces(&options.name).is_empty() {
            // The machine was restarted.
            return Ok(None);
        }
        if state.nodes != options.nodes {
            return Err(Error::Invalid(format!(
                "cluster {0} is up with {1} nodes; `cargo xtask cluster down --name {0}` removes it",
                state.name, state.nodes
            )));
        }
        if state.options != options.options {
            return Err(Error::Invalid(format!(
                "cluster {0} is up with {1}; `cargo xtask cluster down --name {0}` removes it",
                state.name, state.options
            )));
        }
        if state.tools != *tools {
            return Err(Error::Invalid(format!(
                "cluster {0} is up with other versions of its programs; `cargo xtask cluster down --name {0}` removes it",
                state.name
            )));
        }
        let cluster = Self::of(state)?;
        cluster.check()?;
        Ok(Some(cluster))
    }

    /// The reason behind an error: a dead part, if there is one.
    fn explained(&self, error: Error) -> Error {
        self.check().err().unwrap_or(error)
    }
}

/// Refuses a machine that cannot run a cluster.
fn check_machine() -> Result<()> {
    let missing = missing_requirements();
    if missing.is_empty() {
        return Ok(());
    }
    let list: Vec<String> = missing.iter().map(|m| format!("{} (for {})", m.what, m.why)).collect();
    Err(Error::Requirement(format!("a cluster cannot run here; missing: {}", list.join(", "))))
}

/// Only one command at a time makes or removes a cluster; the lock goes with the process.
fn lock(name: &str) -> Result<File> {
    let locks = workspace::locks();
    fs::create_dir_all(&locks).map_err(Error::file("create", &locks))?;
    let path = locks.join(name);
    let file = File::create(&path).map_err(Error::file("create", &path))?;
    file.lock().map_err(Error::file("lock", path))?;
    Ok(file)
}
