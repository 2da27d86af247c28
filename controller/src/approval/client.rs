//! Sends requests to approvers.

pub mod http;
mod reach;
pub mod trust;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ::http::Method;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use hitless_api::PodRef;
use hitless_api::pod_transition_rule::Parameter;
use hitless_runtime::write::Writes;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::{ApiResource, DynamicObject};
use kube::{Api, Client};
use rustls::crypto::SecureRandom;
use serde_json::Value;
use tokio::time::{Instant, timeout, timeout_at};

use super::parameter;
use super::requests::{Call, Config, Failure, Request};
use super::wire::{Question, Resource};

use hitless_gate::approval::target::Target;

use reach::Located;
pub use reach::{Limits, Named, Reach};

/// Pods that are read at the same time for one request.
const CONCURRENT_READS: usize = 8;

/// Asks approvers.
#[derive(Clone)]
pub struct Approvers {
    client: Client,
    reach: Reach,
}

impl Approvers {
    /// `client` is for the addresses of Services and for parameters that need the whole pod; `reach`: where approvers are looked for.
    #[must_use]
    pub const fn new(client: Client, reach: Reach) -> Self {
        Self { client, reach }
    }

    /// Sends a request; returns the body of the answer. Takes no longer than the request may.
    pub async fn send(&self, call: &Call) -> Result<Vec<u8>, Failure> {
        let limit = Duration::try_from(call.timeout).unwrap_or_default();
        let until = Instant::now() + limit;
        let within = |what: &str| Failure::Unreachable(format!("{what} within {} s", limit.as_secs()));
        let prepared = match &call.request {
            Request::Ask(pods) => timeout_at(until, self.question(call, pods)).await,
            Request::Poll(task) => Ok(poll(&call.config, task)),
        };
        let prepared = prepared.unwrap_or_else(|_| Err(within("the parameters can't be filled in")))?;
        let (namespace, target) = (&call.rule.namespace, prepared.target.clone());
        let answer = timeout_at(until, self.request(namespace, prepared)).await;
        match answer.unwrap_or_else(|_| Err(within("no answer from the approver"))) {
            Err(Failure::Unreachable(why)) if !self.reach.tells(namespace, &target) => {
                let rule = &call.rule;
                let (rule_set, rule) = (&rule.rule_set, &rule.rule);
                tracing::warn!(%namespace, %rule_set, %rule, approver = %target.authority, %why, "an approver gives no answer");
                Err(Failure::Unreachable(no_answer(&target)))
            }
            answer => answer,
        }
    }

    async fn question(&self, call: &Call, pods: &[PodRef]) -> Result<Prepared, Failure> {
        let webhook = &call.config.webhook;
        let target = Target::of(&webhook.client_config).map_err(Failure::Misconfigured)?;
        let tls = trust::client_config(webhook.client_config.ca_bundle.as_deref())?;
        // Of a pod nothing is kept but the values: a thousand of them are many megabytes.
        let values: Vec<_> = pods.iter().map(|pod| self.values(&webhook.parameters, pod)).collect();
        let values: Vec<_> = stream::iter(values).buffered(CONCURRENT_READS).try_collect().await?;
        let resources = pods.iter().zip(values).map(|(pod, values)| Resource::pod(&pod.name, values));
        let question = Question {
            trace_id: trace_id()?,
            rule_name: &call.rule.rule,
            stage: call.config.stage.as_deref(),
            resources: resources.collect(),
            namespace: &call.rule.namespace,
            pod_transition_rule: &call.rule.rule_set,
        };
        let body = serde_json::to_vec(&question)
            .map_err(|error| Failure::Unreachable(format!("the question can't be written: {error}")))?;
        Ok(Prepared { target, tls, method: Method::POST, body })
    }

    /// Sends it to a target of a rule of `namespace`.
    async fn request(&self, namespace: &str, request: Prepared) -> Result<Vec<u8>, Failure> {
        let Prepared { target, tls, method, body } = request;
        let look = async {
            match &target.service {
                Some((namespace, name)) => self.addresses(namespace, name, target.port).await,
                None => reach::resolve(&target).await,
            }
        };
        let addresses = self.reach.locate(namespace, &target, look).await?;
        let answer = http::send(&target, &addresses, Arc::new(tls), method, body).await;
        answer.map_err(|error| Failure::Unreachable(format!("{}: {error}", target.authority)))
    }

