//! Whether a namespace is there.

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};

use crate::failure::Failure;

/// An empty namespace is no answer where there is none.
pub(crate) async fn namespace_exists(client: &Client, namespace: &str) -> Result<(), Failure> {
    let spaces: Api<Namespace> = Api::all(client.clone());
    match spaces.get_metadata_opt(namespace).await {
        Ok(None) => Err(Failure::NotFound(format!("namespace {namespace} does not exist; is -n the right one?"))),
        // Who may not read it is told what there is.
        Ok(Some(_)) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::client::Body;
    use serde_json::json;

    /// An API server that answers so about every namespace.
    fn answering(code: u16, reason: &'static str) -> Client {
        let service = tower::service_fn(move |_: http::Request<Body>| {
            let body = json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": "m"});
            std::future::ready(http::Response::builder().status(code).body(Body::from(body.to_string().into_bytes())))
        });
        Client::new(service, "default")
    }

    #[tokio::test]
    async fn an_empty_answer_about_a_namespace_that_is_not_there_is_an_error() {
        let failure = namespace_exists(&answering(404, "NotFound"), "nope").await.unwrap_err();
        assert_eq!(failure.code(), 1);
        assert_eq!(failure.to_string(), "namespace nope does not exist; is -n the right one?");
        assert!(
            namespace_exists(&answering(403, "Forbidden"), "nope").await.is_ok(),
            "who may not see it is told what there is"
        );
    }
}
