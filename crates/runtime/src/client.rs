//! Connections to the API server.

use std::path::Path;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// No client could be made.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Not in a pod, or its service account is not mounted.
    #[error("can't find the API server from inside this pod: {0}; is its service account token mounted?")]
    InCluster(#[from] kube::config::InClusterError),
    /// The kubeconfig can't be read or does not name what was asked for.
    #[error("can't use the kubeconfig: {0}")]
    Kubeconfig(#[from] kube::config::KubeconfigError),
    /// The client's parts don't fit together, e.g. an unusable certificate.
    #[error("can't set up the connection to the API server: {0}")]
    Setup(#[source] Box<kube::Error>),
}

/// A client from inside a pod: address from `KUBERNETES_SERVICE_HOST` (no DNS is needed), token of the service account.
pub fn in_cluster() -> Result<Client, ClientError> {
    client(Config::incluster_env()?)
}

/// A client from a kubeconfig: the file given, else `KUBECONFIG`, else the one in the home directory.
pub async fn from_kubeconfig(file: Option<&Path>, context: Option<&str>) -> Result<Client, ClientError> {
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let config = match file {
        Some(file) => Config::from_custom_kubeconfig(Kubeconfig::read_from(file)?, &options).await?,
        None => Config::from_kubeconfig(&options).await?,
    };
    client(config)
}

fn client(mut config: Config) -> Result<Client, ClientError> {
    // Two providers may be compiled in by some dependency; rustls then refuses to choose. An error means that it was
    // installed before, by an earlier call.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // A refused write is decided anew, never repeated blindly (docs/contract.md 24); watches have a back-off of their own.
    config.default_retry = false;
    Client::try_from(config).map_err(|error| ClientError::Setup(Box::new(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_unknown_context_or_file_is_an_error_that_names_it() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("config");
        let error = from_kubeconfig(Some(&file), None).await.err().unwrap();
        assert!(error.to_string().contains("kubeconfig"), "{error}");
        std::fs::write(
            &file,
            r#"{"apiVersion": "v1", "kind": "Config", "current-context": "here",
                "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}], "users": [{"name": "u", "user": {}}],
                "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "team"}}]}"#,
        )
        .unwrap();
        assert_eq!(from_kubeconfig(Some(&file), None).await.unwrap().default_namespace(), "team");
        assert!(from_kubeconfig(Some(&file), Some("elsewhere")).await.is_err());
    }
}
