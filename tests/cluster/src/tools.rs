//! The programs a cluster consists of: built from the pinned Go modules in `modules/`, kept by version.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{Error, Options, PodNetwork, Progress, Result, Runtime, packages, run, workspace};

/// One Go module of `modules/` and the programs that are built from it.
struct Module {
    directory: &'static str,
    /// The module whose version, from `go.mod`, is the version of the programs; none for a program of our own.
    pinned: Option<&'static str>,
    /// Program name and package path.
    programs: &'static [(&'static str, &'static str)],
    /// Whether C is compiled, for libseccomp.
    cgo: bool,
}

/// Kubernetes first: it takes longest, and most of what the others need is compiled with it.
const MODULES: [Module; 7] = [
    Module {
        directory: "kube",
        pinned: Some("k8s.io/kubernetes"),
        programs: &[
            ("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
            ("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"),
            ("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"),
            ("kubelet", "k8s.io/kubernetes/cmd/kubelet"),
            ("kube-proxy", "k8s.io/kubernetes/cmd/kube-proxy"),
            ("kubectl", "k8s.io/kubernetes/cmd/kubectl"),
        ],
        cgo: false,
    },
    Module {
        directory: "etcd",
        pinned: Some("go.etcd.io/etcd/server/v3"),
        programs: &[("etcd", "go.etcd.io/etcd/server/v3")],
        cgo: false,
    },
    Module {
        directory: "containerd",
        pinned: Some("github.com/containerd/containerd/v2"),
        programs: &[
            ("containerd", "github.com/containerd/containerd/v2/cmd/containerd"),
            ("containerd-shim-runc-v2", "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"),
            ("ctr", "github.com/containerd/containerd/v2/cmd/ctr"),
        ],
        cgo: false,
    },
    Module {
        directory: "runc",
        pinned: Some("github.com/opencontainers/runc"),
        programs: &[("runc", "github.com/opencontainers/runc")],
        cgo: true,
    },
    Module {
        directory: "cni",
        pinned: Some("github.com/containernetworking/plugins"),
        programs: &[
            ("bridge", "github.com/containernetworking/plugins/plugins/main/bridge"),
            ("host-local", "github.com/containernetworking/plugins/plugins/ipam/host-local"),
            ("loopback", "github.com/containernetworking/plugins/plugins/main/loopback"),
            ("portmap", "github.com/containernetworking/plugins/plugins/meta/portmap"),
        ],
        cgo: false,
    },
    Module {
        directory: "registry",
        pinned: Some("github.com/distribution/distribution/v3"),
        programs: &[("registry", ".")],
        cgo: false,
    },
    Module { directory: "pause", pinned: None, programs: &[("pause", ".")], cgo: false },
];

/// containerd 1.7, instead of the newer one.
const CONTAINERD_1_7: Module = Module {
    directory: "containerd-1.7",
    pinned: Some("github.com/containerd/containerd"),
    programs: &[
        ("containerd", "github.com/containerd/containerd/cmd/containerd"),
        ("containerd-shim-runc-v2", "github.com/containerd/containerd/cmd/containerd-shim-runc-v2"),
        ("ctr", "github.com/containerd/containerd/cmd/ctr"),
    ],
    cgo: false,
};

/// flannel, for clusters that have it.
const FLANNEL: Module = Module {
    directory: "flannel",
    pinned: Some("github.com/flannel-io/flannel"),
    programs: &[("flannel", ".")],
    cgo: false,
};

/// Both versions of Helm that are in use, for the tests of the chart. No cluster needs them. In one module, so that what they share is
/// compiled once.
const HELM: Module = Module {
    directory: "helm",
    pinned: Some("helm.sh/helm/v4"),
    programs: &[("helm-3", "helm.sh/helm/v3/cmd/helm"), ("helm-4", "helm.sh/helm/v4/cmd/helm")],
    cgo: false,
};

/// Finds Helm 3 and Helm 4, building them if they are missing.
pub fn helm(progress: Progress<'_>) -> Result<[PathBuf; 2]> {
    let directory = HELM.ensure(progress)?;
    Ok(["helm-3", "helm-4"].map(|program| directory.join(program)))
}

/// The built programs, each in the directory of its module and version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tools {
    directories: Vec<PathBuf>,
}

