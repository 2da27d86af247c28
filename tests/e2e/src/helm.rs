//! The chart, and Helm as users have it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context as _, bail, ensure};
use serde_json::json;

use crate::build::workspace;
use crate::{Kubectl, Stack};

/// Name of the release in the tests.
pub const RELEASE: &str = "hitless";

/// The chart.
#[must_use]
pub fn chart() -> String {
    workspace().join("charts/hitless").to_string_lossy().into_owned()
}

/// One of the versions of Helm.
pub struct Helm {
    program: PathBuf,
}

impl Helm {
    /// Helm 3 and Helm 4, which are built if they are missing.
    pub fn both() -> anyhow::Result<[Self; 2]> {
        Ok(hitless_cluster::helm(&|line| eprintln!("{line}"))?.map(|program| Self { program }))
    }

    /// `helm-3` or `helm-4`.
    #[must_use]
    pub fn name(&self) -> String {
        self.program.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// `helm template` of the chart, which needs no cluster; whatever its exit code.
    pub fn template(&self, namespace: &str, arguments: &[&str]) -> anyhow::Result<Output> {
        let mut command = Command::new(&self.program);
        command.args(["template", RELEASE, &chart(), "--namespace", namespace, "--skip-tests"]).args(arguments);
        self.output(command)
    }

    /// Runs it for the cluster and the namespace of that kubectl; whatever its exit code.
    pub fn try_run(&self, system: &Kubectl, arguments: &[&str]) -> anyhow::Result<Output> {
        let mut command = system.program(&self.program.to_string_lossy())?;
        command.args(["--namespace", system.namespace()]).args(arguments);
        self.output(command)
    }

    /// The same; an exit code other than 0 is an error with what it said.
    pub fn run(&self, system: &Kubectl, arguments: &[&str]) -> anyhow::Result<String> {
        let output = self.try_run(system, arguments)?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr).into_owned();
            bail!("{} {}: {text}{why}", self.name(), arguments.join(" "));
        }
        Ok(text)
    }

    fn output(&self, mut command: Command) -> anyhow::Result<Output> {
        // Nothing of the user's own: repositories, plugins, a default namespace.
        let home = workspace().join(".cache/helm").join(self.name());
        for (name, folder) in [("CACHE", "cache"), ("CONFIG", "config"), ("DATA", "data")] {
            command.env(format!("HELM_{name}_HOME"), home.join(folder));
        }
        command.env_remove("HELM_NAMESPACE").env_remove("HELM_DRIVER").stdin(Stdio::null());
        command.output().with_context(|| format!("cannot run {}", self.program.display()))
    }
}

impl Stack {
    /// Pushes this build's images and writes the values that name them; returns the path of the file.
    pub fn write_values(&self) -> anyhow::Result<String> {
        let programs = &self.programs;
        let image = |name: &str, tag: String| json!({"image": {"repository": format!("hitless/{name}"), "tag": tag}});
        let (agent, controller) =
            (self.push("agent", &programs.agent, &[])?, self.push("controller", &programs.controller, &[])?);
        let cli = self.push("cli", &programs.cli, &libraries(&programs.cli)?)?;
        let values = json!({"agent": image("agent", agent), "controller": image("controller", controller),
            "test": image("cli", cli), "approvers": [self.approvers()], "components": ["kruise", "kusionstack"]});
        let directory = workspace().join(".cache/install").join(self.cluster.name());
        fs::create_dir_all(&directory)?;
        let path = directory.join("values.json");
        fs::write(&path, values.to_string())?;
        Ok(path.to_string_lossy().into_owned())
    }
}

/// What a program of this machine is linked with: tests run the plugin as it was built for them, and its image is empty.
fn libraries(program: &Path) -> anyhow::Result<Vec<String>> {
    let output = Command::new("ldd").arg(program).output().context("cannot run ldd (Debian package libc-bin)")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let all: Vec<String> = text.split_whitespace().filter(|word| word.starts_with('/')).map(str::to_owned).collect();
    ensure!(!all.is_empty(), "ldd says nothing of {}: {text}", program.display());
    Ok(all)
}
