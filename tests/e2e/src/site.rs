//! Where applications run and are measured: a cluster of this repository, or one that somebody has.

use std::process::Output;
use std::sync::Arc;

use hitless_cluster::Write;
use jiff::Timestamp;

use crate::app::Shape;
use crate::traffic::Rate;
use crate::{App, Kubectl, Stack, Traffic};

/// A cluster with hitless on it.
pub trait Site {
    /// kubectl for a namespace of it.
    fn kubectl(&self, namespace: &str) -> Kubectl;

    /// Three replicas of the reference server as this cluster can pull it. hitless chooses between leaving and holding.
    fn shape(&self) -> Shape;

    /// Starts load on the application's Service.
    fn load(&self, app: &App, rate: Rate) -> anyhow::Result<Traffic>;

    /// The API writes since a moment; nothing where nobody can tell.
    fn writes(&self, since: Timestamp) -> anyhow::Result<Vec<Write>>;

    /// Runs `kubectl hitless …` in the application's namespace, whatever its exit code.
    fn plugin(&self, app: &App, arguments: &[&str]) -> anyhow::Result<Output>;
}

impl Site for Stack {
    fn kubectl(&self, namespace: &str) -> Kubectl {
        Kubectl::new(Arc::clone(&self.cluster), namespace)
    }

    fn shape(&self) -> Shape {
        Shape { mode: None, ..Shape::default() }
    }

    fn load(&self, app: &App, rate: Rate) -> anyhow::Result<Traffic> {
        Traffic::start(&self.cluster, &self.programs, app.address, rate)
    }

    fn writes(&self, since: Timestamp) -> anyhow::Result<Vec<Write>> {
        Ok(self.cluster.writes(since)?)
    }

    fn plugin(&self, app: &App, arguments: &[&str]) -> anyhow::Result<Output> {
        self.hitless_output(app, arguments)
    }
}
