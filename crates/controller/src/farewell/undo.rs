//! One pass over everything that hitless may have left in somebody else's object.

use hitless_api::names::{self, labels};
use hitless_api::pod::PodView;
use hitless_runtime::write::{WriteError, Writes};
use hitless_workloads::deployment::{Kind, Request};
use hitless_workloads::{DeploymentView, ReplicaSetView, WorkloadWrite};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DynamicObject, ListParams, ObjectList, Patch, PatchParams};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::watches;

/// Objects in one page of a list.
const PAGE: u32 = 500;

#[derive(Debug, thiserror::Error)]
pub(super) enum UndoError {
    #[error("reading: {0}")]
    Read(#[source] Box<kube::Error>),
    #[error("writing: {0}")]
    Write(#[from] WriteError),
    #[error("an object does not parse: {0}")]
    Parse(#[from] serde_json::Error),
}

/// Takes our labels off ReplicaSets, lifts held Deployments, raises pods; in this order, because a Deployment that is lifted
/// may need any of its ReplicaSets. Says how many objects were changed.
pub(super) async fn pass(client: &Client, writes: &Writes) -> Result<usize, UndoError> {
    let undo = Undo { client, writes };
    let mut changed = 0;
    for label in [labels::HISTORY, labels::LIVE] {
        let sets = Api::all_with(client.clone(), &watches::replica_sets());
        for set in views::<ReplicaSetView>(&sets, &ListParams::default().labels(label)).await? {
            let present = [labels::HISTORY, labels::LIVE].into_iter().filter(|name| set.labels.contains_key(*name));
            let write = WorkloadWrite::StripLabels { replica_set: (&set).into(), labels: present.collect() };
            changed += undo.workload(&write).await?;
        }
    }
    let deployments = Api::all_with(client.clone(), &watches::deployments());
    for deployment in views::<DeploymentView>(&deployments, &ListParams::default()).await? {
        if deployment.marked() {
            changed += undo.workload(&WorkloadWrite::Unpause { deployment: (&deployment).into() }).await?;
        }
    }
    let pods: Api<Pod> = Api::all(client.clone());
    for pod in list(&pods, &ListParams::default()).await? {
        let pod = PodView::from(&pod);
        if pod.gated && !pod.terminating && !pod.finished && !pod.is(names::IN_SERVICE) {
            changed += undo.raise(&pod).await?;
        }
    }
    Ok(changed)
}

struct Undo<'a> {
    client: &'a Client,
    writes: &'a Writes,
}

impl Undo<'_> {
    async fn workload(&self, write: &WorkloadWrite) -> Result<usize, UndoError> {
        let Request::Patch { kind, target, patch } = write.request() else { return Ok(0) };
        let (resource, name) = match kind {
            Kind::Deployment => (watches::deployments(), "deployments"),
            Kind::ReplicaSet => (watches::replica_sets(), "replicasets"),
        };
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &target.namespace, &resource);
        let patch: Patch<Value> = Patch::Json(serde_json::from_value::<json_patch::Patch>(patch)?);
        let params = PatchParams::default();
        let answer = self.writes.send(name, async { api.patch(&target.name, &params, &patch).await.map(drop) }).await;
        once(answer)
    }

    async fn raise(&self, pod: &PodView) -> Result<usize, UndoError> {
        let now = jiff::Timestamp::now().round(jiff::Unit::Second).unwrap_or_default().to_string();
        let patch = Patch::Strategic(json!({
            "metadata": {"uid": pod.id.uid, "resourceVersion": pod.resource_version},
            "status": {"conditions": [{
                "type": names::IN_SERVICE, "status": "True", "reason": "Uninstalled",
                "message": "hitless is being uninstalled", "lastTransitionTime": now,
            }]},
        }));
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &pod.id.namespace);
        let params = PatchParams::default();
        let request = async { api.patch_status(&pod.id.name, &params, &patch).await.map(drop) };
        once(self.writes.send("pods/status", request).await)
    }
}

/// What somebody else changed meanwhile is for the next pass, which comes in any case: it counts as changed.
fn once(answer: Result<(), WriteError>) -> Result<usize, UndoError> {
    match answer {
        Ok(()) => Ok(1),
        Err(error) if error.is_stale() => Ok(1),
        Err(error) => Err(error.into()),
    }
}

async fn views<T: DeserializeOwned>(api: &Api<DynamicObject>, params: &ListParams) -> Result<Vec<T>, UndoError> {
    let objects = list(api, params).await?;
    objects.into_iter().map(|object| Ok(serde_json::from_value(serde_json::to_value(object)?)?)).collect()
}

async fn list<K>(api: &Api<K>, params: &ListParams) -> Result<Vec<K>, UndoError>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    let mut params = params.clone().limit(PAGE);
    let mut all = Vec::new();
    loop {
        let page: ObjectList<K> = api.list(&params).await.map_err(|error| UndoError::Read(Box::new(error)))?;
        all.extend(page.items);
        match page.metadata.continue_ {
            Some(next) if !next.is_empty() => params = params.continue_token(&next),
            _ => return Ok(all),
        }
    }
}
