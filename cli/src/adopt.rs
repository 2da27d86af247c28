//! `kubectl hitless adopt`: what hitless would do to a workload, what is in the way, and with `--yes` the opt-in. What is said is
//! the controller's own decision about the workload as if it had opted in. Without a workload: each of a namespace.

mod beforehand;
mod gate;
mod namespace;
mod space;
mod text;

use std::collections::BTreeSet;
use std::sync::Arc;

use hitless_api::JsonPatch;
use hitless_api::large::TooLarge;
use hitless_api::names::{UPDATE_NATIVE, annotations, labels};
use hitless_api::pod::PodView;
use hitless_rollout::beforehand::Helper;
use hitless_rollout::round::WaitReason;
use hitless_workloads::{Object, OptIn, Stage, image, registry};
use jiff::Timestamp;
use kube::Client;
use serde::Serialize;
use serde_json::Value;

use self::gate::{GateLabel, Rolls};
use self::space::Space;
use crate::args::{AdoptArgs, Target, workload_targets};
use crate::doctor::facts::Seen;
use crate::failure::Failure;
use crate::output::show;
use crate::say;
use crate::select;
use crate::snapshot::{Snapshot, WorkloadObject};
use crate::source::{self, Scope};
use crate::trial::{self, Tried};
use crate::why::Answer;
use crate::write::{Decided, annotated, write};

/// Everything that is said.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Adoption {
    workload: String,
    namespace: String,
    opted_in: bool,
    /// Its owner keeps it out.
    kept_out: bool,
    replicas: u32,
    /// Pods with the readiness gate, of all.
    gated: usize,
    pods: usize,
    /// Its namespace or its template gives new pods the gate; absent: that may not be read.
    gate_label: Option<bool>,
    /// Nothing would be done for it, or nothing yet.
    in_the_way: Vec<String>,
    /// What to know.
    notes: Vec<String>,
    /// What the API server says of the pods that the controller makes beside its own, by a dry run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    helpers: Vec<Tried>,
    /// What would be said of each pod.
    answer: Answer,
    /// It is not only looked at (`--yes`).
    #[serde(skip)]
    is_wanted: bool,
}

pub(crate) async fn run(
    client: Client,
    namespace: String,
    is_named: bool,
    arguments: &AdoptArgs,
) -> Result<(), Failure> {
    let Some(target) = &arguments.target else {
        // All of a namespace, and of one that nobody has named: that may be a mistake.
        let which = || format!("say which workload: {}; or all of a namespace: -n NAMESPACE", workload_targets());
        return if is_named {
            namespace::run(client, &namespace, arguments).await
        } else {
            Err(Failure::Usage(which()))
        };
    };
    let snapshot = source::read(&client, &Scope::Namespace(namespace.clone())).await?;
    let space = space::read(&client, &namespace).await;
    let mut adoption = consider(&snapshot, target, &space, arguments.yes, Timestamp::now())?;
    if let Some(found) = snapshot.find(target)
        && let Some(workload) = found.workload
    {
        let tried = trial::run(&client, &snapshot, workload, &found.pods).await;
        adoption.tried(tried.into_iter().map(|(_, tried)| tried).collect());
    }
    show(&adoption, arguments.output, || text::render_all(&adoption))?;
    adoption.permit()?;
    if adoption.opted_in || !arguments.yes {
        return Ok(());
    }
    // First the gate: pods that are made between the two writes have it.
    if adoption.gate_label == Some(false) {
        space::give_gate(&client, &namespace, &space).await?;
    }
    say(&adopt(&client, snapshot, target, &space).await?)
}

/// Opts it in. Returns what is said then.
async fn adopt(client: &Client, snapshot: Snapshot, target: &Target, space: &Seen<Space>) -> Result<String, Failure> {
    let decide = |snapshot: &Snapshot| {
        let adoption = consider(snapshot, target, space, true, Timestamp::now())?;
        adoption.permit()?;
        let object = select::named(snapshot, target)?;
        let said = format!("{target} adopted: its next change of images, and its next restart, go in place");
        // Somebody else may have opted it in meanwhile, in his own way.
        let patch = (!adoption.opted_in).then(|| opt_in(object, space::word(space)));
        Ok(Decided {
            on: object.id.clone(),
            said: patch.as_ref().map_or(format!("{target} has opted in"), |_| said),
            patch,
        })
    };
    write(client, snapshot, &format!("adopt {target}"), decide).await
}

