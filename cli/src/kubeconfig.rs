//! Connections to the API server as kubectl makes them: which file, which cluster, through which proxy.
//!
//! kube's own way through a proxy is not used. It asks `HTTPS_PROXY` for every server, compares `NO_PROXY` with the proxy's own host, and
//! would bring its code into agent and controller, too: cargo gives all programs of one build the features that any of them wants.

mod proxy;
mod requests;

use std::env;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use hitless_runtime::client::{self, ClientError};
use http::{HeaderName, HeaderValue};
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

pub(crate) use requests::Requests;

/// No client could be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    /// The kubeconfig can't be read or does not name what was asked for.
    #[error("can't use the kubeconfig: {0}")]
    Kubeconfig(#[from] KubeconfigError),
    /// A name that can't be sent.
    #[error("can't act as {0:?}: it has characters that no header may have")]
    As(String),
    /// What a proxy is to be asked by is none.
    #[error("can't use the proxy {0}: write it as http://HOST:PORT, https://HOST:PORT or socks5://HOST:PORT")]
    Proxy(String),
    /// The client's parts don't fit together, e.g. an unusable certificate.
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// As whom somebody acts who may impersonate, as by kubectl's `--as` and `--as-group`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ActAs {
    /// Name of the user.
    pub(crate) user: Option<String>,
    /// Names of his groups.
    pub(crate) groups: Vec<String>,
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

    fn headers(self) -> Result<Vec<(HeaderName, HeaderValue)>, ConnectError> {
        let header = |name: &'static str, value: String| {
            let sent = HeaderValue::from_str(&value).map_err(|_| ConnectError::As(value))?;
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

/// A client from a kubeconfig: the file given, else those of `KUBECONFIG`, else the one in the home directory, else, in a pod, of its account.
pub(crate) async fn connect(
    file: Option<&Path>,
    context: Option<&str>,
    act_as: ActAs,
    requests: Requests,
) -> Result<Client, ConnectError> {
    let kubeconfig = match file {
        Some(file) => Kubeconfig::read_from(file),
        None => of_environment(),
    };
    let of_pod = || Config::incluster().ok().filter(|_| file.is_none() && context.is_none());
    let (mut config, written) = match kubeconfig {
        Ok(mut kubeconfig) => {
            let written = take_proxy(&mut kubeconfig, context);
            let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
            (Config::from_custom_kubeconfig(kubeconfig, &options).await?, written)
        }
        Err(error) if is_absent(&error) => (of_pod().ok_or(error)?, None),
        Err(error) => return Err(error.into()),
    };
    let headers = act_as.or_of(&config).headers()?;
    config.headers.extend(headers);
    config.proxy_url = None;
    let client = match proxy::of(&config.cluster_url, written.as_deref(), |name| env::var(name).ok())? {
        Some(proxy) => proxy::client(&config, &proxy)?,
        None => client::of(config)?,
    };
    Ok(requests.over(client))
}

/// The files of `KUBECONFIG`, merged, without those that are not there: kubectl passes over them (client-go, `ClientConfigLoadingRules`).
fn of_environment() -> Result<Kubeconfig, KubeconfigError> {
    let list = env::var_os("KUBECONFIG").unwrap_or_default();
    let files: Vec<PathBuf> = env::split_paths(&list).filter(|path| !path.as_os_str().is_empty()).collect();
    if files.is_empty() { Kubeconfig::read() } else { merged(&files) }
}

/// Whether there is no file, or not even a place for one.
fn is_absent(error: &KubeconfigError) -> bool {
    match error {
        KubeconfigError::ReadConfig(error, _) => error.kind() == ErrorKind::NotFound,
        KubeconfigError::FindPath => true,
        _ => false,
    }
}

fn merged(files: &[PathBuf]) -> Result<Kubeconfig, KubeconfigError> {
    let (mut all, mut missing) = (None, None);
    for file in files {
        match Kubeconfig::read_from(file) {
            Ok(next) => {
                all = Some(match all {
                    Some(all) => Kubeconfig::merge(all, next)?,
                    None => next,
                });
            }
            Err(error) if is_absent(&error) => missing = missing.or(Some(error)),
            Err(error) => return Err(error),
        }
    }
    // Not even one: that is worth a word.
    all.ok_or_else(|| missing.unwrap_or(KubeconfigError::FindPath))
}

/// What the kubeconfig says of the proxy of the context's cluster. Taken out, so that kube neither uses nor checks it.
fn take_proxy(kubeconfig: &mut Kubeconfig, context: Option<&str>) -> Option<String> {
    let context = context.map(str::to_owned).or_else(|| kubeconfig.current_context.clone())?;
    let context = kubeconfig.contexts.iter().find(|named| named.name == context)?.context.clone()?;
    let cluster = kubeconfig.clusters.iter_mut().find(|named| named.name == context.cluster)?;
    cluster.cluster.as_mut()?.proxy_url.take().filter(|url| !url.is_empty())
}

#[cfg(test)]
mod tests;
