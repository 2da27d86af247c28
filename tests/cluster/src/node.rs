//! One node: a mount namespace in its network namespace, with containerd, kubelet and kube-proxy.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::address::Family;
use crate::control_plane::{api_server, enter};
use crate::part::Parts;
use crate::pki::Pki;
use crate::{Error, Options, Place, PodNetwork, Result, Tools, flannel, http, network, run, runtime};

/// Directories of the machine that are the node's own inside it, and what they are called in the node's files.
///
/// Programs have these paths built in (the kubelet its device-plugin socket, CNI its cache); two nodes must not meet
/// there, and the paths of sockets stay short.
const OWN: [(&str, &str); 4] =
    [("/run", "run"), ("/var/log", "log"), ("/var/lib/kubelet", "kubelet"), ("/var/lib/cni", "cni-state")];

/// Holds the node's mount namespace, whatever happens to the other parts.
///
/// Nothing that is mounted inside is seen outside, but pods see what the node mounts, as on any node.
const HOLDER: &str = r#"
mount --make-rshared /
while [ "$1" != -- ]; do mount --bind "$1" "$2"; shift 2; done
shift
echo ready
exec "$@" >&2
"#;

/// Everything needed to start the parts of one node.
pub(crate) struct Node<'a> {
    pub(crate) cluster: &'a str,
    /// From 1.
    pub(crate) index: u8,
    pub(crate) options: Options,
    /// The cluster's directory.
    pub(crate) directory: &'a Path,
    pub(crate) tools: &'a Tools,
    pub(crate) parts: &'a Parts,
}