impl Tools {
    /// Finds the programs of the pinned versions, building what is missing.
    ///
    /// From nothing this takes about six minutes on two cores. A build that was interrupted is never used: programs
    /// are built elsewhere and moved into place when the module is complete.
    pub fn ensure(options: Options, progress: Progress<'_>) -> Result<Self> {
        let mut directories = Vec::new();
        for module in modules(options) {
            directories.push(module.ensure(progress)?);
        }
        Ok(Self { directories })
    }

    /// The path of a program.
    pub fn path(&self, program: &str) -> Result<PathBuf> {
        let mut candidates = self.directories.iter().map(|directory| directory.join(program));
        candidates.find(|path| path.is_file()).ok_or_else(|| {
            Error::Invalid(format!("{program} is none of the programs that are built from tests/cluster/modules"))
        })
    }

    /// A search path with all programs first, then the caller's own.
    #[must_use]
    pub fn search_path(&self) -> String {
        let own = self.directories.iter().map(|directory| directory.to_string_lossy().into_owned());
        own.chain(std::env::var("PATH")).collect::<Vec<_>>().join(":")
    }

    /// The directory that holds `program`, for settings that want a directory.
    pub(crate) fn directory_of(&self, program: &str) -> Result<PathBuf> {
        let path = self.path(program)?;
        Ok(path.parent().map(Path::to_path_buf).unwrap_or_default())
    }
}

/// What a cluster of that kind is built from.
fn modules(options: Options) -> Vec<Module> {
    let chosen = |module: Module| match module.directory {
        "kube" => Module { directory: options.kubernetes.module(), ..module },
        "containerd" => match options.runtime {
            Runtime::Containerd2 => module,
            Runtime::Containerd1_7 | Runtime::Crun => CONTAINERD_1_7,
        },
        _ => module,
    };
    let of_network = match options.network {
        PodNetwork::Bridge => None,
        PodNetwork::Flannel => Some(FLANNEL),
    };
    MODULES.into_iter().map(chosen).chain(of_network).collect()
}

impl Module {
    fn source(&self) -> PathBuf {
        workspace::modules().join(self.directory)
    }

    /// The directory with its programs, which are built if they are missing.
    fn ensure(&self, progress: Progress<'_>) -> Result<PathBuf> {
        let bin = workspace::bin();
        fs::create_dir_all(&bin).map_err(Error::file("create", &bin))?;
        // Two commands at a time must not build the same thing twice.
        let lock_path = bin.join(format!("{}.lock", self.directory));
        let lock = File::create(&lock_path).map_err(Error::file("create", &lock_path))?;
        lock.lock().map_err(Error::file("lock", &lock_path))?;
        let directory = bin.join(self.key()?);
        if !directory.is_dir() {
            self.build(&directory, progress)?;
        }
        Ok(directory)
    }

