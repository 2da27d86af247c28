//! Connections to the API server.

use std::path::Path;

use http::{HeaderName, HeaderValue};
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
    /// A name that can't be sent.
    #[error("can't act as {0:?}: it has characters that no header may have")]
    As(String),
    /// The client's parts don't fit together, e.g. an unusable certificate.
    #[error("can't set up the connection to the API server: {0}")]
    Setup(#[source] Box<kube::Error>),
}

/// A client from inside a pod: address from `KUBERNETES_SERVICE_HOST` (no DNS is needed), token of the service account. Agent and
/// controller have no other: what reads kubeconfigs would only make their programs larger, and so their memory at rest.
pub fn in_cluster() -> Result<Client, ClientError> {
    client(Config::incluster_env()?)
}

/// As whom somebody acts who may impersonate, as by kubectl's `--as` and `--as-group`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ActAs {
    /// Name of the user.
    pub user: Option<String>,
    /// Names of his groups.
    pub groups: Vec<String>,
}

impl ActAs {
    /// What the kubeconfig says, where nothing else was said: kube has it and does not send it.
    fn or_of(self, config: &Config) -> Self {
        if self.user.is_some() {
            return self;
        }
        let auth = &config.auth_info;
        let groups =
            if self.groups.is_empty() { auth.impersonate_groups.clone().unwrap_or_default() } else { self.groups };
        Self { user: auth.impersonate.clone(), groups }
    }

    fn headers(self) -> Result<Vec<(HeaderName, HeaderValue)>, ClientError> {
        let header = |name: &'static str, value: String| {
            let sent = HeaderValue::from_str(&value).map_err(|_| ClientError::As(value))?;
            Ok((HeaderName::from_static(name), sent))
        };
        let groups = self.groups.into_iter().map(|group| ("impersonate-group", group));
        self.user
            .map(|user| ("impersonate-user", user))
            .into_iter()
            .chain(groups)
            .map(|(name, value)| header(name, value))
            .collect()
    }
}

/// A client from a kubeconfig: the file given, else `KUBECONFIG`, else the one in the home directory.
pub async fn from_kubeconfig(file: Option<&Path>, context: Option<&str>, act_as: ActAs) -> Result<Client, ClientError> {
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let mut config = match file {
        Some(file) => Config::from_custom_kubeconfig(Kubeconfig::read_from(file)?, &options).await?,
        None => Config::from_kubeconfig(&options).await?,
    };
    let headers = act_as.or_of(&config).headers()?;
    config.headers.extend(headers);
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
        let error = from_kubeconfig(Some(&file), None, ActAs::default()).await.err().unwrap();
        assert!(error.to_string().contains("kubeconfig"), "{error}");
        std::fs::write(
            &file,
            r#"{"apiVersion": "v1", "kind": "Config", "current-context": "here",
                "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}], "users": [{"name": "u", "user": {}}],
                "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "team"}}]}"#,
        )
        .unwrap();
        assert_eq!(from_kubeconfig(Some(&file), None, ActAs::default()).await.unwrap().default_namespace(), "team");
        assert!(from_kubeconfig(Some(&file), Some("elsewhere"), ActAs::default()).await.is_err());
    }

    #[test]
    fn who_acts_as_somebody_says_so_in_headers() {
        let names = |groups: &[&str]| groups.iter().map(|name| (*name).to_owned()).collect();
        let act_as = ActAs { user: Some("jane".to_owned()), groups: names(&["dev", "ops"]) };
        let headers = act_as.headers().unwrap();
        let sent: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        assert_eq!(sent, [("impersonate-user", "jane"), ("impersonate-group", "dev"), ("impersonate-group", "ops")]);
        let bad = ActAs { user: Some("a\nb".to_owned()), groups: Vec::new() };
        assert!(bad.headers().unwrap_err().to_string().contains("can't act as"));
        let mut config = Config::new("http://127.0.0.1".parse().unwrap());
        config.auth_info.impersonate = Some("of-file".to_owned());
        assert_eq!(ActAs::default().or_of(&config).user.as_deref(), Some("of-file"));
        let given = ActAs { user: Some("jane".to_owned()), groups: Vec::new() };
        assert_eq!(given.or_of(&config).user.as_deref(), Some("jane"));
    }
}
