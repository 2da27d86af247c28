//! Objects of workloads' kinds: as the API server stores them, and as controllers read them.

use hitless_agent::instant::whole_seconds;
use hitless_api::names::annotations;
use hitless_workloads::{Write, registry};
use hitless_world::{WorkloadObject, api_server, carry_out, object_key};
use serde_json::Value;

use super::{Change, Kind, Object, Refusal, Server, Told};
use crate::checks::Checks;
use crate::watch::Key;

impl Server {
    pub(crate) fn object(&self, kind: &str, namespace: &str, name: &str) -> Option<&WorkloadObject> {
        self.objects.get(&object_key(kind, namespace, name))
    }

    /// All objects of a kind.
    pub(crate) fn objects_of(&self, kind: &'static str) -> impl Iterator<Item = &WorkloadObject> {
        let from: Key = format!("{kind}/").into();
        self.objects
            .range(from..)
            .take_while(move |(_, each)| each.view.id.group_kind.kind == kind)
            .map(|(_, each)| each)
    }

    /// Objects whose controller has this uid.
    pub(crate) fn owned_by<'a>(&'a self, uid: &'a str) -> impl Iterator<Item = &'a WorkloadObject> {
        let own = move |each: &&WorkloadObject| each.view.owner.as_ref().is_some_and(|owner| owner.uid == uid);
        self.objects.values().filter(own)
    }

    /// Stores a new object.
    pub(crate) fn put_object(&mut self, mut json: Value) -> WorkloadObject {
        let version = self.bump();
        json["metadata"]["resourceVersion"] = version.to_string().into();
        self.keep(json, version)
    }

    /// Stores an object that a native controller has made.
    pub(crate) fn create_object(&mut self, manifest: Value) -> WorkloadObject {
        let (version, now) = (self.bump(), whole_seconds(self.stamp()).to_string());
        self.keep(api_server::created(manifest, &version.to_string(), &now), version)
    }

    /// Changes an object, if it is there.
    pub(crate) fn change_object(&mut self, key: &Key, change: impl FnOnce(&mut Value)) {
        let Some(known) = self.objects.get(key).cloned() else { return };
        let mut next = Value::clone(&known.json);
        change(&mut next);
        // As the API server counts changes of a DaemonSet's template.
        if known.view.daemon_set().is_some() && next["spec"]["template"] != known.json["spec"]["template"] {
            let count = known.json["metadata"]["annotations"][annotations::TEMPLATE_GENERATION].as_str();
            let count: u64 = count.and_then(|count| count.parse().ok()).unwrap_or(1);
            next["metadata"]["annotations"][annotations::TEMPLATE_GENERATION] = (count + 1).to_string().into();
        }
        if next != *known.json {
            let version = self.bump();
            self.keep(api_server::stored(&known.json, next, &version.to_string()), version);
        }
    }

    pub(crate) fn remove_object(&mut self, key: &Key) {
        if self.objects.remove(key).is_some() {
            let version = self.bump();
            self.outbox.push(Change { version, key: key.clone(), what: Told::Deleted(Kind::Workload), node: None });
        }
    }

    /// An object that is being deleted goes with its last finalizer.
    pub(crate) fn end_of_deletion(&mut self, key: &Key) {
        let is_over = |known: &WorkloadObject| known.view.deleting && known.view.finalizers.is_empty();
        if self.objects.get(key).is_some_and(is_over) {
            self.remove_object(key);
        }
    }

    fn keep(&mut self, json: Value, version: u64) -> WorkloadObject {
        let object = match WorkloadObject::read(json) {
            Ok(object) => object,
            Err(why) => unreachable!("the simulation has stored an object that can't be read: {why}"),
        };
        let key = object.key();
        self.objects.insert(key.clone(), object.clone());
        self.tell(key, version, Object::Workload(object.clone()));
        object
    }

    /// A write of a controller.
    pub(super) fn workload(&mut self, write: &Write, checks: &mut Checks) -> Result<Option<Object>, Refusal> {
        let at = object_key(&write.on.group_kind.kind, &write.on.namespace, &write.on.name);
        let known = self.objects.get(&at).cloned();
        let changed_at = self.changed_at;
        let version = self.bump();
        let now = self.stamp().to_string();
        match carry_out(write, known.as_ref().map(|known| &*known.json), &version.to_string(), &now)? {
            None => {
                if let Some(known) = known {
                    checks.deleted(self, &known.view);
                }
                self.remove_object(&at);
                Ok(None)
            }
            Some(json) => {
                let before = known.map(|known| known.view);
                let after =
                    registry::read(json.clone()).and_then(Result::ok).ok_or(Refusal::Denied("not such an object"))?;
                checks.written(self, before.as_deref(), &after);
                let stored = self.keep(json, version);
                // What is refused still is tried again for ever, and written down anew, which is no unrest.
                let is_refused =
                    |object: &hitless_workloads::Object| object.annotations.contains_key(annotations::REFUSED);
                if write.verb == "tell-refused" && before.as_deref().is_some_and(is_refused) && is_refused(&after) {
                    self.changed_at = changed_at;
                }
                self.end_of_deletion(&at);
                Ok(Some(Object::Workload(stored)))
            }
        }
    }
}
