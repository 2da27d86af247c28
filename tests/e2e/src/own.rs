//! Somebody's own cluster, on which hitless is installed already.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context as _, ensure};
use hitless_cluster::Write;
use jiff::Timestamp;
use serde_json::Value;

use crate::app::Shape;
use crate::build::Programs;
use crate::site::Site;
use crate::stack::SYSTEM_NAMESPACE;
use crate::traffic::Rate;
use crate::{App, Kubectl, Traffic, namespace};

/// What the agents cannot work without.
const DEFINITION: &str = "customresourcedefinition/nodetransitions.hitless.dev";
/// Tag of the image that the load client's pod runs.
const LOAD_VERSION: &str = "v1";

/// A cluster that a kubeconfig names. Its namespace for the load client is deleted when dropped.
pub struct Own {
    kubeconfig: PathBuf,
    registry: String,
    repository: String,
    /// The plugin.
    pub cli: PathBuf,
    load: Kubectl,
}

impl Own {
    /// Looks whether hitless is there, and makes the namespace `load_namespace`. `image` is the repository
    /// of the reference server's images without tag. The plugin is built if it has changed.
    pub fn attach(kubeconfig: &Path, image: &str, load_namespace: &str) -> anyhow::Result<Self> {
        let (registry, repository) = split(image)?;
        let kubeconfig = std::path::absolute(kubeconfig)?;
        ensure!(kubeconfig.is_file(), "there is no kubeconfig {}", kubeconfig.display());
        Command::new("kubectl").args(["version", "--client"]).output().context("kubectl must be on the PATH")?;
        check_installed(&Kubectl::with_kubeconfig(&kubeconfig, SYSTEM_NAMESPACE), &kubeconfig)?;
        let cli = Programs::build_cli()?;
        let load = Kubectl::with_kubeconfig(&kubeconfig, load_namespace);
        namespace::make(&load)?;
        Ok(Self { kubeconfig, registry, repository, cli, load })
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // Nothing else can be done about a namespace that can't be deleted; the next run says so.
        let _ = self.load.run(&["delete", "namespace", self.load.namespace(), "--wait=false"]);
    }
}

impl Site for Own {
    fn kubectl(&self, namespace: &str) -> Kubectl {
        Kubectl::with_kubeconfig(&self.kubeconfig, namespace)
    }

    fn shape(&self) -> Shape {
        let (registry, repository) = (self.registry.clone(), self.repository.clone());
        Shape { registry, repository, mode: None, ..Shape::default() }
    }

    /// From a pod: Services are not reached from everywhere, and `kubectl port-forward` would hide what clients lose.
    fn load(&self, app: &App, rate: Rate) -> anyhow::Result<Traffic> {
        Traffic::start_in_pod(&self.load, &app.image(LOAD_VERSION), app.address, rate)
    }

    /// Only the audit log tells, and it is not read over the API.
    fn writes(&self, _since: Timestamp) -> anyhow::Result<Vec<Write>> {
        Ok(Vec::new())
    }

    fn plugin(&self, app: &App, arguments: &[&str]) -> anyhow::Result<Output> {
        app.kubectl.plugin(&self.cli, arguments)
    }
}

/// An error that says what to do if hitless is not there or not ready.
fn check_installed(system: &Kubectl, kubeconfig: &Path) -> anyhow::Result<()> {
    let install = format!(
        "Push hitless's images and install it (manifests/README.md):\n  kubectl --kubeconfig {} apply -k manifests/crds, then -k manifests",
        kubeconfig.display()
    );
    for (object, count, wanted) in [
        (DEFINITION, "", ""),
        ("deployment/hitless-controller", "readyReplicas", "replicas"),
        ("daemonset/hitless-agent", "numberReady", "desiredNumberScheduled"),
    ] {
        let found = system.run(&["get", object, "--ignore-not-found", "-o", "json"]);
        let found = found.with_context(|| format!("ask the cluster of {} for hitless", kubeconfig.display()))?;
        ensure!(!found.trim().is_empty(), "hitless is not installed on this cluster: {object} is missing. {install}");
        let status = &serde_json::from_str::<Value>(&found)?["status"];
        let number = |name: &str| status[name].as_u64().unwrap_or(0);
        ensure!(
            count.is_empty() || (number(count) > 0 && number(count) >= number(wanted)),
            "hitless is not ready on this cluster: of {object} {} of {} pods are. `kubectl -n {SYSTEM_NAMESPACE} get pods` shows why.",
            number(count),
            number(wanted)
        );
    }
    Ok(())
}

/// What is before the last slash, and what is behind it. An image without a slash is one of Docker Hub's own.
fn split(image: &str) -> anyhow::Result<(String, String)> {
    let (registry, name) = image.rsplit_once('/').unwrap_or(("docker.io/library", image));
    ensure!(
        !registry.is_empty() && !name.is_empty() && !name.contains([':', '@']),
        "--image {image}: use the name of a repository without a tag, such as registry.example/me/echo"
    );
    Ok((registry.to_owned(), name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_named_without_a_tag() {
        let of = |image: &str| split(image).unwrap();
        assert_eq!(of("registry.example:5000/me/echo"), ("registry.example:5000/me".to_owned(), "echo".to_owned()));
        assert_eq!(of("echo"), ("docker.io/library".to_owned(), "echo".to_owned()));
        for wrong in ["me/echo:v1", "me/echo@sha256:0", "me/", "/echo", ""] {
            assert!(split(wrong).unwrap_err().to_string().contains("without a tag"), "{wrong}");
        }
    }
}
