//! How far a prefetch pod is.

use hitless_api::names::{annotations, labels};
use hitless_api::{PodRef, PullIdentity, PullPolicy};
use hitless_workloads::image;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod, PodSpec, PodStatus};

use super::manifest::CONTAINER;
use super::{Extra, Pull};

/// Reason of a pod that has outlived its `activeDeadlineSeconds`.
const OVERDUE: &str = "DeadlineExceeded";

/// Longest words of others that are kept, in characters.
const LONGEST: usize = 400;

/// A prefetch pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefetchView {
    /// The pod.
    pub pod: PodRef,
    /// [`super::Pull::key`] of what it pulls.
    pub key: String,
    /// Which attempt it is: a later one counts.
    pub attempt: u32,
    /// Name of its node.
    pub node: String,
    /// The image that it was made for.
    pub image: String,
    /// The image that admission has given it instead, if it has: Kubernetes would run that one in a new pod.
    pub rewritten: Option<String>,
    /// What admission has given it, where it asked for no pull secret: those of its service account, as each new pod gets them, if it has any.
    pub given: Option<PullIdentity>,
    /// When it was made.
    pub created: Option<Timestamp>,
    /// It is being deleted.
    pub deleting: bool,
    /// How far it is.
    pub state: PrefetchState,
}

/// How far a prefetch pod is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PrefetchState {
    /// The node's kubelet has made no sandbox for it yet, so it does not pull.
    NotBegun,
    /// The node pulls, as far as is known.
    Pulling,
    /// The image is on the node.
    Fetched {
        /// When the registry was asked at the latest, as far as that is known.
        at: Option<Timestamp>,
        /// The image as the runtime knows it, `<repository>@<digest>`; empty if that is not known.
        image_id: String,
    },
    /// The node's kubelet has not let the pod in, which says nothing of the image.
    Rejected {
        /// The kubelet's reason, e.g. `OutOfpods`.
        reason: String,
        /// Its words.
        message: String,
    },
    /// The image was not pulled.
    Failed {
        /// The kubelet's reason, e.g. `ErrImagePull`.
        reason: String,
        /// Its words, and with them the registry's.
        message: String,
    },
}

impl PrefetchView {
    /// `None` for a pod that is no prefetch pod.
    #[must_use]
    pub fn of(pod: &Pod) -> Option<Self> {
        let key = pod.metadata.labels.as_ref()?.get(labels::PREFETCH)?.clone();
        let name = pod.metadata.name.clone().unwrap_or_default();
        let spec = pod.spec.as_ref();
        let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let image = spec.and_then(|spec| spec.containers.iter().find(|each| each.name == CONTAINER)?.image.clone());
        let image = image.unwrap_or_default();
        let asked = pod.metadata.annotations.as_ref().and_then(|known| known.get(annotations::IMAGE));
        let is_rewritten = asked.is_some_and(|asked| *asked != image) && !image.is_empty();
        let rewritten = is_rewritten.then(|| image.clone());
        let image = asked.cloned().unwrap_or(image);
        Some(Self {
            attempt: name.rsplit('-').next().and_then(|number| number.parse().ok()).unwrap_or_default(),
            pod: PodRef {
                namespace: pod.metadata.namespace.clone().unwrap_or_default(),
                name,
                uid: pod.metadata.uid.clone().unwrap_or_default(),
            },
            key,
            node: spec.and_then(|spec| spec.node_name.clone()).unwrap_or_default(),
            created,
            deleting: pod.metadata.deletion_timestamp.is_some(),
            state: state(pod, created),
            rewritten,
            given: spec.and_then(|spec| given(pod, spec, &image)),
            image,
        })
    }

    /// Digest of the image that was fetched.
    #[must_use]
    pub fn digest(&self) -> Option<&str> {
        match &self.state {
            PrefetchState::Fetched { image_id, .. } => image::digest_of(image_id),
            PrefetchState::NotBegun
            | PrefetchState::Pulling
            | PrefetchState::Rejected { .. }
            | PrefetchState::Failed { .. } => None,
        }
    }

    /// It has not ended.
    #[must_use]
    pub fn is_under_way(&self) -> bool {
        matches!(self.state, PrefetchState::NotBegun | PrefetchState::Pulling)
    }

    /// Its image is on the node.
    #[must_use]
    pub fn is_fetched(&self) -> bool {
        matches!(self.state, PrefetchState::Fetched { .. })
    }
}

