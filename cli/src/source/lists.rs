//! Lists objects of one kind as views of them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use hitless_rollout::prefetch::NamePool;
use hitless_rollout::snapshot::NodeView;
use hitless_runtime::list;
use hitless_store::inputs::{Input, Part};
use hitless_workloads::kind;
use k8s_openapi::api::core::v1::Node;
use kube::api::{DynamicObject, ListParams};
use kube::core::DeserializeGuard;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use super::{FEW_NODES, Scope};
use crate::failure::Failure;
use crate::snapshot::{Unread, WorkloadObject};

/// `None` if it may not be read, or its kind is not known to this cluster. What is no part has to be read.
pub(super) fn optional<T>(
    part: Option<Part>,
    result: Result<T, Failure>,
    unread: &mut BTreeMap<Part, Unread>,
) -> Result<Option<T>, Failure> {
    let Some(part) = part else { return result.map(Some) };
    match result {
        Ok(known) => Ok(Some(known)),
        Err(Failure::Forbidden { message, .. } | Failure::Api { message, .. }) => {
            unread.insert(part, Unread::Refused(message));
            Ok(None)
        }
        Err(Failure::NotServed { .. }) => {
            unread.insert(part, Unread::NotInstalled);
            Ok(None)
        }
        Err(failure) => Err(failure),
    }
}

pub(super) async fn list<K, T>(
    what: &str,
    api: &Api<DeserializeGuard<K>>,
    selection: ListParams,
    view: impl Fn(K) -> Option<T>,
) -> Result<Vec<Arc<T>>, Failure>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let listed = list::all_if_served(api, selection, |object| object.0.ok().and_then(&view).map(Arc::new)).await;
    listed.map_err(|error| Failure::of(what, error))?.ok_or_else(|| Failure::NotServed { what: what.to_owned() })
}

/// The objects of a row.
pub(super) async fn list_row<R: Input>(client: &Client, scope: &Scope) -> Result<Vec<Arc<R::View>>, Failure> {
    let api = R::api(client, scope.namespace().as_deref());
    list(&format!("list {}", R::NAME), &api, R::SELECT.list(), R::view()).await
}

/// The objects of a resource of workloads' kinds; `None`: this cluster has no such resource, and need not have it.
pub(super) async fn objects(
    resource: &'static kind::Resource,
    api: &Api<DeserializeGuard<DynamicObject>>,
) -> Result<Option<Vec<Arc<WorkloadObject>>>, Failure> {
    let view = |object: DeserializeGuard<DynamicObject>| WorkloadObject::listed(resource, object.0.ok()?).map(Arc::new);
    let listed = if resource.optional {
        list::all_if_served(api, ListParams::default(), view).await
    } else {
        list::all(api, ListParams::default(), view).await.map(Some)
    };
    listed.map_err(|error| Failure::of(format!("list {}", resource.plural), error))
}

/// With what they have, if they are few: a Node's status is long.
pub(super) async fn nodes(client: &Client) -> Result<Vec<Arc<NodeView>>, Failure> {
    let api: Api<Node> = Api::all(client.clone());
    let (all, failed) = (ListParams::default, |error| Failure::of("list nodes", error));
    let metadata = list::all_metadata(&api, all(), |node| Some(Arc::new(NodeView::from(&node.metadata)))).await;
    let metadata = metadata.map_err(failed)?;
    if metadata.len() > FEW_NODES {
        return Ok(metadata);
    }
    let names = RefCell::new(NamePool::default());
    let view = |node: Node| Some(Arc::new(NodeView::of(&node, &mut names.borrow_mut())));
    list::all(&api, all(), view).await.map_err(failed)
}