impl Adoption {
    /// With what a dry run has told.
    fn tried(&mut self, helpers: Vec<Tried>) {
        if helpers.iter().any(|each| each.is_refused() && each.pod == Helper::Companion.label()) {
            self.notes.retain(|note| note != BESIDE_SINGLE);
        }
        self.helpers = helpers;
    }

    /// Fails if something is in the way of it.
    fn permit(&self) -> Result<(), Failure> {
        let first = self.in_the_way.first();
        first.map_or(Ok(()), |first| Err(Failure::Failed(format!("{} is not adopted: {first}", self.workload))))
    }
}

/// Only if nobody has changed its specification since it was looked at, nor what it says of itself: annotations raise no generation.
fn opt_in(object: &Object, word: &str) -> JsonPatch {
    let patch = JsonPatch::of(&object.id.uid).test(&["metadata", "generation"], object.generation);
    annotated(patch, object, annotations::UPDATE, word)
}

fn consider(
    snapshot: &Snapshot,
    target: &Target,
    space: &Seen<Space>,
    is_wanted: bool,
    now: Timestamp,
) -> Result<Adoption, Failure> {
    let object = select::named(snapshot, target)?;
    let missing = || snapshot.missing(&format!("{target} does not exist"));
    let found = snapshot.find(target).ok_or_else(missing)?;
    let raw = snapshot.objects.iter().find(|each| each.view.id == object.id).ok_or_else(missing)?;
    let assumed = assume(snapshot, raw, space::word(space));
    let answer = Answer::of(&assumed, target, now);
    let report = assumed.explain(now, |_| false).workloads.into_iter().find(|report| report.id.uid == object.id.uid);
    let replicas = registry::size(object).map_or(0, |size| size.desired);
    let template = &raw.raw["spec"]["template"];
    let by_template = template["metadata"]["labels"][labels::GATE].as_str();
    let gate_label = match by_template {
        Some(value) => Some(value == "enabled"),
        None => space.known().map(Space::gives_gate),
    };
    let mut in_the_way: Vec<String> = snapshot.left_alone(&object.id.group_kind).into_iter().collect();
    if object.is_kept_out() {
        in_the_way.push(format!(
            "its owner keeps it out by the annotation {update}={UPDATE_NATIVE}; take that away first: kubectl annotate {} {update}-",
            object.id.arguments(),
            update = annotations::UPDATE
        ));
    }
    in_the_way.extend(for_good(&answer));
    match report.as_ref().map(|report| &report.stage) {
        Some(Stage::Native) => in_the_way.push(format!(
            "its native controller is rolling it, and a change before that ends would be rolled natively, too; wait for it: kubectl rollout \
             status -n {} {target}",
            object.id.namespace
        )),
        Some(Stage::Refused(_) | Stage::SteppingAside(_) | Stage::Halted(_)) => {
            in_the_way.extend(report.as_ref().and_then(|report| report.why.clone()));
        }
        // Too large to look after, whatever it does now.
        Some(Stage::NotOurs | Stage::Idle | Stage::Rolling | Stage::Finishing) => {
            in_the_way.extend(report.as_ref().and_then(|report| report.why.clone()));
        }
        None => {}
    }
    // One that is being deleted is none of those that are operated later.
    let pods: Vec<&PodView> = found.pods.iter().copied().filter(|pod| !pod.terminating).collect();
    let gated = pods.iter().filter(|pod| pod.gated).count();
    let mut notes = Vec::new();
    let refused = space.known().is_some_and(|space| space.gate.is_some()) || by_template.is_some();
    let label = match gate_label {
        Some(true) => GateLabel::Given,
        Some(false) if refused => GateLabel::Refused,
        Some(false) if is_wanted => GateLabel::ToBeGiven,
        Some(false) => GateLabel::Absent,
        None => GateLabel::Unread,
    };
    let opted_in = object.opt_in() != OptIn::No;
    let spec = &raw.raw["spec"];
    let by_restart = spec["paused"] != true && spec["updateStrategy"]["type"] != "OnDelete";
    let rolls = Rolls { driven: opted_in || is_wanted, by_restart };
    notes.extend(gate::note(object, gated, pods.len(), label, rolls));
    notes.extend(single_note(object, replicas));
    notes.extend(side_by_side_note(spec, replicas));
    notes.extend(probe_note(template));
    notes.extend(loaded_note(pods.iter().copied()));
    let considered = assumed.cluster.objects.iter().find(|each| each.id == object.id).map_or(object, |each| &**each);
    notes.extend(beforehand::once_per_pod(considered, &pods));
    notes.extend(beforehand::last_rollouts(snapshot, considered));
    notes.extend(object.pause().map(|pause| pause.advice(&object.id)));
    Ok(Adoption {
        workload: target.to_string(),
        namespace: object.id.namespace.clone(),
        opted_in,
        kept_out: object.is_kept_out(),
        replicas,
        gated,
        pods: pods.len(),
        gate_label,
        in_the_way,
        notes,
        helpers: Vec::new(),
        answer,
        is_wanted,
    })
}

