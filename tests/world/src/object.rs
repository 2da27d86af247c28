//! Objects of workloads' kinds.

use std::sync::Arc;

use hitless_workloads::{Object, registry};
use serde_json::Value;

/// An object of a workload's kind: as the API server stores it, and as controllers of ours read it.
#[derive(Clone, Debug)]
pub struct WorkloadObject {
    /// As it is stored.
    pub json: Arc<Value>,
    /// As it is read.
    pub view: Arc<Object>,
}

/// Name of an object among those of all kinds.
#[must_use]
pub fn object_key(kind: &str, namespace: &str, name: &str) -> Arc<str> {
    format!("{kind}/{namespace}/{name}").into()
}

impl WorkloadObject {
    /// # Errors
    /// If it is of no kind that is read, or does not parse.
    pub fn read(json: Value) -> Result<Self, String> {
        match registry::read(json.clone()) {
            Some(Ok(view)) => Ok(Self { json: Arc::new(json), view: Arc::new(view) }),
            Some(Err(error)) => Err(format!("{error}: {json}")),
            None => Err(format!("nobody reads an object of this kind: {json}")),
        }
    }

    /// Its name among objects of all kinds.
    #[must_use]
    pub fn key(&self) -> Arc<str> {
        object_key(&self.view.id.group_kind.kind, &self.view.id.namespace, &self.view.id.name)
    }
}