    /// Name of the directory in the cache: module, version, and a digest of all that decides what is built.
    fn key(&self) -> Result<String> {
        let source = self.source();
        let mut names: Vec<PathBuf> = fs::read_dir(&source)
            .map_err(Error::file("list", &source))?
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.is_file())
            .collect();
        names.sort();
        let mut digest = Sha256::new();
        digest.update(self.flags().join(" "));
        for path in names {
            digest.update(path.file_name().unwrap_or_default().as_encoded_bytes());
            digest.update(fs::read(&path).map_err(Error::file("read", &path))?);
        }
        let digest = format!("{:x}", digest.finalize());
        Ok(format!("{}-{}-{}", self.directory, self.version()?, &digest[..8]))
    }

    /// The pinned version, as written in `go.mod`.
    fn version(&self) -> Result<String> {
        let Some(pinned) = self.pinned else { return Ok("local".into()) };
        let path = self.source().join("go.mod");
        let text = fs::read_to_string(&path).map_err(Error::file("read", &path))?;
        required_version(&text, pinned)
            .ok_or_else(|| Error::Invalid(format!("{} does not require {pinned}", path.display())))
    }

    fn flags(&self) -> Vec<String> {
        let link = match (self.pinned, self.version()) {
            (Some("k8s.io/kubernetes"), Ok(version)) => format!("-s -w {}", kubernetes_version(&version)),
            (Some("helm.sh/helm/v4"), _) => format!("-s -w {}", self.helm_version()),
            _ => "-s -w".to_owned(),
        };
        let mut flags = vec!["-mod=readonly".into(), "-buildvcs=false".into(), "-trimpath".into()];
        if self.cgo {
            flags.push("-tags=seccomp".into());
        }
        flags.push(format!("-ldflags={link}"));
        flags
    }

    /// Linker flags of a released Helm 3: which Kubernetes it takes for granted where no cluster is asked. Without them that is 1.20.
    fn helm_version(&self) -> String {
        let text = fs::read_to_string(self.source().join("go.mod")).unwrap_or_default();
        let client = required_version(&text, "k8s.io/client-go").unwrap_or_default();
        let minor = client.split('.').nth(1).unwrap_or_default();
        let package = "helm.sh/helm/v3/pkg/chartutil";
        format!("-X {package}.k8sVersionMajor=1 -X {package}.k8sVersionMinor={minor}")
    }

    fn build(&self, directory: &Path, progress: Progress<'_>) -> Result<()> {
        packages::ensure_for_building(self.cgo, progress)?;
        let unfinished = PathBuf::from(format!("{}.unfinished", directory.display()));
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished).map_err(Error::file("remove", &unfinished))?;
        }
        fs::create_dir_all(&unfinished).map_err(Error::file("create", &unfinished))?;
        for (program, package) in self.programs {
            let begin = Instant::now();
            progress(&format!("building {program} {} …", self.version()?));
            let mut command = Command::new("go");
            command.arg("build").args(self.flags()).arg("-o").arg(unfinished.join(program)).arg(package);
            command.current_dir(self.source()).env("CGO_ENABLED", if self.cgo { "1" } else { "0" });
            // A workspace file or flags of the caller would change what is built.
            command.env("GOWORK", "off").env_remove("GOFLAGS");
            run::output(&mut command)?;
            progress(&format!("built {program} in {:.0} s", begin.elapsed().as_secs_f64()));
        }
        fs::rename(&unfinished, directory).map_err(Error::file("move into place", directory))
    }
}

/// Linker flags that tell Kubernetes its own version; without them every client is told v0.0.0.
fn kubernetes_version(version: &str) -> String {
    let mut numbers = version.trim_start_matches('v').split('.');
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    let (base, client) = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version");
    format!(
        "-X {base}.gitVersion={version} -X {base}.gitMajor={major} -X {base}.gitMinor={minor} \
         -X {client}.gitVersion={version}"
    )
}

/// The version that a `go.mod` requires of a module.
fn required_version(go_mod: &str, module: &str) -> Option<String> {
    go_mod.lines().find_map(|line| {
        let mut words = line.trim().trim_start_matches("require ").split_whitespace();
        (words.next() == Some(module)).then(|| words.next()).flatten().filter(|w| w.starts_with('v')).map(str::to_owned)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_found_alone_and_in_a_block() {
        let text = "module a\n\nrequire k8s.io/kubernetes v1.36.3\n\nrequire (\n\tb.example/c v0.1.0 // indirect\n)\n";
        assert_eq!(required_version(text, "k8s.io/kubernetes").as_deref(), Some("v1.36.3"));
        assert_eq!(required_version(text, "b.example/c").as_deref(), Some("v0.1.0"));
        assert_eq!(required_version(text, "b.example"), None);
    }

    #[test]
    fn every_module_is_pinned_and_has_a_key_of_its_own() {
        let mut keys: Vec<String> =
            MODULES.iter().chain([&CONTAINERD_1_7, &FLANNEL, &HELM]).map(|module| module.key().unwrap()).collect();
        assert!(keys.iter().any(|key| key.starts_with("kube-v1.")), "{keys:?}");
        keys.dedup();
        assert_eq!(keys.len(), MODULES.len() + 3);
    }
}
