//! Connections to the API server.

use kube::{Client, Config};

/// No client could be made.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Not in a pod, or its service account is not mounted.
    #[error("can't find the API server from inside this pod: {0}; is its service account token mounted?")]
    InCluster(#[from] kube::config::InClusterError),
    /// The client's parts don't fit together, e.g. an unusable certificate.
    #[error("can't set up the connection to the API server: {0}")]
    Setup(#[source] Box<kube::Error>),
}

/// A client from inside a pod: address from `KUBERNETES_SERVICE_HOST` (no DNS is needed), token of the service account. Agent and
/// controller have no other: what reads kubeconfigs, and knows proxies, would only make their programs larger, and so their memory at
/// rest.
///
/// # Errors
/// Outside of a pod, or if its service account is not mounted.
pub fn in_cluster() -> Result<Client, ClientError> {
    of(Config::incluster_env()?)
}

/// A client of this configuration.
///
/// # Errors
/// If its parts don't fit together.
pub fn of(mut config: Config) -> Result<Client, ClientError> {
    provide_crypto();
    // A refused write is decided anew, never repeated blindly (docs/contract.md#conflict); watches have a back-off of their own.
    config.default_retry = false;
    Client::try_from(config).map_err(|error| ClientError::Setup(Box::new(error)))
}

/// Two providers may be compiled in by some dependency; rustls then refuses to choose. An error means that it was installed before, by an
/// earlier call.
pub fn provide_crypto() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}
