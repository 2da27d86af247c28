//! How a TrafficProvider is reached.

use hitless_api::TrafficProviderSpec;
use hitless_api::names::system_namespace;
use hitless_api::traffic_provider::TrafficTarget;
use hitless_balancer::alibaba::{Account, Alibaba, Credentials, Product, Region, Vpc};
use hitless_balancer::haproxy::{Endpoint, HaProxy, Keywords};
use hitless_balancer::{Mark, PoolName, Round, Wanted, round};
use hitless_runtime::write::Writes;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};

/// What a TrafficProvider says, as what can be asked.
pub(super) enum Connection {
    HaProxy(HaProxy),
    Alibaba(Box<Alibaba>),
}

impl Connection {
    /// Reads the credentials anew: an administrator may have changed them.
    ///
    /// # Errors
    /// In words for people, if what the TrafficProvider says can't be used.
    pub(super) async fn of(client: &Client, spec: &TrafficProviderSpec) -> Result<Self, String> {
        let mark = Mark::new(spec.mark.as_str()).map_err(|error| format!("spec.mark: {error}"))?;
        let target = spec.target().ok_or(
            "exactly one of spec.haproxy, spec.alibabaNlb, spec.alibabaAlb and spec.alibabaClb says which load balancer it is",
        )?;
        match secret(target) {
            None => connection(target, mark, None),
            Some(name) => connection(target, mark, Some(credentials(name, read(client, name).await?.as_ref())?)),
        }
    }

    /// Reads, acts, and reads again.
    pub(super) async fn round(&self, pool: &PoolName, wanted: &[Wanted]) -> Round {
        match self {
            Self::HaProxy(provider) => round(provider, pool, wanted).await,
            Self::Alibaba(provider) => round(provider.as_ref(), pool, wanted).await,
        }
    }
}

/// The Secret that has its credentials.
fn secret(target: TrafficTarget<'_>) -> Option<&str> {
    match target {
        TrafficTarget::HaProxy(_) => None,
        TrafficTarget::AlibabaNlb(alibaba) | TrafficTarget::AlibabaAlb(alibaba) => Some(&alibaba.secret),
        TrafficTarget::AlibabaClb(alibaba) => Some(&alibaba.secret),
    }
}

async fn read(client: &Client, name: &str) -> Result<Option<Secret>, String> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), system_namespace());
    let secret = Writes::read(secrets.get_opt(name)).await;
    secret.map_err(|error| format!("Secret {}/{name} can't be read: {error}", system_namespace()))
}

fn credentials(name: &str, secret: Option<&Secret>) -> Result<Credentials, String> {
    let secret = secret.ok_or_else(|| format!("there is no Secret {}/{name}", system_namespace()))?;
    let value = |key: &str| {
        let bytes = secret.data.as_ref().and_then(|data| data.get(key)).map(|bytes| bytes.0.clone());
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok()).map(|text| text.trim().to_owned());
        text.filter(|text| !text.is_empty()).ok_or_else(|| format!("Secret {}/{name} has no {key}", system_namespace()))
    };
    Ok(Credentials::new(value("accessKeyId")?, value("accessKeySecret")?))
}

