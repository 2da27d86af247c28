//! What runs containers on the nodes, and how it is set up.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::named::named;

/// containerd and the program that it starts for each container.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Runtime {
    /// containerd 2 with runc.
    #[default]
    Containerd2,
    /// containerd 1.7 with runc.
    Containerd1_7,
    /// containerd 1.7 with crun, from Debian's package. Debian 12 has crun 1.8, which refuses the specifications that containerd 2 writes
    /// ("unknown version specified").
    Crun,
}

impl Runtime {
    pub(crate) const ALL: [(Self, &str); 3] =
        [(Self::Containerd2, "containerd-2"), (Self::Containerd1_7, "containerd-1.7"), (Self::Crun, "crun")];

    /// The sections of `config.toml` for the CRI, whose names differ between the versions.
    const fn sections(self) -> Sections {
        match self {
            Self::Containerd2 => {
                Sections { version: 3, runtime: "io.containerd.cri.v1.runtime", images: "io.containerd.cri.v1.images" }
            }
            Self::Containerd1_7 | Self::Crun => {
                Sections { version: 2, runtime: "io.containerd.grpc.v1.cri", images: "io.containerd.grpc.v1.cri" }
            }
        }
    }
}

named!(Runtime, "runtime");

struct Sections {
    version: u8,
    runtime: &'static str,
    images: &'static str,
}

/// What containerd is told about a node.
pub(crate) struct Settings<'a> {
    /// Its own data.
    pub(crate) root: &'a Path,
    /// Where it may install things; empty.
    pub(crate) opt: &'a Path,
    /// Which registries there are: directories with `hosts.toml`.
    pub(crate) registries: &'a Path,
    /// The image that holds a pod's namespaces.
    pub(crate) pause: String,
    /// CNI's programs.
    pub(crate) cni_programs: &'a Path,
    /// CNI's configuration.
    pub(crate) cni: &'a Path,
}

impl Settings<'_> {
    /// containerd's `config.toml`.
    pub(crate) fn config(&self, runtime: Runtime) -> String {
        let Sections { version, runtime: cri, images } = runtime.sections();
        let quoted = |path: &Path| format!("{:?}", path.display().to_string());
        let (pause, cni_programs) = (&self.pause, quoted(self.cni_programs));
        // The older one has a single directory for programs, and the name of the image beside all other settings.
        let pinned = format!("[plugins.'{images}'.pinned_images]\nsandbox = {pause:?}\n");
        let (pinned, sandbox_image, programs) = match runtime {
            Runtime::Containerd2 => (pinned, String::new(), format!("bin_dirs = [{cni_programs}]")),
            Runtime::Containerd1_7 | Runtime::Crun => {
                (String::new(), format!("sandbox_image = {pause:?}\n"), format!("bin_dir = {cni_programs}"))
            }
        };
        let program = match runtime {
            Runtime::Containerd2 | Runtime::Containerd1_7 => "runc",
            Runtime::Crun => "crun",
        };
        format!(
            r#"version = {version}
root = {root}
state = "/run/containerd"
disabled_plugins = ["io.containerd.nri.v1.nri"]
[grpc]
address = "/run/containerd/containerd.sock"
[plugins.'io.containerd.internal.v1.opt']
path = {opt}
{pinned}[plugins.'{cri}']
{sandbox_image}# Without CAP_SYS_RESOURCE runc could not set the scores that Kubernetes asks for, and no container would start.
restrict_oom_score_adj = true
[plugins.'{images}'.registry]
config_path = {registries}
[plugins.'{cri}'.cni]
{programs}
conf_dir = {cni}
[plugins.'{cri}'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins.'{cri}'.containerd.runtimes.runc.options]
SystemdCgroup = false
BinaryName = "{program}"
"#,
            root = quoted(self.root),
            opt = quoted(self.opt),
            registries = quoted(self.registries),
            cni = quoted(self.cni),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_finds_its_settings_under_its_own_names() {
        let path = Path::new;
        let settings = Settings {
            root: path("/root"),
            opt: path("/opt"),
            registries: path("/certs.d"),
            pause: "registry/pause:1".into(),
            cni_programs: path("/cni/bin"),
            cni: path("/cni/conf"),
        };
        let (newer, older) = (settings.config(Runtime::Containerd2), settings.config(Runtime::Containerd1_7));
        assert!(newer.contains("version = 3") && newer.contains("bin_dirs = [\"/cni/bin\"]"), "{newer}");
        assert!(newer.contains("pinned_images]\nsandbox = \"registry/pause:1\""), "{newer}");
        assert!(older.contains("version = 2") && older.contains("bin_dir = \"/cni/bin\""), "{older}");
        assert!(
            older.contains("[plugins.'io.containerd.grpc.v1.cri']\nsandbox_image = \"registry/pause:1\""),
            "{older}"
        );
        assert!(!newer.contains("crun") && settings.config(Runtime::Crun).contains("BinaryName = \"crun\"\n"));
    }
}
