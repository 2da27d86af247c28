//! A pod without Kubernetes: namespaces, a link, a control group, a server. All of it goes when the guard is dropped.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hitless_kernel::Pid;
use rustix::process::geteuid;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

#[path = "container.rs"]
pub(crate) mod container;

use container::{Container, Shape};

pub(crate) const CLIENT_V4: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
pub(crate) const POD_V4: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 2);
pub(crate) const CLIENT_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x99, 0, 0, 0, 0, 0, 1);
/// The Service's address in a routed lab: translated to the pod's, the client's address to the router's.
pub(crate) const SERVICE_V4: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 10);
pub(crate) const SERVICE_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x96, 0, 0, 0, 0, 0, 0x10);
pub(crate) const POD_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x99, 0, 0, 0, 0, 0, 2);

/// Asks again and again until there is an answer.
pub(crate) fn eventually<T>(what: &str, mut question: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(answer) = question() {
            return answer;
        }
        assert!(Instant::now() < deadline, "not within 20 s: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// What kube-proxy does to packets for a Service and to clients that need it, on the router.
const ROUTER_RULES: &str = "
    table ip nat {
        chain prerouting { type nat hook prerouting priority -100; ip daddr 10.96.0.10 dnat to 10.99.0.2; }
        chain output { type nat hook output priority -100; ip daddr 10.96.0.10 dnat to 10.99.0.2; }
        chain postrouting { type nat hook postrouting priority 100; ip daddr 10.99.0.2 masquerade; }
    }
    table ip6 nat {
        chain prerouting { type nat hook prerouting priority -100; ip6 daddr fd00:96::10 dnat to fd00:99::2; }
        chain output { type nat hook output priority -100; ip6 daddr fd00:96::10 dnat to fd00:99::2; }
        chain postrouting { type nat hook postrouting priority 100; ip6 daddr fd00:99::2 masquerade; }
    }";

fn run(program: &str, arguments: &str) {
    let output = Command::new(program).args(arguments.split_whitespace()).output().unwrap();
    assert!(output.status.success(), "{program} {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Labs of this process so far: their names differ.
static NUMBER: AtomicU32 = AtomicU32::new(0);

pub(crate) struct Lab {
    pub(crate) pod_uid: String,
    pub(crate) container_id: String,
    pod: Namespace,
    client: Namespace,
    router: Option<Namespace>,
    cgroup: Cgroup,
}

impl Lab {
    /// A client and a pod with a link between them. `None`, with a note, when the tests cannot run here and nobody
    /// insists.
    pub(crate) fn new() -> Option<Self> {
        let (name, pod, client) = namespaces()?;
        link(&pod, "eth0", &client, "eth0");
        pod.configure("eth0", &[format!("{POD_V4}/24"), format!("{POD_V6}/64 nodad")]);
        client.configure("eth0", &[format!("{CLIENT_V4}/24"), format!("{CLIENT_V6}/64 nodad")]);
        Some(Self::with(&name, pod, client, None))
    }

    /// A client that reaches the pod through a router that plays the node: [`SERVICE_V4`] and [`SERVICE_V6`] are translated to the
    /// pod, and the pod sees the router's address instead of the client's. Reverse paths are filtered strictly everywhere.
    pub(crate) fn routed() -> Option<Self> {
        let (name, pod, client) = namespaces()?;
        let router = Namespace::new(format!("{name}r"));
        link(&pod, "eth0", &router, "pod");
        link(&client, "eth0", &router, "client");
        let both = |v4: &str, v6: &str| [format!("{v4}/24"), format!("{v6}/64 nodad")];
        pod.configure("eth0", &both(&POD_V4.to_string(), &POD_V6.to_string()));
        client.configure("eth0", &both("10.98.0.1", "fd00:98::1"));
        router.configure("pod", &both(&CLIENT_V4.to_string(), &CLIENT_V6.to_string()));
        router.configure("client", &both("10.98.0.254", "fd00:98::254"));
        for service in [SERVICE_V4.to_string(), SERVICE_V6.to_string()] {
            router.run("ip", &format!("route add {service} dev pod"));
        }
        for gateway in [CLIENT_V4.to_string(), CLIENT_V6.to_string()] {
            pod.run("ip", &format!("route add default via {gateway}"));
        }
        for gateway in ["10.98.0.254", "fd00:98::254"] {
            client.run("ip", &format!("route add default via {gateway}"));
        }
        for namespace in [&pod, &client, &router] {
            namespace.run("sysctl", "-q -w net.ipv4.conf.all.rp_filter=1 net.ipv4.conf.eth0.rp_filter=1 -e");
        }
        router.run("sysctl", "-q -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1");
        router.nft(ROUTER_RULES);
        Some(Self::with(&name, pod, client, Some(router)))
    }

    fn with(name: &str, pod: Namespace, client: Namespace, router: Option<Namespace>) -> Self {
        let pod_uid = format!("{name}-0000-4000-8000-000000000001");
        let container_id = format!("{name}c0ffee");
        let cgroup = Cgroup::new(name, &pod_uid, &container_id);
        Self { pod_uid, container_id, pod, client, router, cgroup }
    }

    /// Runs something, such as opening a socket, in the client's namespace.
    pub(crate) fn in_client<T: Send>(&self, run: impl FnOnce() -> T + Send) -> T {
        self.client.inside(run)
    }

    pub(crate) fn in_pod<T: Send>(&self, run: impl FnOnce() -> T + Send) -> T {
        self.pod.inside(run)
    }

    /// On the node that the pod runs on, in a routed lab.
    pub(crate) fn in_router<T: Send>(&self, run: impl FnOnce() -> T + Send) -> T {
        self.router.as_ref().unwrap().inside(run)
    }

    /// From now on the router answers for another pod that knows none of the client's connections: the client is reset with its next
    /// packet, and the pod hears of it no more. So does a data plane that has given a connection to another pod.
    pub(crate) fn give_connections_to_another(&self) {
        self.router.as_ref().unwrap().nft(
            "table inet other {
                chain forward { type filter hook forward priority 0; iifname client meta l4proto tcp reject with tcp reset; }
            }",
        );
    }

    /// Where the node's namespace is, in a routed lab.
    pub(crate) fn router_path(&self) -> PathBuf {
        self.router.as_ref().unwrap().path()
    }

    /// Starts the server as the pod's container and waits until it listens.
    pub(crate) fn start_server(&self) -> Server {
        Server::start(&self.cgroup, Some(&self.pod))
    }

    /// Starts a container with namespaces and a root of its own, as user 1000, that does nothing.
    pub(crate) fn start_silent(&self) -> Silent {
        Silent(self.command_in_pod().args(["sleep", "1000"]).stdin(Stdio::null()).spawn().unwrap())
    }

    /// A program of the pod's container, to be named by its arguments.
    pub(crate) fn command_in_pod(&self) -> Command {
        entering(&self.cgroup, Some(&self.pod))
    }

    #[allow(dead_code, reason = "not every program that shares this laboratory needs it")]
    /// A program in the client's namespace, to be named by its arguments.
    pub(crate) fn command_in_client(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.client.path().display())).arg("--");
        command
    }

    pub(crate) fn start_container(&self) -> Container {
        self.start_container_with(&Shape::default())
    }

    pub(crate) fn start_container_with(&self, shape: &Shape) -> Container {
        Container::start(self.cgroup.leaf(), shape)
    }

    #[allow(dead_code, reason = "not every program that shares this laboratory needs it")]
    /// Starts another container of the pod, which runs this script of bash; its standard output is read line by line.
    pub(crate) fn start_sibling(&self, script: &str) -> Sibling {
        Sibling::start(&self.cgroup, &self.pod, script)
    }

    pub(crate) fn start_server_on_the_host_network(&self) -> Server {
        Server::start(&self.cgroup, None)
    }
}

/// Names of this lab and two namespaces for it.
fn namespaces() -> Option<(String, Namespace, Namespace)> {
    if !geteuid().is_root() {
        assert!(std::env::var_os("CI").is_none(), "these tests need root, and CI is set");
        eprintln!("left out: making network namespaces needs root");
        return None;
    }
    let name = format!("hk{}x{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
    let (pod, client) = (Namespace::new(format!("{name}p")), Namespace::new(format!("{name}c")));
    Some((name, pod, client))
}

fn link(one: &Namespace, device: &str, other: &Namespace, peer: &str) {
    run("ip", &format!("link add {device} netns {} type veth peer name {peer} netns {}", one.name, other.name));
}

struct Namespace {
    name: String,
}

impl Namespace {
    fn new(name: String) -> Self {
        run("ip", &format!("netns add {name}"));
        Self { name }
    }

    fn path(&self) -> PathBuf {
        Path::new("/run/netns").join(&self.name)
    }

    fn configure(&self, device: &str, addresses: &[String]) {
        self.run("ip", "link set lo up");
        self.run("ip", &format!("link set {device} up"));
        for address in addresses {
            self.run("ip", &format!("addr add {address} dev {device}"));
        }
    }

    fn run(&self, program: &str, arguments: &str) {
        run("ip", &format!("netns exec {} {program} {arguments}", self.name));
    }

    fn nft(&self, rules: &str) {
        let mut nft =
            Command::new("ip").args(["netns", "exec", &self.name, "nft", "-f", "-"]).stdin(Stdio::piped()).spawn();
        nft.as_mut().unwrap().stdin.take().unwrap().write_all(rules.as_bytes()).unwrap();
        assert!(nft.unwrap().wait().unwrap().success(), "{rules}");
    }

    fn inside<T: Send>(&self, run: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let namespace = fs::File::open(self.path()).unwrap();
                move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
                run()
            });
            thread.join().unwrap()
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        run("ip", &format!("netns delete {}", self.name));
    }
}

