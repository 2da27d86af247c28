//! What is done once for each pod, when it is made or started: an operation in place leaves it as it is (docs/contract.md#restart-annotations).

use std::collections::BTreeSet;
use std::fmt;

use hitless_api::names::annotations as names;
use hitless_api::pod::PodView;
use serde_json::Value;

use crate::annotations::Annotations;
use crate::because::{Because, Cause};
use crate::containers;
use crate::field::items;
use crate::object::Object;
use crate::opt_in::OptIn;
use crate::restart_annotations::{RestartAnnotations, Way, keys::Says};
use crate::template::Template;

/// One of these things. For people it is a clause: what an operation in place did not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OncePerPod {
    /// An init container runs before the others, and they use what it did.
    InitContainer {
        /// Its name.
        container: String,
        /// The first configuration that it is given: "mounts ConfigMap conf".
        reads: Option<String>,
        /// The first volume that it shares with containers that run on.
        shares: Option<String>,
    },
    /// A volume that is filled when the pod is made: an inline CSI volume, such as of secrets or certificates, or an ephemeral one.
    Volume {
        /// Its name.
        volume: String,
        /// What it is.
        what: &'static str,
    },
    /// A volume that is emptied only with its pod, and that a container writes.
    EmptyDir {
        /// Its name.
        volume: String,
        /// The first container that writes it.
        container: String,
    },
    /// Admission has put a container into a pod, when that was made.
    Injected {
        /// Its name.
        container: String,
    },
}

impl fmt::Display for OncePerPod {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InitContainer { container, .. } => write!(out, "init container {container} is not run again"),
            Self::Volume { volume, .. } => write!(out, "volume {volume} is not mounted again"),
            Self::EmptyDir { volume, .. } => write!(out, "volume {volume} is not emptied"),
            Self::Injected { container } => write!(out, "container {container} is left as it is"),
        }
    }
}

impl OncePerPod {
    /// What there is of it in this template.
    #[must_use]
    pub fn of(template: &Template) -> Vec<Self> {
        init_containers(template.content()).chain(volumes(template.content())).collect()
    }

