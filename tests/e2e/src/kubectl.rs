//! `kubectl`: in the control plane's network namespace, or with somebody's kubeconfig.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use hitless_cluster::{Cluster, Place};
use serde_json::Value;

/// Runs `kubectl` for one namespace.
#[derive(Clone)]
pub struct Kubectl {
    access: Access,
    namespace: String,
}

/// How the API server is reached.
#[derive(Clone)]
enum Access {
    /// From inside a cluster of this repository, with its own kubectl.
    Inside(Arc<Cluster>),
    /// From here, with the kubectl on the PATH.
    Kubeconfig(Arc<Path>),
}

impl Kubectl {
    /// `kubectl -n namespace`.
    #[must_use]
    pub fn new(cluster: Arc<Cluster>, namespace: &str) -> Self {
        Self { access: Access::Inside(cluster), namespace: namespace.to_owned() }
    }

    /// `kubectl -n namespace` for whatever cluster a kubeconfig names.
    #[must_use]
    pub fn with_kubeconfig(kubeconfig: &Path, namespace: &str) -> Self {
        Self { access: Access::Kubeconfig(kubeconfig.into()), namespace: namespace.to_owned() }
    }

    /// The same for another namespace.
    #[must_use]
    pub fn in_namespace(&self, namespace: &str) -> Self {
        Self { access: self.access.clone(), namespace: namespace.to_owned() }
    }

    /// The namespace that commands go to.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The cluster, if it is one of this repository.
    #[must_use]
    pub fn cluster(&self) -> Option<&Arc<Cluster>> {
        match &self.access {
            Access::Inside(cluster) => Some(cluster),
            Access::Kubeconfig(_) => None,
        }
    }

    /// A program that finds the API server as kubectl does, not started.
    pub fn program(&self, program: &str) -> anyhow::Result<Command> {
        Ok(match &self.access {
            Access::Inside(cluster) => cluster.command(Place::ControlPlane, program)?,
            Access::Kubeconfig(path) => {
                let mut command = Command::new(program);
                command.env("KUBECONFIG", path.as_os_str());
                command
            }
        })
    }

    /// The command, not started.
    pub fn command(&self, arguments: &[&str]) -> anyhow::Result<Command> {
        let mut command = self.program("kubectl")?;
        command.args(["-n", &self.namespace]).args(arguments).stdin(Stdio::null());
        Ok(command)
    }

    /// Runs the plugin, which is that file, in the namespace; returns what it printed, whatever its exit code.
    pub fn plugin(&self, file: &Path, arguments: &[&str]) -> anyhow::Result<Output> {
        let mut command = self.program(&file.to_string_lossy())?;
        let command = command.args(arguments).args(["-n", &self.namespace]).stdin(Stdio::null());
        command.output().with_context(|| format!("kubectl hitless {}", arguments.join(" ")))
    }

    /// Runs it and returns what it printed, whatever its exit code.
    pub fn output(&self, arguments: &[&str]) -> anyhow::Result<Output> {
        self.command(arguments)?.output().with_context(|| format!("kubectl {}", arguments.join(" ")))
    }

    /// Runs it; an exit code other than 0 is an error with what it said.
    pub fn run(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let output = self.output(arguments)?;
        if !output.status.success() {
            bail!("kubectl {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs it and expects it to be refused; returns what it said on standard error.
    pub fn refused(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let output = self.output(arguments)?;
        if output.status.success() {
            bail!(
                "kubectl {} should have been refused but said: {}",
                arguments.join(" "),
                String::from_utf8_lossy(&output.stdout)
            );
        }
        Ok(String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// `kubectl get … -o json`.
    pub fn get(&self, arguments: &[&str]) -> anyhow::Result<Value> {
        let text = self.run(&[&["get", "-o", "json"], arguments].concat())?;
        serde_json::from_str(&text).context("kubectl get did not print JSON")
    }

    /// The items of `kubectl get … -o json`.
    pub fn list(&self, arguments: &[&str]) -> anyhow::Result<Vec<Value>> {
        Ok(self.get(arguments)?["items"].as_array().cloned().unwrap_or_default())
    }

    /// `kubectl VERB -f -` with an object on standard input, for `apply`, `create`, `replace`.
    pub fn feed(&self, arguments: &[&str], object: &Value) -> anyhow::Result<String> {
        self.feed_text(arguments, &object.to_string())
    }

    /// The same with a manifest as text.
    pub fn feed_text(&self, arguments: &[&str], manifest: &str) -> anyhow::Result<String> {
        let mut command = self.command(&[arguments, &["-f", "-"]].concat())?;
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(manifest.as_bytes())?;
        }
        let output = child.wait_with_output()?;
        if !output.status.success() {
            bail!("kubectl {} -f -: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
