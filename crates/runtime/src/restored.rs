//! Whether etcd was put back to an earlier time, as from a backup.
//!
//! The API server promises that resourceVersions only grow, and that a list without one is as new as any answer before it. After a
//! restoration without `--bump-revision` they begin again at a lower one, and a watch that is asked to go on from a later one is
//! silent until that is reached: it tells of no change, and of no error. So a program that only watches would go on with what is no
//! longer there. Nothing wrong is written, because every write is conditional; nothing right is done either. Who notices ends, and
//! begins anew with lists.

use std::fmt::Debug;
use std::time::Duration;

use kube::Api;
use kube::api::ListParams;
use kube::core::Resource;
use serde::de::DeserializeOwned;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// Time between two looks. Each is a list of at most one object.
const EVERY: Duration = Duration::from_mins(5);

/// What ends the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the API server's resourceVersion has gone back from {before} to {now}: its etcd was restored from a backup; what was watched since \
     is unknown, so this program begins anew"
)]
pub struct WentBack {
    /// The newest that was seen.
    pub before: u64,
    /// That of a list that was asked for later.
    pub now: u64,
}

/// Looks from time to time until `token` is cancelled. `selection` should find few objects, and `newest` is the newest resourceVersion
/// that a watch of the same resource has told of. What can't be asked is asked again the next time.
///
/// # Errors
/// If the resourceVersion has gone back.
pub async fn look<K>(
    api: Api<K>,
    selection: ListParams,
    newest: impl Fn() -> u64 + Send,
    token: CancellationToken,
) -> Result<(), WentBack>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let selection = selection.limit(1);
    let mut seen = 0;
    loop {
        tokio::select! {
            () = token.cancelled() => return Ok(()),
            () = sleep(EVERY) => {}
        }
        // Before the question: what a watch tells later may be newer than the answer.
        let before = newest().max(seen);
        match api.list_metadata(&selection).await {
            Ok(list) => seen = compared(before, list.metadata.resource_version.as_deref())?,
            Err(error) => tracing::debug!(%error, "can't ask how new the API server is"),
        }
    }
}

/// The newest of both. A resourceVersion that is no number says nothing.
fn compared(before: u64, version: Option<&str>) -> Result<u64, WentBack> {
    match version.and_then(|version| version.parse().ok()) {
        Some(now) if now < before => Err(WentBack { before, now }),
        Some(now) => Ok(now),
        None => Ok(before),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Client;
    use kube::client::Body;
    use serde_json::json;

    /// An API server whose lists have this resourceVersion; 0: it does not answer.
    fn api(version: &Arc<AtomicU64>) -> Api<ConfigMap> {
        let version = version.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let version = version.load(Ordering::SeqCst);
            async move {
                let query = request.uri().query().unwrap_or_default();
                assert!(query.contains("limit=1") && !query.contains("resourceVersion"), "{query}");
                let list = json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
                    "metadata": {"resourceVersion": version.to_string()}, "items": []});
                let status = json!({"kind": "Status", "status": "Failure", "code": 503, "message": "m"});
                let (code, answer) = if version == 0 { (503, status) } else { (200, list) };
                http::Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()))
            }
        });
        Api::namespaced(Client::new(service, "default"), "default")
    }

    #[tokio::test(start_paused = true)]
    async fn an_older_api_server_is_noticed_and_one_that_is_away_is_not_taken_for_one() {
        let (version, watched) = (Arc::new(AtomicU64::new(100)), Arc::new(AtomicU64::new(90)));
        let told = watched.clone();
        let looking =
            look(api(&version), ListParams::default(), move || told.load(Ordering::SeqCst), CancellationToken::new());
        let looking = tokio::spawn(looking);
        sleep(EVERY * 3).await;
        version.store(0, Ordering::SeqCst);
        sleep(EVERY * 2).await;
        assert!(!looking.is_finished());
        version.store(130, Ordering::SeqCst);
        sleep(EVERY * 2).await;
        assert!(!looking.is_finished());
        version.store(110, Ordering::SeqCst);
        let went_back = looking.await.unwrap().unwrap_err();
        assert_eq!(went_back, WentBack { before: 130, now: 110 });
        assert!(went_back.to_string().contains("restored from a backup"), "{went_back}");
    }

    #[test]
    fn what_a_watch_has_told_counts_and_what_is_no_number_says_nothing() {
        assert_eq!(compared(7, Some("6")), Err(WentBack { before: 7, now: 6 }));
        assert_eq!((compared(7, Some("7")), compared(7, Some("9"))), (Ok(7), Ok(9)));
        assert_eq!((compared(7, Some("x")), compared(7, None)), (Ok(7), Ok(7)));
    }
}