    /// Containers and init containers of these pods, of the template, that the template does not have.
    #[must_use]
    pub fn injected(template: &Template, pods: &[&PodView]) -> Vec<Self> {
        if template.too_large().is_some() {
            return Vec::new();
        }
        let own: BTreeSet<&str> =
            containers::all(template.content()).filter_map(|each| each["name"].as_str()).collect();
        let of_pod = |pod: &&'_ PodView| {
            let init = pod.init.iter().flat_map(|names| names.iter().cloned());
            pod.containers.iter().map(|each| each.name.clone()).chain(init).collect::<Vec<_>>()
        };
        let foreign: BTreeSet<String> =
            pods.iter().flat_map(of_pod).filter(|name| !own.contains(name.as_str())).collect();
        foreign.into_iter().map(|container| Self::Injected { container }).collect()
    }

    /// All there is of it in this template and these pods, with what a process finds again that a new pod would not have.
    #[must_use]
    pub fn all(template: &Template, pods: &[&PodView]) -> Vec<Self> {
        let mut all = Self::of(template);
        all.extend(Self::injected(template, pods));
        all.extend(empty_dirs(template.content()));
        all
    }

    /// What it means for a workload with these restart annotations, for people who have not changed anything yet. What a restart does is asked
    /// of what decides it.
    #[must_use]
    pub fn beforehand(&self, restarts: &RestartAnnotations) -> String {
        let [configuration, plain] = [Says::ConfigChanged, Says::Restart].map(|says| restarts.way(self, says));
        match self {
            Self::InitContainer { reads: Some(reads), .. } => format!(
                "in place {self}, and it {reads}: a new image does without it, and a restart for configuration (checksum/…, reload) is {configuration}"
            ),
            Self::InitContainer { reads: None, .. } => {
                let restart = if plain == Way::InPlace {
                    ", neither for a new image nor for a restart,"
                } else {
                    " for a new image"
                };
                let but =
                    if plain == Way::InPlace { String::new() } else { format!("; a restart by annotation is {plain}") };
                format!("in place {self}{restart} and it fills a volume of the others{but}")
            }
            Self::Volume { what, .. } => {
                format!(
                    "in place {self}, as it is {what}: a new image goes without, and a restart by annotation is {plain}"
                )
            }
            Self::EmptyDir { container, .. } => format!(
                "in place {self} (emptyDir): a pid or lock file that container {container} leaves there is found by the process that comes after it; \
                 a version that crashes so is {}",
                restarts.way_of_crash()
            ),
            Self::Injected { .. } => {
                let restart = match plain {
                    Way::InPlace => "and so does a restart".to_owned(),
                    Way::Native | Way::Refused => format!("and a restart by annotation is {plain}"),
                };
                format!("in place {self}, as admission has put it into the pods: a new image goes without, {restart}")
            }
        }
    }

    /// Why a restart does not bring what it is for, as far as its annotation tells.
    pub(crate) fn keeps_from(&self, says: Says, key: &str) -> Option<Because> {
        let because = |cause: Cause, why: &str| Some(Because::annotation_for(cause, key, why));
        match (self, says) {
            (Self::InitContainer { container, reads: Some(reads), .. }, Says::ConfigChanged) => {
                let why = format!(": init container {container} {reads}, and runs only when a pod is started");
                because(Cause::InitContainer, &why)
            }
            (Self::Volume { volume, what }, Says::Restart | Says::ConfigChanged) => {
                let why = format!(": volume {volume} is {what}, which is mounted once for each pod");
                because(Cause::VolumeMountedOnce, &why)
            }
            // A reload has asked who uses what has changed. An emptyDir is a cache as a rule, and what is in it is wanted. What becomes of
            // injected containers depends on what their owner allows.
            (
                Self::InitContainer { .. } | Self::EmptyDir { .. } | Self::Injected { .. },
                Says::Restart | Says::ConfigChanged | Says::Reload,
            )
            | (Self::Volume { .. }, Says::Reload) => None,
        }
    }
}

/// What is said at the end of a restart in place of this workload: what it left as it was, and how that is renewed. Empty if `from`,
/// the annotations of the template before, tell of no restart, or are not known.
pub(crate) fn left_by_restart(
    workload: &Object,
    from: Option<&Annotations>,
    to: &Template,
    pods: &[&PodView],
) -> String {
    let is_restart = from.is_some_and(|from| from.digest() != to.shape().annotations.digest());
    if !is_restart {
        return String::new();
    }
    let left = OncePerPod::of(to).into_iter().chain(OncePerPod::injected(to, pods));
    let left = left.map(|each| each.to_string()).chain(unproven(workload, from, to));
    let left: Vec<String> = left.map(|each| format!(", but {each}")).collect();
    let left = left.concat();
    let on = workload.id.arguments();
    match workload.opt_in() {
        OptIn::InPlace => format!("{left}; new pods: kubectl hitless restart --new-pods {on}"),
        OptIn::InPlaceOnly | OptIn::No => {
            format!(
                "{left}; only pods that are made anew are renewed as a whole, and its opt-in makes none: delete them one after the other"
            )
        }
    }
}

/// What nobody has seen of a restart that says that configuration has changed: that the kubelet had written the new content into the pods'
/// volumes when the containers started. A reload has it proven on the node.
fn unproven(workload: &Object, from: Option<&Annotations>, to: &Template) -> Option<String> {
    let restarts = RestartAnnotations::of(workload, to);
    if workload.reloads() || !restarts.say_configuration(from?, &to.shape().annotations) {
        return None;
    }
    let mut names = containers::running(to.content()).flat_map(mounted);
    let what = names.find_map(|name| source(volume(to.content(), name)))?;
    Some(format!("whether their volumes had the new {what} is not proven ({}=auto proves it)", names::RELOAD))
}