impl Node<'_> {
    /// The node's name in Kubernetes.
    pub(crate) fn name(&self) -> String {
        format!("n{}", self.index)
    }

    /// The part that holds node `index`'s mount namespace.
    pub(crate) fn holder(index: u8) -> String {
        format!("n{index}/node")
    }

    /// Makes the node's namespace and starts what needs no API server.
    pub(crate) fn start(&self, pki: &Pki) -> Result<()> {
        let user = format!("system:node:{}", self.name());
        let addresses = self.options.ip_family.each().iter().map(|family| family.node(self.index).to_string());
        let hosts: Vec<String> = addresses.chain([self.name()]).collect();
        pki.issue(&self.name(), &user, Some("system:nodes"), &hosts)?;
        pki.kubeconfig(
            &self.name(),
            api_server(self.options.ip_family),
            &self.directory.join(format!("{}.conf", self.name())),
        )?;
        self.start_holder()?;
        self.write_containerd_config()?;
        let mut containerd = self.command("containerd")?;
        containerd.arg("--config").arg(self.file("containerd.toml"));
        self.parts.start(&self.part("containerd"), &containerd)
    }

    /// Starts the kubelet and kube-proxy; the API server must be ready.
    pub(crate) fn join(&self) -> Result<()> {
        self.wait_for_containerd()?;
        let config = self.file("kubelet.json");
        self.write("kubelet.json", &self.kubelet_config())?;
        let mut kubelet = self.command("kubelet")?;
        kubelet.arg(format!("--config={}", config.display()));
        kubelet.arg(format!("--kubeconfig={}", self.directory.join(format!("{}.conf", self.name())).display()));
        let addresses = self.options.ip_family.list(|family| family.node(self.index));
        kubelet.args([format!("--hostname-override={}", self.name()), format!("--node-ip={addresses}")]);
        self.parts.start(&self.part("kubelet"), &kubelet)?;
        let mut proxy = self.command("kube-proxy")?;
        proxy.arg(format!("--kubeconfig={}", self.directory.join("proxy.conf").display()));
        let pods = self.options.ip_family.list(Family::cluster);
        proxy.args([format!("--hostname-override={}", self.name()), format!("--cluster-cidr={pods}")]);
        // Conntrack's limit is the machine's, not the namespace's.
        proxy.arg(format!("--proxy-mode={}", self.options.proxy));
        proxy.args(["--conntrack-max-per-core=0", "--healthz-bind-address=127.0.0.1:10256"]);
        proxy.arg("--metrics-bind-address=127.0.0.1:10249");
        self.parts.start(&self.part("kube-proxy"), &proxy)
    }

    /// Waits until Services answer on this node, and makes sure that they do so in the wanted way.
    pub(crate) fn wait_for_proxy(&self) -> Result<()> {
        let what = format!("kube-proxy of {}", self.name());
        let wanted = self.options.proxy.to_string();
        network::inside(self.cluster, Place::Node(self.index), || {
            run::until(&what, Duration::from_mins(1), || {
                self.parts.alive(&self.part("kube-proxy"))?;
                let answer = ask_proxy(10256, "/healthz").and_then(|_healthy| ask_proxy(10249, "/proxyMode"));
                Ok(match answer {
                    Ok(mode) if mode == wanted => Ok(()),
                    Ok(other) => Err(format!("it is in mode {other}, not {wanted}")),
                    Err(error) => Err(error),
                })
            })
        })?
    }

    fn start_holder(&self) -> Result<()> {
        let mut holder = enter(self.cluster, Place::Node(self.index), None);
        holder.args(["unshare", "--mount", "--propagation=private", "sh", "-e", "-c", HOLDER, "node"]);
        for (path, own) in OWN {
            let own = self.file(own);
            for directory in [Path::new(path), &own] {
                fs::create_dir_all(directory).map_err(Error::file("create", directory))?;
            }
            holder.arg(own).arg(path);
        }
        holder.arg("--").arg(self.tools.path("pause")?).env("PATH", self.tools.search_path());
        self.parts.start_until_ready(&Self::holder(self.index), &holder)
    }

    fn write_containerd_config(&self) -> Result<()> {
        // `_default`: an image of whatever registry is looked for in the cluster's, which is the only one in reach.
        let hosts = format!(
            "server = \"http://{0}\"\n[host.\"http://{0}\"]\ncapabilities = [\"pull\", \"resolve\"]\n",
            self.options.ip_family.first().registry()
        );
        self.write("certs.d/_default/hosts.toml", &hosts)?;
        self.write("containerd.toml", &self.containerd_config()?)?;
        match self.options.network {
            PodNetwork::Bridge => self.write_cni_config(None),
            // Only flannel knows what it leaves to pods, and before there is a network the node must not have pods.
            PodNetwork::Flannel => {
                let cni = self.file("cni");
                fs::create_dir_all(&cni).map_err(Error::file("create", cni))
            }
        }
    }

    /// Tells containerd how pods are connected; the node becomes ready by that. `mtu` is the largest packet of pods, in bytes; none:
    /// what the link has.
    fn write_cni_config(&self, mtu: Option<u32>) -> Result<()> {
        let each = || self.options.ip_family.each().iter();
        let ranges: Vec<Value> = each().map(|family| json!([{"subnet": family.pods(self.index)}])).collect();
        let routes: Vec<Value> = each().map(|family| json!({"dst": family.everywhere()})).collect();
        let conflist = json!({
            "cniVersion": "1.0.0",
            "name": "pods",
            "plugins": [
                {
                    "type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false, "hairpinMode": true,
                    "mtu": mtu.unwrap_or_default(),
                    "ipam": {"type": "host-local", "ranges": ranges, "routes": routes},
                },
                {"type": "portmap", "capabilities": {"portMappings": true}, "backend": self.options.proxy},
            ],
        });
        self.write("cni/10-pods.conflist", &conflist.to_string())
    }

    /// Starts flannel, whose tunnel pods need, and lets pods onto the node. The Node must be there, with its subnets.
    pub(crate) fn start_flannel(&self) -> Result<()> {
        let configuration = "flannel.json";
        self.write(configuration, &flannel::configuration(self.options))?;
        let mut command = self.command("flannel")?;
        command.arg("--kubeconfig-file").arg(self.directory.join(format!("{}.conf", flannel::USER)));
        command.arg("--net-config-path").arg(self.file(configuration));
        command.arg("--subnet-file").arg(Path::new("/run").join(flannel::SUBNET_FILE)).env("NODE_NAME", self.name());
        self.parts.start(&self.part("flannel"), &command)?;
        let alive = || self.parts.alive(&self.part("flannel")).map(drop);
        let mtu = flannel::wait_for_mtu(&self.name(), &self.file("run").join(flannel::SUBNET_FILE), alive)?;
        self.write_cni_config(Some(mtu))
    }

    /// Waits until the pods of another node are reached through the tunnel. Before, the default route leads there, too.
    pub(crate) fn wait_for_tunnel(&self, other: u8) -> Result<()> {
        let what = format!("the tunnel from {} to n{other}", self.name());
        for family in self.options.ip_family.each() {
            let address = flannel::first_address(&family.pods(other))?;
            run::until(&what, Duration::from_mins(1), || {
                self.parts.alive(&self.part("flannel"))?;
                let route = network::route(self.cluster, Place::Node(self.index), address)?;
                Ok(if route.contains(&format!(" dev {} ", flannel::LINK)) { Ok(()) } else { Err(route) })
            })?;
        }
        Ok(())
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.file(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(Error::file("create", parent))?;
        }
        fs::write(&path, text).map_err(Error::file("write", path))
    }

    fn containerd_config(&self) -> Result<String> {
        let settings = runtime::Settings {
            root: &self.file("containerd"),
            opt: &self.file("opt"),
            registries: &self.file("certs.d"),
            pause: format!("{}/pause:1", self.options.ip_family.first().registry()),
            cni_programs: &self.tools.directory_of("bridge")?,
            cni: &self.file("cni"),
        };
        Ok(settings.config(self.options.runtime))
    }

    fn kubelet_config(&self) -> String {
        let pki = |name: String| self.directory.join("pki").join(name).display().to_string();
        let config = json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {
                "anonymous": {"enabled": false},
                "webhook": {"enabled": true},
                "x509": {"clientCAFile": pki("ca.crt".into())},
            },
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": pki(format!("{}.crt", self.name())),
            "tlsPrivateKeyFile": pki(format!("{}.key", self.name())),
            "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": format!("/hitless/{}/{}", self.cluster, self.name()),
            // Many machines still have the controllers in v1 hierarchies; so has this kubelet then.
            "failCgroupV1": false,
            "failSwapOn": false,
            "enforceNodeAllocatable": ["none"],
            "address": self.options.ip_family.unspecified(),
            "clusterDNS": [self.options.ip_family.first().dns()],
            "clusterDomain": "cluster.local",
            "resolvConf": "",
            "healthzBindAddress": "127.0.0.1",
            "maxPods": 200,
            // The disk and the memory are the machine's: a node must not evict pods because others fill them. A share of a large disk
            // would be gigabytes, and pressure that has gone lasts for five minutes unless it is told otherwise.
            "evictionHard": {"nodefs.available": "200Mi", "imagefs.available": "200Mi", "memory.available": "50Mi"},
            "evictionPressureTransitionPeriod": "10s",
            "imageGCHighThresholdPercent": 100,
        });
        format!("{config:#}\n")
    }

    /// The kubelet ends when it finds no runtime.
    fn wait_for_containerd(&self) -> Result<()> {
        let holder = self.parts.alive(&Self::holder(self.index))?;
        let socket = format!("/proc/{holder}/root/run/containerd/containerd.sock");
        run::until(&format!("containerd of {}", self.name()), Duration::from_secs(30), || {
            self.parts.alive(&self.part("containerd"))?;
            Ok(UnixStream::connect(&socket).map_err(|error| error.to_string()))
        })
        .map(drop)
    }

    fn part(&self, program: &str) -> String {
        format!("n{}/{program}", self.index)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.join(self.name()).join(name)
    }

    /// A program in the node's namespaces.
    fn command(&self, program: &str) -> Result<Command> {
        let holder = self.parts.alive(&Self::holder(self.index))?;
        let mut command = enter(self.cluster, Place::Node(self.index), Some(holder));
        command.arg(self.tools.path(program)?).env("PATH", self.tools.search_path());
        Ok(command)
    }
}

/// What kube-proxy says of itself, on one of its ports of the node that this thread is on.
fn ask_proxy(port: u16, path: &str) -> Result<String, String> {
    match http::request(SocketAddr::from((Ipv4Addr::LOCALHOST, port)), "GET", path, "", &[]) {
        Ok(response) if response.status == 200 => Ok(response.body),
        Ok(response) => Err(response.body),
        Err(error) => Err(error.to_string()),
    }
}

/// Removes the directories of the machine that nodes had to mount over, where nobody else uses them. While there is another
/// cluster they stay: the kernel lets an empty directory go that is a mount point in another mount namespace only, and with it
/// what is mounted there.
pub(crate) fn remove_mount_points() {
    if network::any_cluster() {
        return;
    }
    for path in ["/var/lib/kubelet", "/var/lib/cni"] {
        // Not empty, and so somebody else's: then it stays.
        let _ = fs::remove_dir(path);
    }
}
