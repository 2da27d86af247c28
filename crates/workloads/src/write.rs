//! A write, as data. It applies to exactly the version that it was decided on.

mod ended_hold;

use hitless_api::event::EventNote;
use hitless_api::names::{CLUSTER_LEDGER, GROUP};
use hitless_api::pod::PodView;
use hitless_api::{GroupKind, JsonPatch, ObjectRef, PodRef};
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use ended_hold::EndedHold;

use crate::object::Object;
use crate::removal::MayGo;

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    /// Short name, for logs and metrics.
    pub verb: &'static str,
    /// The object that is written to. One that is created has no uid yet.
    pub on: ObjectRef,
    /// What is asked of the API server.
    pub request: Request,
    /// What people should know once it has succeeded.
    pub tells: Option<EventNote>,
    /// [`Self::key`] of writes of the same plan, before this one: without the success of all this one is not made.
    pub needs: Vec<String>,
    /// What has to be over, as the API server says right before the request.
    pub once: Option<EndedHold>,
    /// What it is about, if not the object: attempts that have names of their own are about the same.
    pub subject: Option<String>,
}

/// What is asked of the API server. Every request fails if the object is not as it was when this was decided, except a creation,
/// whose name makes it happen once.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// POST of this object.
    Create(Value),
    /// POST of this object. One of its name that is there already is as good, if it says all that this one does.
    Ensure {
        /// The object, owned by `owner`.
        object: Value,
        /// Without a uid: a write before this one makes it, so whoever sends looks it up.
        owner: ObjectRef,
        /// What is wrong where one is there that says something else.
        otherwise: String,
    },
    /// POST of this object as a dry run: fails if it would not be accepted, and not where one of that name is there already.
    Try(Value),
    /// A JSON patch that tests uid and resourceVersion.
    Patch(JsonPatch),
    /// A merge patch with uid and resourceVersion. It leaves alone what it does not name.
    Merge(Value),
    /// The same of the subresource `status`.
    Status(JsonPatch),
    /// DELETE, in the background, with a precondition on uid and, if it matters, the version that was decided on.
    Delete(Deletion),
    /// GET of what the API server has now, not of a cache: fails unless this very object, by its uid, is there.
    Look,
    /// GET of what the API server has now: fails if there is an object of that name that this one controls. Of an object that is seen
    /// no more a cache can't tell whether it is gone or has not been seen yet.
    Absent {
        /// uid of the controller.
        owner_uid: String,
    },
}

/// A deletion. Only [`Write::delete`], [`Write::delete_pod`] and [`Write::delete_helper`] make one, so that no pod of a workload is deleted
/// without proof that it may be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deletion {
    resource_version: Option<String>,
    grace_seconds: Option<u32>,
}

impl Deletion {
    fn at(resource_version: &str) -> Self {
        Self { resource_version: Some(resource_version.to_owned()), grace_seconds: None }
    }

    /// The version that was decided on; `None`: any one of this uid.
    #[must_use]
    pub fn resource_version(&self) -> Option<&str> {
        self.resource_version.as_deref()
    }

    /// So many seconds for a pod's containers; `None`: those of its spec.
    #[must_use]
    pub const fn grace_seconds(&self) -> Option<u32> {
        self.grace_seconds
    }
}

/// The beginning of a patch of `pod` as it was seen.
pub(crate) fn patch_of_pod(pod: &PodView) -> JsonPatch {
    JsonPatch::at(&pod.id.uid, &pod.resource_version)
}

impl Write {
    /// It needs no other, and nobody is told.
    #[must_use]
    pub const fn new(verb: &'static str, on: ObjectRef, request: Request) -> Self {
        Self { verb, on, request, tells: None, needs: Vec::new(), once: None, subject: None }
    }

    /// A patch of `object` as it was seen; `change` adds to its tests.
    pub(crate) fn patch(verb: &'static str, object: &Object, change: impl FnOnce(JsonPatch) -> JsonPatch) -> Self {
        let tested = JsonPatch::at(&object.id.uid, &object.resource_version);
        Self::new(verb, object.id.clone(), Request::Patch(change(tested)))
    }

