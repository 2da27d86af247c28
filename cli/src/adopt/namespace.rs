//! All workloads of a namespace.

use std::fmt::Write as _;

use hitless_api::names::{UPDATE_NATIVE, annotations, labels};
use hitless_workloads::registry;
use jiff::Timestamp;
use kube::Client;
use serde::Serialize;

use super::space::{self, Space};
use super::{Adoption, adopt, consider};
use crate::args::{AdoptArgs, Target};
use crate::doctor::facts::Seen;
use crate::failure::Failure;
use crate::output::{count, remark, show};
use crate::say;
use crate::snapshot::Snapshot;
use crate::source::{self, Scope};

/// Everything that is said of a namespace.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Overview {
    namespace: String,
    /// Value of the namespace's label `hitless.dev/update`; absent: it has none, or that may not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    /// By kind and name.
    workloads: Vec<Adoption>,
}

pub(super) async fn run(client: Client, namespace: &str, arguments: &AdoptArgs) -> Result<(), Failure> {
    let snapshot = source::read(&client, &Scope::Namespace(namespace.to_owned())).await?;
    let space = space::read(&client, namespace).await;
    let overview = Overview::of(&snapshot, namespace, &space, arguments.yes, Timestamp::now())?;
    show(&overview, arguments.output, || overview.text())?;
    let adoptable: Vec<Target> =
        overview.adoptable().map(|each| each.workload.parse()).collect::<Result<_, _>>().map_err(Failure::Usage)?;
    if !arguments.yes || adoptable.is_empty() {
        return overview.verdict(0);
    }
    if overview.adoptable().any(|each| each.gate_label == Some(false)) {
        space::give_gate(&client, namespace, &space).await?;
    }
    let mut failed = 0;
    for target in &adoptable {
        match adopt(&client, snapshot.clone(), target, &space).await {
            Ok(said) => say(&said)?,
            // The terminal is gone, or the API server: the next ones would fail, too.
            Err(failure @ (Failure::Output(_) | Failure::Unreachable(_))) => return Err(failure),
            Err(failure) => {
                remark(&format!("error: {failure}"));
                failed += 1;
            }
        }
    }
    overview.verdict(failed)
}

impl Overview {
    pub(super) fn of(
        snapshot: &Snapshot,
        namespace: &str,
        space: &Seen<Space>,
        is_wanted: bool,
        now: Timestamp,
    ) -> Result<Self, Failure> {
        let is_meant = |object: &&hitless_workloads::Object| {
            registry::is_workload(&object.id.group_kind) && object.id.namespace == namespace
        };
        let objects = snapshot.cluster.objects.iter().map(|object| &**object).filter(is_meant);
        let mut targets: Vec<String> =
            objects.filter(|object| !object.deleting).map(|object| object.id.target()).collect();
        targets.sort();
        if targets.is_empty() {
            return Err(snapshot.missing("no workload is there"));
        }
        let considered = targets
            .iter()
            .map(|target| consider(snapshot, &target.parse().map_err(Failure::Usage)?, space, is_wanted, now));
        Ok(Self {
            namespace: namespace.to_owned(),
            label: space.known().and_then(|space| space.update.clone()),
            workloads: considered.collect::<Result<_, Failure>>()?,
        })
    }

    /// Those that `--yes` opts in.
    fn adoptable(&self) -> impl Iterator<Item = &Adoption> {
        self.workloads.iter().filter(|each| !each.opted_in && each.in_the_way.is_empty())
    }

    pub(super) fn text(&self) -> String {
        let Self { namespace, label, workloads } = self;
        let mut out = String::new();
        // Writing to a String does not fail.
        let of_new = match label.as_deref() {
            Some(value) if value == UPDATE_NATIVE => {
                "its label keeps workloads that are made from now on out".to_owned()
            }
            Some(value) => format!("its label {}={value} opts in workloads that are made from now on", labels::UPDATE),
            None => format!(
                "workloads that are made from now on do not opt in by themselves (kubectl label namespace {namespace} {}=in-place)",
                labels::UPDATE
            ),
        };
        let _ = writeln!(out, "namespace {namespace}, {}; {of_new}", count(workloads.len(), "workload"));
        let width = workloads.iter().map(|each| each.workload.len()).max().unwrap_or_default();
        for each in workloads {
            let _ = writeln!(out, "{:width$}  {}", each.workload, each.state());
            for why in each.in_the_way.iter().filter(|_| !each.kept_out) {
                let _ = writeln!(out, "  in the way: {why}");
            }
        }
        if workloads.iter().any(|each| !each.notes.is_empty()) {
            let _ = writeln!(out, "what to know of each: kubectl hitless adopt -n {namespace} KIND/NAME");
        }
        if self.adoptable().any(|each| !each.is_wanted) {
            let _ = writeln!(out, "opt in what can: kubectl hitless adopt -n {namespace} --yes");
        }
        out
    }

    /// Fails if something is in the way of one of them, or if one could not be written.
    pub(super) fn verdict(&self, failed: usize) -> Result<(), Failure> {
        let stopped = self.workloads.iter().filter(|each| !each.kept_out && !each.in_the_way.is_empty()).count();
        match stopped + failed {
            0 => Ok(()),
            _ => Err(Failure::Failed(format!(
                "something is in the way of {stopped} of {}{}",
                count(self.workloads.len(), "workload"),
                if failed == 0 { String::new() } else { format!(", and {failed} could not be written") }
            ))),
        }
    }
}

impl Adoption {
    /// In a line of a table.
    fn state(&self) -> String {
        let notes =
            if self.notes.is_empty() { String::new() } else { format!(", {}", count(self.notes.len(), "note")) };
        if self.kept_out {
            return format!("is kept out by its annotation {}={UPDATE_NATIVE}", annotations::UPDATE);
        }
        let state = match (self.opted_in, self.in_the_way.is_empty()) {
            (true, true) => "has opted in",
            (true, false) => "has opted in, and something is in the way",
            (false, true) if self.is_wanted => "opts in now",
            (false, true) => "can opt in",
            (false, false) => "can't opt in",
        };
        format!("{state}; {} of {} with the readiness gate{notes}", self.gated, count(self.pods, "pod"))
    }
}