/// `<hierarchy>/<name>/pod<uid>/<container>`, in whichever version of control groups the machine has.
struct Cgroup {
    levels: Vec<PathBuf>,
}

impl Cgroup {
    fn new(name: &str, pod_uid: &str, container_id: &str) -> Self {
        let hierarchy = ["unified", "pids", ""]
            .map(|name| Path::new("/sys/fs/cgroup").join(name))
            .into_iter()
            .find(|hierarchy| hierarchy.join("cgroup.procs").exists())
            .unwrap();
        let top = hierarchy.join(name);
        let pod = top.join(format!("pod{pod_uid}"));
        let levels = vec![top, pod.clone(), pod.join(container_id)];
        for level in &levels {
            fs::create_dir(level).unwrap();
        }
        Self { levels }
    }

    fn leaf(&self) -> &Path {
        self.levels.last().unwrap()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        for level in self.levels.iter().rev() {
            // Busy for a moment after its last process has ended.
            eventually("the control group is empty", || fs::remove_dir(level).ok());
        }
    }
}

/// A program of its own for tests; an example is its own server when called with `serve`.
fn server_program() -> PathBuf {
    option_env!("CARGO_BIN_EXE_pod-server").map_or_else(|| std::env::current_exe().unwrap(), PathBuf::from)
}

