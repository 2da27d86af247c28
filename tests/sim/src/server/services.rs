//! Services: kept as JSON, because the controller's own patches and their owners' tools are carried out on them.

use std::sync::Arc;

use hitless_rollout::mode::ServiceView;
use hitless_rollout::round::ServiceWrite;
use json_patch::PatchOperation;
use k8s_openapi::api::core::v1::Service;
use kube::api::Patch;
use serde_json::{Value, json};

use super::{Change, Kind, Object, Refusal, Server, Told, key};
use crate::checks::Checks;
use crate::watch::Key;

/// A Service as it is stored, and as controllers cache it.
#[derive(Clone)]
pub(crate) struct ServiceObject {
    pub(crate) object: Value,
    pub(crate) view: Arc<ServiceView>,
}

impl Server {
    /// A controller's patch.
    pub(super) fn service(&mut self, write: &ServiceWrite, checks: &mut Checks) -> Result<Option<Object>, Refusal> {
        let key = key(&write.namespace, &write.name);
        let known = self.services.get(&key).ok_or(Refusal::Gone)?;
        // The ledger is read right before the patch; a place that is taken in between changes the Service, too.
        let ledger = self.ledgers.get(write.namespace.as_str()).map(|ledger| &ledger.spec);
        if write.ended.as_ref().is_some_and(|ended| !ended.is_over(ledger)) {
            return Err(Refusal::Conflict);
        }
        let Patch::Json::<Value>(patch) = write.patch() else { return Err(Refusal::Denied("not a JSON patch")) };
        let mut object = known.object.clone();
        for step in &patch.0 {
            apply(&mut object, step).ok_or(Refusal::Conflict)?;
        }
        let before = known.view.clone();
        let after = self.put_service(object, checks).ok_or(Refusal::Denied("not a Service"))?;
        checks.service_written(self, &before, &after);
        Ok(Some(Object::Service(after)))
    }

    /// Stores a Service with the next version.
    pub(crate) fn put_service(&mut self, mut object: Value, checks: &mut Checks) -> Option<Arc<ServiceView>> {
        let version = self.bump();
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        // Empty maps are not kept.
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.retain(|_, value| value.as_object().is_none_or(|map| !map.is_empty()));
        }
        let view = Arc::new(ServiceView::from(&serde_json::from_value::<Service>(object.clone()).ok()?));
        let key = key(&view.namespace, &view.name);
        checks.service(self.now, &key, &view);
        self.services.insert(key.clone(), ServiceObject { object, view: view.clone() });
        self.tell(key, version, Object::Service(view.clone()));
        Some(view)
    }

    pub(crate) fn remove_service(&mut self, key: &Key, checks: &mut Checks) {
        if self.services.remove(key).is_some() {
            let version = self.bump();
            checks.service_gone(key);
            self.outbox.push(Change { version, key: key.clone(), what: Told::Deleted(Kind::Service), node: None });
        }
    }
}

/// One operation of a patch; `None` if it does not fit. To the API server what is absent is null.
fn apply(object: &mut Value, step: &PatchOperation) -> Option<()> {
    let is_absent = object.pointer(step.path().as_str()).is_none();
    match step {
        PatchOperation::Test(test) if test.value.is_null() && is_absent => Some(()),
        _ => json_patch::patch(object, std::slice::from_ref(step)).ok(),
    }
}
