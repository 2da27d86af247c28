//! Which Node this is. Its uid tells it from an earlier one of the same name, and a Node can be deleted and made anew under a living agent.

use std::time::Duration;

use hitless_runtime::write::Writes;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client};
use tokio::time::Instant;

use crate::view::NodeIdentity;

/// After a Node could not be read.
const RETRY: Duration = Duration::from_secs(10);

/// The agent's node, as far as is known.
pub(super) struct ThisNode {
    /// Name and uid.
    pub(super) identity: NodeIdentity,
    nodes: Api<Node>,
    /// For this uid grants were made, and the Node was read and has another one.
    refuted: Option<String>,
    /// It is not read again before, because it could not be read.
    not_before: Option<Instant>,
}

impl ThisNode {
    /// The Node of this name; its uid is not known yet.
    pub(super) fn new(client: Client, name: String) -> Self {
        let identity = NodeIdentity { name, uid: String::new() };
        Self { identity, nodes: Api::all(client), refuted: None, not_before: None }
    }

    /// Reads the uid; says whether that worked.
    pub(super) async fn learn(&mut self) -> bool {
        match Writes::read(self.nodes.get_metadata(&self.identity.name)).await {
            Ok(node) => {
                let uid = node.metadata.uid.unwrap_or_default();
                if !self.identity.uid.is_empty() && self.identity.uid != uid {
                    tracing::info!(node = self.identity.name, was = self.identity.uid, uid, "the Node was made anew");
                }
                self.identity.uid = uid;
                true
            }
            Err(error) => {
                tracing::warn!(node = self.identity.name, %error, "can't read this node, trying again");
                false
            }
        }
    }

    /// Grants were made for the Node with this uid. If that is not the one that is known, the Node is read once more before any of
    /// them is refused.
    pub(super) async fn check(&mut self, granted: &str) {
        if !self.is_to_read(granted, Instant::now()) {
            return;
        }
        if self.learn().await {
            self.not_before = None;
            self.refuted = (self.identity.uid != granted).then(|| granted.to_owned());
        } else {
            self.not_before = Some(Instant::now() + RETRY);
        }
    }

    /// Once for each uid that is not this Node's: an earlier Node's grants stay that.
    fn is_to_read(&self, granted: &str, now: Instant) -> bool {
        let is_other = !granted.is_empty() && granted != self.identity.uid;
        is_other && self.refuted.as_deref() != Some(granted) && self.not_before.is_none_or(|at| now >= at)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::{Arc, Mutex};

    use http::Response;
    use kube::client::Body;
    use serde_json::json;
    use tower::service_fn;

    use super::*;

    /// The uid of the Node, if it can be read, and how often it was asked for.
    type Server = Arc<Mutex<(Option<&'static str>, u32)>>;

    fn node(server: &Server) -> ThisNode {
        let server = server.clone();
        let answer = move |_| {
            let mut server = server.lock().unwrap();
            server.1 += 1;
            let (code, body) = server.0.map_or_else(
                || (404, json!({"kind": "Status", "code": 404, "message": "not found", "status": "Failure"})),
                |uid| (200, json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "uid": uid}})),
            );
            let body = Body::from(body.to_string().into_bytes());
            async move { Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap()) }
        };
        ThisNode::new(Client::new(service_fn(answer), "default"), "n1".to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_was_made_anew_is_known_by_its_new_uid() {
        let server = Server::new(Mutex::new((Some("a"), 0)));
        let mut node = node(&server);
        assert!(node.learn().await);
        node.check("a").await;
        assert_eq!((node.identity.uid.as_str(), server.lock().unwrap().1), ("a", 1), "nothing speaks against it");
        server.lock().unwrap().0 = Some("b");
        node.check("b").await;
        assert_eq!((node.identity.uid.as_str(), server.lock().unwrap().1), ("b", 2));
        for _ in 0..9 {
            node.check("a").await;
        }
        assert_eq!((node.identity.uid.as_str(), server.lock().unwrap().1), ("b", 3), "old grants are asked about once");
        server.lock().unwrap().0 = Some("c");
        node.check("c").await;
        node.check("a").await;
        assert_eq!((node.identity.uid.as_str(), server.lock().unwrap().1), ("c", 5));
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_can_not_be_read_is_not_asked_for_all_the_time() {
        let server = Server::new(Mutex::new((Some("a"), 0)));
        let mut node = node(&server);
        assert!(node.learn().await);
        server.lock().unwrap().0 = None;
        for _ in 0..9 {
            node.check("b").await;
        }
        assert_eq!((node.identity.uid.as_str(), server.lock().unwrap().1), ("a", 2));
        server.lock().unwrap().0 = Some("b");
        tokio::time::advance(RETRY).await;
        node.check("b").await;
        assert_eq!(node.identity.uid, "b");
    }
}
