//! `kubectl hitless`, as this build has it.

use std::process::Output;

use anyhow::ensure;

use crate::until::until_answered;
use crate::{App, Stack};

impl Stack {
    /// Runs `kubectl hitless …` in the application's namespace, whatever its exit code.
    pub fn hitless_output(&self, app: &App, arguments: &[&str]) -> anyhow::Result<Output> {
        app.kubectl.plugin(&self.programs.cli, arguments)
    }

    /// Runs `kubectl hitless …` in the application's namespace and returns what it printed.
    pub fn hitless(&self, app: &App, arguments: &[&str]) -> anyhow::Result<String> {
        let output = self.hitless_output(app, arguments)?;
        ensure!(
            output.status.success(),
            "kubectl hitless {}: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Waits until `kubectl hitless …` says all of this at once, on either of its outputs and whatever its exit code, and returns
    /// what it has said: that depends on what controller, agents and kubelets have told so far.
    pub fn wait_says(&self, app: &App, arguments: &[&str], words: &[&str]) -> anyhow::Result<String> {
        until_answered(|| {
            let Output { stdout, stderr, .. } = self.hitless_output(app, arguments)?;
            let said = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
            let missing: Vec<&&str> = words.iter().filter(|word| !said.contains(**word)).collect();
            ensure!(
                missing.is_empty(),
                "kubectl hitless {} never says {missing:?}; it says:\n{said}",
                arguments.join(" ")
            );
            Ok(said)
        })
    }
}
