//! Lists, page by page.

use std::collections::BTreeSet;
use std::fmt::Debug;

use kube::Api;
use kube::api::{ListParams, ObjectList, PartialObjectMeta};
use kube::core::Resource;
use serde::de::DeserializeOwned;

use crate::write::{WriteError, is_not_found};

/// Objects in one page.
const PAGE: u32 = 500;

/// What `view` makes of all objects that match; `None` leaves one out.
pub async fn all<K, T>(
    api: &Api<K>,
    selection: ListParams,
    view: impl FnMut(K) -> Option<T>,
) -> Result<Vec<T>, WriteError>
where
    K: Clone + DeserializeOwned + Debug,
{
    Ok(pages(api, selection, view).await?)
}

/// The same, of a resource that the API server may not serve; `None`: it does not.
pub async fn all_if_served<K, T>(
    api: &Api<K>,
    selection: ListParams,
    view: impl FnMut(K) -> Option<T>,
) -> Result<Option<Vec<T>>, WriteError>
where
    K: Clone + DeserializeOwned + Debug,
{
    match pages(api, selection, view).await {
        Err(error) if is_not_found(&error) => Ok(None),
        answer => Ok(Some(answer?)),
    }
}

/// The same of their metadata only, for objects that are long.
pub async fn all_metadata<K, T>(
    api: &Api<K>,
    selection: ListParams,
    mut view: impl FnMut(PartialObjectMeta<K>) -> Option<T>,
) -> Result<Vec<T>, WriteError>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let (mut page, mut all) = (selection.limit(PAGE), Vec::new());
    while take(api.list_metadata(&page).await?, &mut view, &mut all, &mut page) {}
    Ok(all)
}

/// Their names only.
pub async fn names<K>(api: &Api<K>, selection: ListParams) -> Result<BTreeSet<String>, WriteError>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    Ok(all_metadata(api, selection, |object| object.metadata.name).await?.into_iter().collect())
}

async fn pages<K, T>(api: &Api<K>, selection: ListParams, mut view: impl FnMut(K) -> Option<T>) -> kube::Result<Vec<T>>
where
    K: Clone + DeserializeOwned + Debug,
{
    let (mut page, mut all) = (selection.limit(PAGE), Vec::new());
    while take(api.list(&page).await?, &mut view, &mut all, &mut page) {}
    Ok(all)
}

/// Takes one page; says whether there is another one.
fn take<K: Clone, T>(
    list: ObjectList<K>,
    view: impl FnMut(K) -> Option<T>,
    all: &mut Vec<T>,
    page: &mut ListParams,
) -> bool {
    all.extend(list.items.into_iter().filter_map(view));
    page.continue_token = list.metadata.continue_.filter(|token| !token.is_empty());
    page.continue_token.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Client;
    use kube::client::Body;
    use serde_json::json;

    /// Three pages; of an unknown namespace nothing is found.
    fn api(namespace: &str) -> Api<ConfigMap> {
        let service = tower::service_fn(|request: http::Request<Body>| async move {
            let query = request.uri().query().unwrap_or_default();
            assert!(query.contains("limit=500") && query.contains("labelSelector=app"), "{query}");
            let (name, next) = match query.split("continue=").nth(1) {
                None => ("a", "1"),
                Some("1") => ("b", "2"),
                Some(_) => ("c", ""),
            };
            let answer = json!({"metadata": {"continue": next}, "items": [{"metadata": {"name": name}}]});
            let status = json!({"kind": "Status", "status": "Failure", "code": 404, "message": "m"});
            let is_known = request.uri().path().contains("/known/");
            let (code, answer) = if is_known { (200, answer) } else { (404, status) };
            http::Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()))
        });
        Api::namespaced(Client::new(service, "default"), namespace)
    }

    #[tokio::test]
    async fn all_pages_are_read() {
        let view = |map: ConfigMap| map.metadata.name.filter(|name| name != "b");
        let selection = ListParams::default().labels("app");
        assert_eq!(all(&api("known"), selection.clone(), view).await.unwrap(), ["a", "c"]);
        assert_eq!(all_if_served(&api("known"), selection.clone(), view).await.unwrap().unwrap().len(), 2);
        assert_eq!(all_if_served(&api("other"), selection.clone(), view).await.unwrap(), None);
        assert!(matches!(all(&api("other"), selection, view).await, Err(WriteError::Gone { .. })));
    }
}