/// Ordinary init containers that are given configuration, or leave something for the others. One that does neither, such as one that
/// waits for a database, has nothing that a restart could want.
fn init_containers(template: &Value) -> impl Iterator<Item = OncePerPod> {
    let kept: BTreeSet<&str> = containers::running(template).flat_map(mounted).collect();
    let once = containers::init(template).filter(|each| !containers::is_restartable(each));
    once.filter_map(move |init| {
        let reads = reads(init, template);
        let is_shared = |name: &&str| kept.contains(name) && source(volume(template, name)).is_none();
        let shares = mounted(init).find(is_shared).map(ToOwned::to_owned);
        let container = init["name"].as_str()?.to_owned();
        (reads.is_some() || shares.is_some()).then_some(OncePerPod::InitContainer { container, reads, shares })
    })
}

/// Volumes that live as long as the pod, and that a container may write.
fn empty_dirs(template: &Value) -> impl Iterator<Item = OncePerPod> {
    let volumes = items(&template["spec"]["volumes"]).filter(|volume| volume["emptyDir"].is_object());
    volumes.filter_map(|volume| {
        let name = volume["name"].as_str()?;
        let writes = |container: &&Value| {
            items(&container["volumeMounts"]).any(|mount| mount["name"] == name && mount["readOnly"] != true)
        };
        let container = containers::running(template).find(writes)?["name"].as_str()?.to_owned();
        Some(OncePerPod::EmptyDir { volume: name.to_owned(), container })
    })
}

/// Volumes that the kubelet fills once, when it starts the pod.
fn volumes(template: &Value) -> impl Iterator<Item = OncePerPod> {
    let kinds = [("csi", "an inline CSI volume"), ("ephemeral", "an ephemeral volume")];
    items(&template["spec"]["volumes"]).filter_map(move |volume| {
        let (_, what) = kinds.into_iter().find(|(field, _)| volume[field].is_object())?;
        Some(OncePerPod::Volume { volume: volume["name"].as_str()?.to_owned(), what })
    })
}

/// The first configuration that a container is given, as a clause.
fn reads(container: &Value, template: &Value) -> Option<String> {
    let object = |from: &Value, map: &str, secret: &str| {
        let name = |field: &str| from[field]["name"].as_str();
        name(map)
            .map(|name| format!("reads ConfigMap {name}"))
            .or_else(|| Some(format!("reads Secret {}", name(secret)?)))
    };
    let mut all = items(&container["envFrom"]).filter_map(|from| object(from, "configMapRef", "secretRef"));
    let env = || items(&container["env"]).map(|env| &env["valueFrom"]);
    all.next().or_else(|| env().find_map(|from| object(from, "configMapKeyRef", "secretKeyRef"))).or_else(|| {
        mounted(container).find_map(|name| source(volume(template, name))).map(|what| format!("mounts {what}"))
    })
}

/// Names of the volumes that a container mounts.
fn mounted(container: &Value) -> impl Iterator<Item = &str> {
    items(&container["volumeMounts"]).filter_map(|mount| mount["name"].as_str())
}

fn volume<'t>(template: &'t Value, name: &str) -> &'t Value {
    items(&template["spec"]["volumes"]).find(|volume| volume["name"] == name).unwrap_or(&Value::Null)
}

/// What a volume shows that is written outside of the pod.
fn source(volume: &Value) -> Option<String> {
    let name = |field: &str, name: &str| volume[field][name].as_str();
    let own = || volume["name"].as_str().unwrap_or_default();
    if let Some(name) = name("configMap", "name") {
        return Some(format!("ConfigMap {name}"));
    }
    if let Some(name) = name("secret", "secretName") {
        return Some(format!("Secret {name}"));
    }
    let others = [("projected", "projected volume"), ("downwardAPI", "downward API volume")];
    others.into_iter().find(|(field, _)| volume[field].is_object()).map(|(_, what)| format!("{what} {}", own()))
}

#[cfg(test)]
mod tests;