/// Its pull secrets, where its key is that of a pull which asks for none.
fn given(pod: &Pod, spec: &PodSpec, image: &str) -> Option<PullIdentity> {
    let given = PullIdentity::of(spec);
    let asked = Pull {
        namespace: pod.metadata.namespace.clone()?,
        node: spec.node_name.clone()?,
        image: image.to_owned(),
        policy: PullPolicy::Always,
        identity: PullIdentity { secrets: Vec::new(), ..given.clone() },
        resources: None,
        extra: Extra::default(),
        is_other_repository: false,
    };
    let key = pod.metadata.labels.as_ref()?.get(labels::PREFETCH)?;
    // Admission may have made another policy of the one that was asked for.
    let policies = [PullPolicy::Always, PullPolicy::IfNotPresent, PullPolicy::Never];
    let is_asked = policies.into_iter().any(|policy| Pull { policy, ..asked.clone() }.key() == *key);
    is_asked.then_some(given)
}

fn state(pod: &Pod, created: Option<Timestamp>) -> PrefetchState {
    let Some(status) = &pod.status else { return PrefetchState::NotBegun };
    let containers = status.container_statuses.iter().flatten();
    let of_container = containers.filter(|each| each.name == CONTAINER).find_map(|each| of_container(each, created));
    // A pod that its node does not let in, or that has outlived its deadline, has no container that could say more.
    let refused = || {
        let is_over = status.phase.as_deref() == Some("Failed");
        is_over.then(|| ended(status.reason.as_deref(), status.message.as_deref()))
    };
    of_container.or_else(refused).unwrap_or(if has_sandbox(status) {
        PrefetchState::Pulling
    } else {
        PrefetchState::NotBegun
    })
}

/// Its network is there, so the kubelet goes on to the image. The condition is of KEP-3085; the address comes later, and is there in all versions.
fn has_sandbox(status: &PodStatus) -> bool {
    let mut conditions = status.conditions.iter().flatten();
    let is_told = conditions.any(|each| each.type_ == "PodReadyToStartContainers" && each.status == "True");
    is_told || status.pod_ip.is_some()
}

fn of_container(status: &ContainerStatus, created: Option<Timestamp>) -> Option<PrefetchState> {
    let fetched = |at| PrefetchState::Fetched { at, image_id: status.image_id.clone() };
    let ContainerState { running, terminated, waiting } = status.state.as_ref()?;
    if let Some(ended) = terminated {
        let at = ended.finished_at.as_ref().map(|time| time.0).or(created);
        // The command is no program, so a container that was made has failed to start. That is what is wanted.
        return (!status.image_id.is_empty()).then(|| fetched(at));
    }
    if let Some(running) = running {
        return Some(fetched(running.started_at.as_ref().map(|time| time.0).or(created)));
    }
    let waiting = waiting.as_ref()?;
    match waiting.reason.as_deref().unwrap_or_default() {
        "" | "ContainerCreating" | "PodInitializing" => None,
        // The kubelet looks at the container itself only once it has the image.
        reason if reason.starts_with("CreateContainer") || reason.starts_with("RunContainer") => Some(fetched(created)),
        reason => Some(failed(Some(reason), waiting.message.as_deref())),
    }
}

/// A pod that has ended as a whole: it was not let in, or put out again, unless its own time was over.
fn ended(reason: Option<&str>, message: Option<&str>) -> PrefetchState {
    match (reason, failed(reason, message)) {
        (Some(known), PrefetchState::Failed { reason, message }) if known != OVERDUE => {
            PrefetchState::Rejected { reason, message }
        }
        (_, failed) => failed,
    }
}