/// Each kind of load balancer that a TrafficProvider can be.
fn connection(target: TrafficTarget<'_>, mark: Mark, credentials: Option<Credentials>) -> Result<Connection, String> {
    let alibaba = |field: &str, product: Product, region: &str, mark: Mark| {
        let credentials = credentials.ok_or_else(|| format!("spec.{field} has no credentials"))?;
        let region = Region::new(region).map_err(|error| format!("spec.{field}.region: {error}"))?;
        let provider = Alibaba::new(product, Account::new(region, credentials), mark);
        Ok(Connection::Alibaba(Box::new(provider.map_err(|error| format!("spec.{field}: {error}"))?)))
    };
    match target {
        TrafficTarget::HaProxy(haproxy) => {
            let endpoint: Endpoint =
                haproxy.endpoint.parse().map_err(|error| format!("spec.haproxy.endpoint: {error}"))?;
            let keywords =
                Keywords::new(&haproxy.keywords).map_err(|error| format!("spec.haproxy.keywords: {error}"))?;
            Ok(Connection::HaProxy(HaProxy::new(endpoint, mark, keywords)))
        }
        TrafficTarget::AlibabaNlb(nlb) => alibaba("alibabaNlb", Product::Nlb, &nlb.region, mark),
        TrafficTarget::AlibabaAlb(alb) => alibaba("alibabaAlb", Product::Alb, &alb.region, mark),
        TrafficTarget::AlibabaClb(clb) => {
            let vpc = clb.vpc.as_deref().map(Vpc::new).transpose();
            let vpc = vpc.map_err(|error| format!("spec.alibabaClb.vpc: {error}"))?;
            alibaba("alibabaClb", Product::Clb { vpc }, &clb.region, mark)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn spec(spec: Value) -> TrafficProviderSpec {
        serde_json::from_value(spec).unwrap()
    }

    fn key() -> Secret {
        // "id" and "secret", as the API encodes them.
        serde_json::from_value(json!({"data": {"accessKeyId": "aWQ=", "accessKeySecret": "c2VjcmV0Cg=="}})).unwrap()
    }

    fn made(value: Value) -> Result<Connection, String> {
        let spec = spec(value);
        let target = spec.target().unwrap();
        let credentials = secret(target).map(|name| credentials(name, Some(&key()))).transpose()?;
        connection(target, Mark::new(spec.mark.as_str()).unwrap(), credentials)
    }

    #[test]
    fn each_provider_is_made() {
        let haproxy = made(json!({"haproxy": {"endpoint": "tcp://10.0.0.9:9999", "keywords": "check"}}));
        assert!(matches!(haproxy, Ok(Connection::HaProxy(_))));
        let vpc = Vpc::new("vpc-1").unwrap();
        for (field, alibaba, product) in [
            ("alibabaNlb", json!({"region": "cn-hangzhou", "secret": "key"}), Product::Nlb),
            ("alibabaAlb", json!({"region": "cn-hangzhou", "secret": "key"}), Product::Alb),
            ("alibabaClb", json!({"region": "cn-hangzhou", "secret": "key"}), Product::Clb { vpc: None }),
            (
                "alibabaClb",
                json!({"region": "cn-hangzhou", "secret": "key", "vpc": "vpc-1"}),
                Product::Clb { vpc: Some(vpc) },
            ),
        ] {
            let Ok(Connection::Alibaba(made)) = made(json!({field: alibaba})) else { panic!("{field} is not made") };
            assert_eq!(*made.product(), product);
        }
    }

    #[test]
    fn what_can_not_be_used_is_named() {
        let refused = |value: Value| made(value).err().unwrap();
        for field in ["alibabaNlb", "alibabaAlb", "alibabaClb"] {
            for region in ["", "hangzhou", "cn-hangzhou.evil.example/", "CN-Hangzhou"] {
                let words = refused(json!({field: {"region": region, "secret": "key"}}));
                assert!(
                    words.starts_with(&format!("spec.{field}.region: ")) && words.contains("cn-hangzhou"),
                    "{words}"
                );
            }
        }
        let words = refused(json!({"alibabaClb": {"region": "cn-hangzhou", "secret": "key", "vpc": "vsw-1"}}));
        assert!(words.starts_with("spec.alibabaClb.vpc: ") && words.contains("vsw-1"), "{words}");
        assert!(refused(json!({"haproxy": {"endpoint": "10.0.0.9"}})).starts_with("spec.haproxy.endpoint: "));
    }

    #[test]
    fn a_secret_that_is_missing_or_has_no_key_is_named() {
        let without = |field: &str| {
            let mut secret = key();
            secret.data.as_mut().unwrap().remove(field);
            secret
        };
        let refused = |secret: Option<&Secret>| credentials("nlb-key", secret).unwrap_err();
        assert_eq!(refused(None), "there is no Secret hitless-system/nlb-key");
        for field in ["accessKeyId", "accessKeySecret"] {
            assert_eq!(refused(Some(&without(field))), format!("Secret hitless-system/nlb-key has no {field}"));
        }
        let mut blank = key();
        blank.data.as_mut().unwrap().insert("accessKeyId".to_owned(), k8s_openapi::ByteString(b" \n".to_vec()));
        assert_eq!(refused(Some(&blank)), "Secret hitless-system/nlb-key has no accessKeyId");
    }
}