    /// The same of its subresource `status`.
    pub(crate) fn patch_status(
        verb: &'static str,
        object: &Object,
        change: impl FnOnce(JsonPatch) -> JsonPatch,
    ) -> Self {
        let tested = JsonPatch::at(&object.id.uid, &object.resource_version);
        Self::new(verb, object.id.clone(), Request::Status(change(tested)))
    }

    /// The status of `object`, as it was seen, becomes this one.
    pub(crate) fn status(verb: &'static str, object: &Object, status: Value) -> Self {
        Self::patch_status(verb, object, |patch| patch.add(&["status"], status))
    }

    /// The creation of an object of that kind.
    #[must_use]
    pub fn create(verb: &'static str, group_kind: &GroupKind, object: Value) -> Self {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let on = ObjectRef {
            group_kind: group_kind.clone(),
            namespace: text("namespace"),
            name: text("name"),
            uid: String::new(),
        };
        Self::new(verb, on, Request::Create(object))
    }

    /// Asks whether the API server would accept what this one creates, for all of which that is the same: they have this name.
    pub(crate) fn tried(self, verb: &'static str, name: &str) -> Self {
        let request = match self.request {
            Request::Create(object) => Request::Try(object),
            other => other,
        };
        Self { verb, on: ObjectRef { name: name.to_owned(), ..self.on }, request, ..self }
    }

    /// The deletion of `object` as it was seen.
    pub(crate) fn delete(verb: &'static str, object: &Object) -> Self {
        Self::new(verb, object.id.clone(), Request::Delete(Deletion::at(&object.resource_version)))
    }

    /// A request for this pod.
    pub(crate) fn on_pod(verb: &'static str, pod: &PodRef, request: Request) -> Self {
        Self::new(verb, pod.object(), request)
    }

    /// The deletion of a pod that may go, as it was seen.
    pub(crate) fn delete_pod(verb: &'static str, may_go: MayGo<'_>) -> Self {
        let pod = may_go.pod();
        Self::on_pod(verb, &pod.id, Request::Delete(Deletion::at(&pod.resource_version)))
    }

    /// The deletion of a pod that fetches an image or stands in for a workload's own, and is no workload's.
    #[must_use]
    pub fn delete_helper(
        verb: &'static str,
        pod: &PodRef,
        resource_version: Option<String>,
        grace_seconds: Option<u32>,
    ) -> Self {
        Self::on_pod(verb, pod, Request::Delete(Deletion { resource_version, grace_seconds }))
    }

    /// Sets an annotation of an object.
    #[must_use]
    pub fn annotate(verb: &'static str, object: &Object, name: &str, value: &str) -> Self {
        Self::annotate_all(verb, object, &[(name, value)])
    }

    /// Takes an annotation off an object that has it.
    #[must_use]
    pub fn without_annotation(verb: &'static str, object: &Object, name: &str) -> Self {
        Self::patch(verb, object, |patch| patch.remove(&["metadata", "annotations", name]))
    }

    /// Sets annotations of an object, by name and value.
    #[must_use]
    pub fn annotate_all(verb: &'static str, object: &Object, annotations: &[(&str, &str)]) -> Self {
        let all = ["metadata", "annotations"];
        Self::patch(verb, object, |patch| {
            let patch = if object.annotations.is_empty() { patch.new_map(&all) } else { patch };
            annotations.iter().fold(patch, |patch, (name, value)| patch.add(&["metadata", "annotations", name], *value))
        })
    }

    /// Sets another annotation in the same write, which sets one already.
    #[must_use]
    pub fn and_annotate(self, name: &str, value: &str) -> Self {
        let request = match self.request {
            Request::Patch(patch) => Request::Patch(patch.add(&["metadata", "annotations", name], value)),
            other => other,
        };
        Self { request, ..self }
    }

    /// Sets an annotation of a workload's template, where it is a restart annotation, and in the same write some of the workload itself:
    /// one that has some. `None` if the object has no template, or one that is too large.
    #[must_use]
    pub fn restart(object: &Object, name: &str, value: &str, own: &[(&str, &str)]) -> Option<Self> {
        const MAP: [&str; 4] = ["spec", "template", "metadata", "annotations"];
        let template = object.template().filter(|template| template.too_large().is_none())?.content();
        let has_some = template["metadata"]["annotations"].is_object();
        Some(Self::patch("restart-by-annotation", object, |patch| {
            let patch = if has_some { patch } else { patch.new_map(&MAP) };
            let [spec, template, metadata, annotations] = MAP;
            let patch = patch.add(&[spec, template, metadata, annotations, name], value);
            own.iter().fold(patch, |patch, (name, value)| patch.add(&[metadata, annotations, name], *value))
        }))
    }

    /// It changes nothing: it only fails if the object is not as it was seen, or is gone.
    #[must_use]
    pub fn is_confirmation(&self) -> bool {
        match &self.request {
            Request::Look | Request::Absent { .. } => true,
            Request::Patch(patch) => patch.is_test(),
            Request::Create(_)
            | Request::Ensure { .. }
            | Request::Try(_)
            | Request::Merge(_)
            | Request::Status(_)
            | Request::Delete(_) => false,
        }
    }

    /// Whether no watch tells that it has succeeded: a dry run. Whoever gets the answer decides again at once.
    #[must_use]
    pub const fn is_dry_run(&self) -> bool {
        matches!(self.request, Request::Try(_))
    }

    /// Whether it makes a pod.
    #[must_use]
    pub fn makes_pod(&self) -> bool {
        self.on.group_kind == GroupKind::POD && matches!(self.request, Request::Create(_))
    }

    /// The namespace that it is for; `None`: it is for several, or for the whole cluster.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        let is_clusters = self.on.name == CLUSTER_LEDGER && self.on.group_kind.is(GROUP, "TransitionLedger");
        Some(self.on.namespace.as_str()).filter(|namespace| !namespace.is_empty() && !is_clusters)
    }

    /// What the object has in this place, a JSON pointer, once it has succeeded, if that is a part of the request.
    #[must_use]
    pub fn content<T: DeserializeOwned>(&self, pointer: &str) -> Option<T> {
        let value = match &self.request {
            Request::Create(object) | Request::Ensure { object, .. } | Request::Merge(object) => {
                object.pointer(pointer)
            }
            Request::Patch(patch) | Request::Status(patch) => patch.value(pointer),
            Request::Try(_) | Request::Delete(_) | Request::Look | Request::Absent { .. } => None,
        };
        T::deserialize(value?).ok()
    }

    /// With the uid of the owner, if that was not known; `made` looks it up. `None`: there is no such owner.
    #[must_use]
    pub fn owned_by(mut self, made: impl FnOnce(&ObjectRef) -> Option<String>) -> Option<Self> {
        if let Request::Ensure { object, owner, .. } = &mut self.request
            && owner.uid.is_empty()
        {
            owner.uid = made(owner)?;
            object["metadata"]["ownerReferences"][0]["uid"] = owner.uid.as_str().into();
        }
        Some(self)
    }

    /// Only once this hold has ended.
    #[must_use]
    pub fn once(self, ended: EndedHold) -> Self {
        Self { once: Some(ended), ..self }
    }

    /// Only after these writes, by their keys.
    #[must_use]
    pub fn needing(self, needs: impl IntoIterator<Item = String>) -> Self {
        Self { needs: needs.into_iter().collect(), ..self }
    }

    /// With what it is about.
    #[must_use]
    pub fn about(self, subject: String) -> Self {
        Self { subject: Some(subject), ..self }
    }

    /// With what people should know once it has succeeded.
    #[must_use]
    pub fn telling(self, note: Option<EventNote>) -> Self {
        Self { tells: note, ..self }
    }

    /// Names what is done to which object, the same for each attempt.
    #[must_use]
    pub fn key(&self) -> String {
        if let Some(subject) = &self.subject {
            return format!("{}/{subject}", self.verb);
        }
        Self::key_of(self.verb, &self.on.group_kind, &self.on.namespace, &self.on.name)
    }

    /// The key that a write to this object has.
    pub(crate) fn key_of(verb: &str, of: &GroupKind, namespace: &str, name: &str) -> String {
        format!("{verb}/{of}/{namespace}/{name}")
    }
}
