//! How a TrafficProvider is reached.

use hitless_api::TrafficProviderSpec;
use hitless_api::names::SYSTEM_NAMESPACE;
use hitless_api::traffic_provider::AlibabaNlbProvider;
use hitless_balancer::alibaba::{self, Credentials, Nlb};
use hitless_balancer::haproxy::{Endpoint, HaProxy, Keywords};
use hitless_balancer::{Mark, PoolName, Round, Wanted, round};
use hitless_runtime::write::Writes;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};

/// What a TrafficProvider says, as what can be asked.
pub(super) enum Connection {
    HaProxy(HaProxy),
    Alibaba(Nlb),
}

impl Connection {
    /// # Errors
    /// In words for people, if what the TrafficProvider says can't be used.
    pub(super) async fn of(client: &Client, spec: &TrafficProviderSpec) -> Result<Self, String> {
        let mark = Mark::new(spec.mark.as_str()).map_err(|error| format!("spec.mark: {error}"))?;
        match (&spec.haproxy, &spec.alibaba_nlb) {
            (Some(haproxy), None) => {
                let endpoint: Endpoint =
                    haproxy.endpoint.parse().map_err(|error| format!("spec.haproxy.endpoint: {error}"))?;
                let keywords =
                    Keywords::new(&haproxy.keywords).map_err(|error| format!("spec.haproxy.keywords: {error}"))?;
                Ok(Self::HaProxy(HaProxy::new(endpoint, mark, keywords)))
            }
            (None, Some(alibaba)) => Ok(Self::Alibaba(nlb(client, alibaba, mark).await?)),
            (Some(_), Some(_)) | (None, None) => {
                Err("exactly one of spec.haproxy and spec.alibabaNlb says which load balancer it is".to_owned())
            }
        }
    }

    /// Reads, acts, and reads again.
    pub(super) async fn round(&self, pool: &PoolName, wanted: &[Wanted]) -> Round {
        match self {
            Self::HaProxy(provider) => round(provider, pool, wanted).await,
            Self::Alibaba(provider) => round(provider, pool, wanted).await,
        }
    }
}

/// Reads the credentials anew: an administrator may have changed them.
async fn nlb(client: &Client, alibaba: &AlibabaNlbProvider, mark: Mark) -> Result<Nlb, String> {
    let name = &alibaba.secret;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), SYSTEM_NAMESPACE);
    let secret = Writes::read(secrets.get_opt(name)).await;
    let secret = secret.map_err(|error| format!("Secret {SYSTEM_NAMESPACE}/{name} can't be read: {error}"))?;
    let secret = secret.ok_or_else(|| format!("there is no Secret {SYSTEM_NAMESPACE}/{name}"))?;
    let value = |key: &str| {
        let bytes = secret.data.as_ref().and_then(|data| data.get(key)).map(|bytes| bytes.0.clone());
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok()).map(|text| text.trim().to_owned());
        text.filter(|text| !text.is_empty()).ok_or_else(|| format!("Secret {SYSTEM_NAMESPACE}/{name} has no {key}"))
    };
    let credentials = Credentials::new(value("accessKeyId")?, value("accessKeySecret")?);
    let api = alibaba::Api::of_region(&alibaba.region, credentials);
    Ok(Nlb::new(api.map_err(|error| error.to_string())?, mark))
}