/// The snapshot as if the workload had opted in.
fn assume(snapshot: &Snapshot, object: &Arc<WorkloadObject>, word: &str) -> Snapshot {
    if object.view.opt_in() != OptIn::No {
        return snapshot.clone();
    }
    let mut next = object.raw.clone();
    if !next["metadata"]["annotations"].is_object() {
        next["metadata"]["annotations"] = Value::Object(serde_json::Map::new());
    }
    next["metadata"]["annotations"][annotations::UPDATE] = word.into();
    let next = WorkloadObject::of(next).map_or_else(|| object.clone(), Arc::new);
    let objects =
        snapshot.objects.iter().map(|each| if each.view.id == object.view.id { next.clone() } else { each.clone() });
    snapshot.clone().with_objects(objects.collect())
}

/// What keeps every pod from being operated for ever, as the controller would say it.
fn for_good(answer: &Answer) -> Option<String> {
    let of_pod = [WaitReason::TooLarge(TooLarge(0)), WaitReason::HostNetwork, WaitReason::StaticPod, WaitReason::Job];
    let of_pod = of_pod.map(|reason| reason.reason());
    let first = |pod: &crate::why::PodAnswer| {
        pod.obstacles.iter().find(|obstacle| of_pod.contains(&obstacle.reason)).map(|obstacle| obstacle.text.clone())
    };
    let all: Option<Vec<String>> = answer.pods.iter().map(first).collect();
    all?.into_iter().next()
}

/// Said of a workload with a single pod, unless its companion is refused.
const BESIDE_SINGLE: &str =
    "it has a single pod: a companion pod tries each version beside it first, and serves if the pod is away for long";

fn single_note(object: &Object, replicas: u32) -> Option<String> {
    if replicas != 1 {
        return None;
    }
    let surge = registry::of_workload(&object.id.group_kind)?.surge(object).err();
    Some(match surge {
        None => BESIDE_SINGLE.to_owned(),
        Some(why) => format!(
            "it has a single pod, and no companion pod may run beside it, because {why}: its new connections are held, and a version that does \
             not start costs requests until it is rolled back; run two replicas"
        ),
    })
}

/// Who asks for `Recreate` may rely on it that two versions never run at the same time.
fn side_by_side_note(spec: &Value, replicas: u32) -> Option<String> {
    let is_recreated = spec["strategy"]["type"] == "Recreate";
    (is_recreated && replicas > 1).then(|| {
        "its strategy is Recreate, under which natively no two versions run at the same time; in place its pods go one after the other, and \
         the version before serves beside the next one until the last pod has that. If they must not meet, do not opt it in"
            .to_owned()
    })
}

/// What is looked at to tell whether a new version runs is in docs/contract.md#bad-version.
fn probe_note(template: &Value) -> Option<String> {
    let containers = template["spec"]["containers"].as_array()?;
    let has_none =
        |container: &&Value| container.get("readinessProbe").is_none() && container.get("startupProbe").is_none();
    let names: Vec<&str> =
        containers.iter().filter(has_none).filter_map(|container| container["name"].as_str()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "without a readiness or startup probe: {}. A new container counts as good once its port is open, or it has run for three \
             seconds; a probe tells more",
            names.join(", ")
        )
    })
}

/// Containers whose image was loaded into their nodes: a restart in place needs another name of the image, and there is none.
fn loaded_note<'a>(pods: impl Iterator<Item = &'a PodView>) -> Option<String> {
    let loaded = pods.flat_map(|pod| &pod.containers).filter(|container| image::has_no_other_name(container));
    let names: BTreeSet<&str> = loaded.map(|container| container.name.as_str()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "images that were loaded into the nodes, and that no registry has by a digest: {}. Restarts make new pods there, natively, and are \
             refused with in-place-only; new images go in place",
            names.into_iter().collect::<Vec<_>>().join(", ")
        )
    })
}

#[cfg(test)]
mod tests;
