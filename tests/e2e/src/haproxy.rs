//! HAProxy as the load balancer in front of a cluster: Debian's, as a process in the network outside of the cluster, with pods' own
//! addresses as servers.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use hitless_cluster::{Cluster, Place};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::app::{PATIENCE, is_ready};
use crate::servers::{cache, debian};
use crate::watch::Objects;

/// The backend that pods are servers of.
pub const POOL: &str = "shop";
/// One that runs answers much sooner, but the machine may be busy.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);
/// Two tests that unpack at once would be in each other's way.
static UNPACKING: Mutex<()> = Mutex::new(());

/// A HAProxy; killed when dropped.
pub struct HaProxy {
    cluster: Arc<Cluster>,
    number: u16,
    child: Option<Child>,
}

/// How a server stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admin {
    /// It gets new sessions.
    Ready,
    /// It gets none, and some may be open.
    Drained,
    /// It gets none at all.
    Maintenance,
}

impl HaProxy {
    /// Starts it. `number` tells it from others in the same network.
    pub fn start(cluster: &Arc<Cluster>, number: u16) -> anyhow::Result<Self> {
        let mut haproxy = Self { cluster: Arc::clone(cluster), number, child: None };
        haproxy.run()?;
        Ok(haproxy)
    }

    /// Starts it (again): it has no server then.
    pub fn run(&mut self) -> anyhow::Result<()> {
        ensure!(self.child.is_none(), "HAProxy runs already");
        let root = unpacked()?;
        let file = cache().join(format!("haproxy-{}-{}.cfg", self.cluster.name(), self.number));
        // No retries: they would hide a request that was sent to a pod that had gone.
        let text = format!(
            "global\n  stats socket {}@{} level admin\ndefaults\n  mode http\n  retries 0\n  timeout connect 2s\n  \
             timeout client 30s\n  timeout server 30s\nfrontend web\n  bind {}\n  default_backend {POOL}\nbackend {POOL}\n  balance roundrobin\n",
            if self.cluster.outside().is_ipv4() { "ipv4" } else { "ipv6" },
            self.runtime_api(),
            self.address()
        );
        fs::write(&file, text)?;
        let (loader, libraries) = libraries(&root)?;
        let mut command = self.cluster.command(Place::Outside, &loader.to_string_lossy())?;
        command.args(["--library-path", &libraries]).arg(root.join("usr/sbin/haproxy")).arg("-db").arg("-f").arg(&file);
        self.child = Some(command.spawn().context("start HAProxy")?);
        let begin = Instant::now();
        while self.ask("show info").is_err() {
            let ended = self.child.as_mut().and_then(|child| child.try_wait().ok().flatten());
            ensure!(ended.is_none() && begin.elapsed() < PATIENCE, "HAProxy does not answer: {ended:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Kills it: whoever is connected loses the connection.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        let mut child = self.child.take().context("HAProxy does not run")?;
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// Stops its process, or lets it go on: meanwhile it accepts connections and answers nobody.
    pub fn set_stopped(&self, stopped: bool) -> anyhow::Result<()> {
        let child = self.child.as_ref().context("HAProxy does not run")?;
        let signal = if stopped { "-STOP" } else { "-CONT" };
        let sent = Command::new("kill").args([signal, &child.id().to_string()]).status()?;
        ensure!(sent.success(), "kill {signal} of HAProxy failed");
        Ok(())
    }

    /// Where clients connect.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.at(8000)
    }

    fn runtime_api(&self) -> SocketAddr {
        self.at(9000)
    }

    fn at(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.cluster.outside(), port + self.number)
    }

    /// Makes a TrafficProvider of it that opens its pool to that namespace.
    #[must_use]
    pub fn provider(&self, name: &str, namespace: &str) -> Value {
        let endpoint = format!("tcp://{}", self.runtime_api());
        json!({"apiVersion": "hitless.dev/v1alpha1", "kind": "TrafficProvider", "metadata": {"name": name},
            "spec": {"haproxy": {"endpoint": endpoint}, "pools": [{"name": POOL, "namespaces": [namespace]}]}})
    }

    fn ask(&self, command: &str) -> anyhow::Result<String> {
        let address = self.runtime_api();
        self.cluster.in_network(Place::Outside, || -> anyhow::Result<String> {
            let mut stream = TcpStream::connect_timeout(&address, ANSWERS_WITHIN)?;
            stream.set_read_timeout(Some(ANSWERS_WITHIN))?;
            writeln!(stream, "{command}")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        })?
    }

    /// Its servers by their addresses.
    pub fn servers(&self) -> anyhow::Result<BTreeMap<String, Admin>> {
        Ok(parse(&self.ask(&format!("show servers state {POOL}"))?))
    }

    /// Waits until its servers are exactly these pods, and all get sessions.
    pub fn wait_servers(&self, pods: impl Fn() -> Objects) -> anyhow::Result<()> {
        self.wait_until("exactly the pods, all of them ready", |servers| {
            let pods = pods();
            let ip = |pod: &Value| pod["status"]["podIP"].as_str().map(str::to_owned);
            let wanted: Vec<String> = pods.values().filter(|pod| is_ready(pod)).filter_map(ip).collect();
            let all = wanted.len() == servers.len() && wanted.iter().all(|ip| servers.get(ip) == Some(&Admin::Ready));
            all && wanted.len() == pods.len()
        })
    }

    /// Waits until its servers are so.
    pub fn wait_until(&self, what: &str, is_so: impl Fn(&BTreeMap<String, Admin>) -> bool) -> anyhow::Result<()> {
        let begin = Instant::now();
        loop {
            let servers = self.servers().unwrap_or_default();
            if is_so(&servers) {
                return Ok(());
            }
            ensure!(begin.elapsed() < PATIENCE, "the servers are {servers:?}, not {what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for HaProxy {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Of `show servers state`: the fifth column is the address, the seventh are the bits of the administrative state.
fn parse(answer: &str) -> BTreeMap<String, Admin> {
    let line = |line: &str| {
        let columns: Vec<&str> = line.split(' ').collect();
        let bits: u8 = columns.get(6)?.parse().ok()?;
        let admin = match bits {
            bits if bits & 0x01 != 0 => Admin::Maintenance,
            bits if bits & 0x08 != 0 => Admin::Drained,
            _ => Admin::Ready,
        };
        Some(((*columns.get(4)?).to_owned(), admin))
    };
    answer.lines().filter(|text| !text.starts_with('#')).filter_map(line).collect()
}

/// Debian's package and what it needs, unpacked once.
fn unpacked() -> anyhow::Result<PathBuf> {
    let _turn = UNPACKING.lock().unwrap_or_else(PoisonError::into_inner);
    let root = cache().join(format!("haproxy-{:.8x}", Sha256::digest(debian::recipe())));
    if !root.exists() {
        let work = cache().join("haproxy.unfinished");
        if work.exists() {
            fs::remove_dir_all(&work)?;
        }
        fs::create_dir_all(&work)?;
        debian::unpack(&["haproxy"], &cache(), &work)?;
        fs::rename(&work, &root)?;
    }
    Ok(root)
}

/// The loader of its own C library, and where its libraries are: the machine's may be others.
fn libraries(root: &Path) -> anyhow::Result<(PathBuf, String)> {
    // Packages say either of the two.
    let all = ["usr/lib", "lib"].iter().filter_map(|directory| fs::read_dir(root.join(directory)).ok());
    let directories: Vec<PathBuf> =
        all.flatten().flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    let is_loader =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("ld-linux"));
    let files = directories.iter().filter_map(|directory| fs::read_dir(directory).ok()).flatten().flatten();
    let loader = files.map(|entry| entry.path()).find(is_loader).context("Debian's C library has no loader")?;
    let all: Vec<String> = directories.iter().map(|path| path.to_string_lossy().into_owned()).collect();
    Ok((loader, all.join(":")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_of_a_server_is_read_from_its_line() {
        let answer = "1\n# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state\n\
            3 shop 1 hitless_10.1.0.5_8080 10.1.0.5 2 0 1 1 9\n3 shop 2 hitless_10.1.0.6_8080 10.1.0.6 0 1 1 1 9\n\
            3 shop 3 hitless_10.1.0.7_8080 10.1.0.7 2 8 1 1 9\n";
        let read = parse(answer);
        assert_eq!(read.get("10.1.0.5"), Some(&Admin::Ready));
        assert_eq!(read.get("10.1.0.6"), Some(&Admin::Maintenance));
        assert_eq!((read.get("10.1.0.7"), read.len()), (Some(&Admin::Drained), 3));
    }
}
