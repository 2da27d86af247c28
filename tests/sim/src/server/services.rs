//! Services: kept as JSON, because the controller's own patches and their owners' tools are carried out on them.

use std::sync::Arc;

use hitless_rollout::mode::ServiceView;
use hitless_workloads::Write;
use hitless_world::carry_out;
use k8s_openapi::api::core::v1::Service;
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
    pub(super) fn service(&mut self, at: &Key, write: &Write, checks: &mut Checks) -> Result<Option<Object>, Refusal> {
        let known = self.services.get(at).ok_or(Refusal::Gone)?;
        // The ledger is read right before the patch; a place that is taken in between changes the Service, too.
        let ledger = self.ledgers.get(write.on.namespace.as_str()).map(|ledger| &ledger.spec);
        if write.once.as_ref().is_some_and(|ended| !ended.is_over(ledger)) {
            return Err(Refusal::Conflict);
        }
        let object = carry_out(write, Some(&known.object), "", "")?.ok_or(Refusal::Denied("not a Service"))?;
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