/// Runs a program in a container and its network. The shell enters the control group and then becomes `nsenter`, which becomes the
/// program, all with one pid.
fn entering(cgroup: &Cgroup, namespace: Option<&Namespace>) -> Command {
    let enter = namespace.map_or(String::new(), |ns| format!("nsenter --net={} --", ns.path().display()));
    let mut command = Command::new("sh");
    command.args(["-c", &format!(r#"echo $$ > "$1/cgroup.procs" && shift && exec {enter} "$@""#), "sh"]);
    command.arg(cgroup.leaf());
    command
}

/// Another container of the pod than its server.
pub(crate) struct Sibling {
    child: Child,
    lines: BufReader<ChildStdout>,
    group: PathBuf,
}

impl Sibling {
    fn start(cgroup: &Cgroup, namespace: &Namespace, script: &str) -> Self {
        let group = cgroup.leaf().with_file_name("51b1196c0ffee");
        fs::create_dir(&group).unwrap();
        let enter = format!("nsenter --net={} --", namespace.path().display());
        let mut command = Command::new("sh");
        command.args(["-c", &format!(r#"echo $$ > "$1/cgroup.procs" && exec {enter} bash -c "$2""#), "sh"]);
        command.arg(&group).arg(script);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines, group }
    }

    #[allow(dead_code, reason = "not every program that shares this laboratory needs it")]
    /// Waits for this line.
    pub(crate) fn expect(&mut self, line: &str) {
        let mut said = String::new();
        self.lines.read_line(&mut said).unwrap();
        assert_eq!(said.trim_end(), line);
    }
}

impl Drop for Sibling {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        eventually("the control group is empty", || fs::remove_dir(&self.group).ok());
    }
}

/// A process of the pod whose network stack the kernel does not show: here it has no socket at all.
pub(crate) struct Silent(Child);

impl Drop for Silent {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// The server process; commands go to its standard input, answers come on its standard error output.
pub(crate) struct Server {
    child: Child,
    answers: BufReader<ChildStderr>,
}

impl Server {
    fn start(cgroup: &Cgroup, namespace: Option<&Namespace>) -> Self {
        let mut child = entering(cgroup, namespace)
            .args([server_program(), "serve".into()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let answers = BufReader::new(child.stderr.take().unwrap());
        let mut server = Self { child, answers };
        server.expect_ok();
        server
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub(crate) fn command(&mut self, command: &str) {
        writeln!(self.child.stdin.as_ref().unwrap(), "{command}").unwrap();
        self.expect_ok();
    }

    fn expect_ok(&mut self) {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        assert_eq!(line, "ok\n");
    }

    pub(crate) fn kill(self) {
        drop(self);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}
