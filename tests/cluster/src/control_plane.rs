//! etcd, kube-apiserver, kube-controller-manager, kube-scheduler and the image registry.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::address::{API_SERVER_PORT, Family};
use crate::part::Parts;
use crate::pki::Pki;
use crate::{Error, IpFamily, Options, Place, PodNetwork, Result, Tools, flannel, http, network, run};

/// The audit log in a cluster's directory.
pub(crate) const AUDIT_LOG: &str = "log/audit.jsonl";
/// The administrator's kubeconfig in a cluster's directory.
pub(crate) const ADMIN: &str = "admin.conf";

/// Reads are left out: they are most of the traffic, and nobody counts them.
const AUDIT_POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  verbs: [get, list, watch]
- level: Metadata
";

/// Everything needed to start parts in the control plane's namespace.
pub(crate) struct ControlPlane<'a> {
    pub(crate) cluster: &'a str,
    pub(crate) options: Options,
    pub(crate) directory: &'a Path,
    pub(crate) tools: &'a Tools,
    pub(crate) parts: &'a Parts,
}

impl ControlPlane<'_> {
    /// Makes the certificates of the control plane and its users, and their kubeconfigs.
    pub(crate) fn certificates(&self, pki: &Pki) -> Result<()> {
        let addresses =
            self.options.ip_family.each().iter().flat_map(|family| [family.control_plane(), family.api_service()]);
        let names = ["127.0.0.1", "kubernetes", "kubernetes.default", "kubernetes.default.svc"].map(str::to_owned);
        let hosts: Vec<String> = addresses.map(|address| address.to_string()).chain(names).collect();
        pki.issue("apiserver", "kube-apiserver", None, &hosts)?;
        pki.issue("apiserver-kubelet", "apiserver-kubelet", Some("system:masters"), &[])?;
        let users = [
            ("admin", "admin", Some("system:masters")),
            ("controller-manager", "system:kube-controller-manager", None),
            ("scheduler", "system:kube-scheduler", None),
            ("proxy", "system:kube-proxy", None),
        ];
        let of_network = match self.options.network {
            PodNetwork::Bridge => None,
            PodNetwork::Flannel => Some((flannel::USER, flannel::USER, None)),
        };
        for (name, user, group) in users.into_iter().chain(of_network) {
            pki.issue(name, user, group, &[])?;
            pki.kubeconfig(name, api_server(self.options.ip_family), &self.directory.join(format!("{name}.conf")))?;
        }
        Ok(())
    }

    /// Starts what needs no API server, and the API server.
    pub(crate) fn start(&self) -> Result<()> {
        self.start_registry()?;
        self.start_etcd()?;
        self.start_api_server()
    }

    /// Starts what would only complain without an API server.
    pub(crate) fn start_controllers(&self) -> Result<()> {
        let mut manager = self.command("kube-controller-manager")?;
        manager.arg(self.flag("kubeconfig", "controller-manager.conf"));
        manager.arg(self.flag("service-account-private-key-file", "pki/sa.key"));
        manager.arg(self.flag("root-ca-file", "pki/ca.crt"));
        manager.arg(format!("--cluster-cidr={}", self.options.ip_family.list(Family::cluster)));
        manager.args(["--allocate-node-cidrs=false", "--use-service-account-credentials", "--leader-elect=false"]);
        self.parts.start("kube-controller-manager", &manager)?;
        let mut scheduler = self.command("kube-scheduler")?;
        scheduler.arg(self.flag("kubeconfig", "scheduler.conf")).arg("--leader-elect=false");
        self.parts.start("kube-scheduler", &scheduler)
    }

    /// Waits until images can be pushed.
    pub(crate) fn wait_for_registry(&self) -> Result<()> {
        network::inside(self.cluster, Place::ControlPlane, || {
            run::until("the image registry", Duration::from_secs(15), || {
                self.parts.alive("registry")?;
                Ok(http::request(self.options.ip_family.first().registry(), "GET", "/v2/", "", &[])
                    .map_err(|error| error.to_string()))
            })
        })?
        .map(drop)
    }

    /// Waits until the API server serves.
    pub(crate) fn wait_for_api_server(&self, kubectl: impl Fn(&[&str]) -> Result<String> + Sync) -> Result<()> {
        let target = api_server(self.options.ip_family);
        let limit = Duration::from_mins(1);
        let check = || {
            self.parts.alive("etcd")?;
            self.parts.alive("kube-apiserver")?;
            Ok(TcpStream::connect(target).map_err(|error| error.to_string()))
        };
        // kubectl costs more than a connection, and here everything shares a few cores.
        network::inside(self.cluster, Place::ControlPlane, || run::until("kube-apiserver", limit, check))??;
        run::until("kube-apiserver", limit, || {
            self.parts.alive("kube-apiserver")?;
            Ok(kubectl(&["get", "--raw=/readyz"]).map_err(|error| error.to_string()))
        })
        .map(drop)
    }

    fn start_registry(&self) -> Result<()> {
        let mut registry = self.command("registry")?;
        registry
            .arg("--address")
            .arg(self.options.ip_family.first().registry().to_string())
            .arg("--directory")
            .arg(self.directory.join("registry"));
        self.parts.start("registry", &registry)
    }

    fn start_etcd(&self) -> Result<()> {
        let mut etcd = self.command("etcd")?;
        etcd.arg(self.flag("data-dir", "etcd"));
        etcd.args(["--listen-client-urls=http://127.0.0.1:2379", "--advertise-client-urls=http://127.0.0.1:2379"]);
        etcd.args(["--listen-peer-urls=http://127.0.0.1:2380", "--log-level=warn"]);
        // The data need not outlive the machine, and syncing would be most of the latency of a write.
        etcd.arg("--unsafe-no-fsync");
        // The most that etcd advises. `cargo xtask bench footprint` may write more than its default of 2 GiB.
        etcd.arg("--quota-backend-bytes=8589934592");
        self.parts.start("etcd", &etcd)
    }

    fn start_api_server(&self) -> Result<()> {
        let policy = self.directory.join("audit.yaml");
        fs::write(&policy, AUDIT_POLICY).map_err(Error::file("write", policy))?;
        let mut server = self.command("kube-apiserver")?;
        server.args(["--etcd-servers=http://127.0.0.1:2379", "--allow-privileged=true"]);
        server.arg(format!("--bind-address={}", self.options.ip_family.unspecified()));
        server.arg(format!("--secure-port={API_SERVER_PORT}"));
        server.arg(format!("--advertise-address={}", self.options.ip_family.first().control_plane()));
        server.arg(format!("--service-cluster-ip-range={}", self.options.ip_family.list(Family::services)));
        let files = [
            ("client-ca-file", "pki/ca.crt"),
            ("tls-cert-file", "pki/apiserver.crt"),
            ("tls-private-key-file", "pki/apiserver.key"),
            ("kubelet-certificate-authority", "pki/ca.crt"),
            ("kubelet-client-certificate", "pki/apiserver-kubelet.crt"),
            ("kubelet-client-key", "pki/apiserver-kubelet.key"),
            ("service-account-key-file", "pki/sa.pub"),
            ("service-account-signing-key-file", "pki/sa.key"),
            ("audit-policy-file", "audit.yaml"),
            ("audit-log-path", AUDIT_LOG),
        ];
        server.args(files.map(|(flag, file)| self.flag(flag, file)));
        server.arg("--service-account-issuer=https://kubernetes.default.svc");
        server.args(["--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction"]);
        // Node names cannot be resolved here; and webhooks are reached at their pods: there is no kube-proxy here.
        server.args(["--kubelet-preferred-address-types=InternalIP", "--enable-aggregator-routing=true"]);
        server.arg("--profiling=false").args(self.options.kubernetes.api_server_flags());
        self.parts.start("kube-apiserver", &server)
    }

    fn flag(&self, name: &str, file: &str) -> String {
        format!("--{name}={}", self.directory.join(file).display())
    }

    /// A program in the control plane's namespace.
    fn command(&self, program: &str) -> Result<Command> {
        let mut command = enter(self.cluster, Place::ControlPlane, None);
        command.arg(self.tools.path(program)?).env("PATH", self.tools.search_path());
        Ok(command)
    }
}

/// Where the cluster's own clients find the API server.
pub(crate) fn api_server(ip_family: IpFamily) -> SocketAddr {
    SocketAddr::new(ip_family.first().control_plane(), API_SERVER_PORT)
}

/// An `nsenter` into a place, to which the program must be appended.
///
/// `holder` is the process that holds a node's mount namespace, if that is to be entered as well. (`ip netns exec` is
/// no alternative: it mounts /sys anew, without the cgroups.)
pub(crate) fn enter(cluster: &str, place: Place, holder: Option<i32>) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(prefixed("--net=", &place.namespace_file(cluster)));
    if let Some(pid) = holder {
        command.arg(format!("--mount=/proc/{pid}/ns/mnt"));
    }
    command
}

fn prefixed(option: &str, path: &Path) -> PathBuf {
    PathBuf::from(format!("{option}{}", path.display()))
}