fn failed(reason: Option<&str>, message: Option<&str>) -> PrefetchState {
    PrefetchState::Failed {
        reason: reason.unwrap_or("Failed").to_owned(),
        message: message.unwrap_or_default().chars().take(LONGEST).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Resources, manifest};
    use super::*;
    use hitless_api::{GroupKind, ObjectRef};
    use serde_json::{Value, json};

    fn view(status: &Value) -> PrefetchState {
        let pod = json!({"metadata": {"name": "hitless-prefetch-0123-7", "creationTimestamp": "2026-11-23T00:00:00Z",
            "labels": {"hitless.dev/prefetch": "0123"}}, "spec": {"nodeName": "n1", "containers": [{"name": "image", "image": "web:v2"}]},
            "status": status});
        let view = PrefetchView::of(&serde_json::from_value(pod).unwrap()).unwrap();
        assert_eq!((view.attempt, view.key.as_str(), view.image.as_str()), (7, "0123", "web:v2"));
        view.state
    }

    fn container(image_id: &str, state: &Value) -> Value {
        json!({"phase": "Pending", "containerStatuses": [{"name": "image", "image": "", "imageID": image_id, "ready": false,
            "restartCount": 0, "state": state}]})
    }

    #[test]
    fn a_container_that_could_not_start_has_its_image() {
        let ended =
            json!({"terminated": {"exitCode": 128, "reason": "StartError", "finishedAt": "2026-11-23T00:00:05Z"}});
        let at = "2026-11-23T00:00:05Z".parse().unwrap();
        let image_id = "r.io/web@sha256:11".to_owned();
        assert_eq!(view(&container(&image_id, &ended)), PrefetchState::Fetched { at: Some(at), image_id });
        let refused = json!({"waiting": {"reason": "CreateContainerError", "message": "no command"}});
        assert!(matches!(view(&container("", &refused)), PrefetchState::Fetched { at: Some(_), .. }));
    }

    #[test]
    fn the_words_of_the_registry_and_of_the_node_are_kept() {
        let waiting = |reason: &str| container("", &json!({"waiting": {"reason": reason, "message": "not found"}}));
        for reason in ["ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"] {
            let wanted = PrefetchState::Failed { reason: reason.to_owned(), message: "not found".to_owned() };
            assert_eq!(view(&waiting(reason)), wanted);
        }
        let refused = json!({"phase": "Failed", "reason": "OutOfpods", "message": "node has no room"});
        let wanted = PrefetchState::Rejected { reason: "OutOfpods".to_owned(), message: "node has no room".to_owned() };
        assert_eq!(view(&refused), wanted);
        let late =
            json!({"phase": "Failed", "reason": "DeadlineExceeded", "message": "longer than specified deadline"});
        assert!(matches!(view(&late), PrefetchState::Failed { .. }), "the image takes too long");
        let killed = container("", &json!({"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown"}}));
        assert_eq!(view(&killed), PrefetchState::NotBegun, "it says nothing of an image");
    }

    #[test]
    fn what_admission_has_made_of_the_image_that_was_asked_for_is_told() {
        let view = |asked: &str| {
            let ended = json!({"terminated": {"exitCode": 128, "finishedAt": "2026-11-23T00:00:05Z"}});
            let pod = json!({"metadata": {"name": "hitless-prefetch-0123-1", "labels": {"hitless.dev/prefetch": "0123"},
                "annotations": {"hitless.dev/image": asked}}, "spec": {"containers": [{"name": "image", "image": "mirror/web:v2"}]},
                "status": container("mirror/web@sha256:11", &ended)});
            PrefetchView::of(&serde_json::from_value(pod).unwrap()).unwrap()
        };
        assert_eq!(view("mirror/web:v2").rewritten, None);
        let other = view("web:v2");
        assert!(other.is_fetched() && other.image == "web:v2");
        assert_eq!(other.rewritten.as_deref(), Some("mirror/web:v2"));
    }

    #[test]
    fn pull_secrets_that_nobody_asked_for_are_those_of_new_pods() {
        let given = |asked: &[&str], has: &[&str]| {
            let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
            let identity = PullIdentity { service_account: Some("web".into()), secrets: names(asked) };
            let (namespace, node, image) = ("shop".to_owned(), "n1".to_owned(), "r.io/web:v2".to_owned());
            let policy = PullPolicy::Always;
            let pull = Pull {
                namespace,
                node,
                image,
                policy,
                identity,
                resources: None,
                extra: Extra::default(),
                is_other_repository: false,
            };
            let owner = ObjectRef {
                group_kind: GroupKind::new("apps", "Deployment"),
                namespace: "shop".into(),
                name: "web".into(),
                uid: "u".into(),
            };
            let mut pod = manifest(&pull, 1, Resources::None, &owner);
            pod["spec"]["imagePullSecrets"] = has.iter().map(|name| json!({"name": name})).collect();
            PrefetchView::of(&serde_json::from_value(pod).unwrap()).unwrap().given
        };
        let none = PullIdentity { service_account: Some("web".into()), secrets: vec![] };
        assert_eq!(given(&[], &[]), Some(none));
        assert_eq!(given(&["own"], &["own"]), None);
        let secrets = vec!["new".to_owned()];
        assert_eq!(given(&[], &["new"]), Some(PullIdentity { service_account: Some("web".into()), secrets }));
    }

    #[test]
    fn it_pulls_once_it_has_a_sandbox() {
        let creating = container("", &json!({"waiting": {"reason": "ContainerCreating"}}));
        for status in [json!(null), json!({}), creating.clone()] {
            assert_eq!(view(&status), PrefetchState::NotBegun);
        }
        let condition = json!([{"type": "PodReadyToStartContainers", "status": "True"}]);
        for (field, value) in [("conditions", condition), ("podIP", json!("10.0.0.7"))] {
            let mut status = creating.clone();
            status[field] = value;
            assert_eq!(view(&status), PrefetchState::Pulling, "{field}");
        }
    }
}