    /// The Service's cluster addresses: the image has no resolver of its own, and this needs none.
    async fn addresses(&self, namespace: &str, name: &str, port: u16) -> Result<Located, Failure> {
        let failed = |why: &str| Failure::Unreachable(format!("Service {namespace}/{name} {why}"));
        let api: Api<Service> = Api::namespaced(self.client.clone(), namespace);
        let service = match timeout(Writes::TIMEOUT, api.get_opt(name)).await {
            Err(_) => return Err(failed("can't be read: the API server does not answer")),
            Ok(Err(error)) => return Err(failed(&format!("can't be read: {error}"))),
            Ok(Ok(None)) => return Err(failed("does not exist")),
            Ok(Ok(Some(service))) => service.spec.unwrap_or_default(),
        };
        let selects_pods = service.selector.is_some_and(|selector| !selector.is_empty());
        let all = service.cluster_ips.unwrap_or_default().into_iter().chain(service.cluster_ip);
        let addresses: Vec<SocketAddr> =
            all.filter_map(|address| Some(SocketAddr::new(address.parse::<IpAddr>().ok()?, port))).collect();
        if addresses.is_empty() {
            Err(failed("has no cluster address; it must not be headless"))
        } else {
            Ok(Located { addresses, selects_pods })
        }
    }

    /// Of a rule's parameters.
    async fn values<'a>(
        &self,
        parameters: &'a [Parameter],
        pod: &PodRef,
    ) -> Result<BTreeMap<&'a str, String>, Failure> {
        let object = if parameter::need_pod(parameters) { Some(self.read(pod).await?) } else { None };
        Ok(parameter::resolve(parameters, pod, object.as_ref()))
    }

    async fn read(&self, pod: &PodRef) -> Result<Value, Failure> {
        let failed = |why: &str| {
            Failure::Unreachable(format!("the parameters can't be filled in: pod {}/{} {why}", pod.namespace, pod.name))
        };
        let resource = ApiResource::erase::<Pod>(&());
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &pod.namespace, &resource);
        match timeout(Writes::TIMEOUT, api.get_opt(&pod.name)).await {
            Err(_) => Err(failed("can't be read: the API server does not answer")),
            Ok(Err(error)) => Err(failed(&format!("can't be read: {error}"))),
            Ok(Ok(Some(object))) if object.metadata.uid.as_deref() == Some(pod.uid.as_str()) => {
                serde_json::to_value(object).map_err(|error| failed(&format!("can't be read: {error}")))
            }
            Ok(Ok(_)) => Err(failed("is gone")),
        }
    }
}

/// A request before anybody knows whether it may be sent.
struct Prepared {
    target: Target,
    tls: rustls::ClientConfig,
    method: Method,
    body: Vec<u8>,
}

fn poll(config: &Config, task: &str) -> Result<Prepared, Failure> {
    let missing =
        || Failure::Misconfigured("the rule does not say where to poll; set webhook.clientConfig.poll".into());
    let poll = config.webhook.client_config.poll.as_ref().ok_or_else(missing)?;
    let target = Target::poll(poll).map_err(Failure::Misconfigured)?;
    let tls = trust::client_config(poll.ca_bundle.as_deref())?;
    let target = target.about_task(poll.raw_query_key.as_deref(), task);
    Ok(Prepared { target, tls, method: Method::GET, body: Vec::new() })
}

/// The same words whatever happened: they go to whoever may read the rule's pods, and who writes rules must not learn by them which
/// addresses and ports of the network there are.
fn no_answer(target: &Target) -> String {
    format!(
        "{}: no usable answer: it is away or late, or TLS or HTTP fails; the log of hitless-controller says which",
        target.authority
    )
}

/// A random UUID, version 4.
fn trace_id() -> Result<String, Failure> {
    let random: &dyn SecureRandom = rustls::crypto::ring::default_provider().secure_random;
    let mut bytes = [0_u8; 16];
    random.fill(&mut bytes).map_err(|_| Failure::Unreachable("the system gives no random numbers".to_owned()))?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let number = u128::from_be_bytes(bytes);
    let part = |shift: u32, digits: u32| (number >> shift) & ((1_u128 << (4 * digits)) - 1);
    Ok(format!("{:08x}-{:04x}-{:04x}-{:04x}-{:012x}", part(96, 8), part(80, 4), part(64, 4), part(48, 4), part(0, 12)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trace_ids_are_uuids_of_version_4_and_differ() {
        let (one, other) = (trace_id().unwrap(), trace_id().unwrap());
        assert_ne!(one, other);
        let parts: Vec<usize> = one.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12], "{one}");
        assert_eq!(&one[14..15], "4", "{one}");
        assert!("89ab".contains(&one[19..20]), "{one}");
    }
}
