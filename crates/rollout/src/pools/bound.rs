//! Which Services name which pools, and what is wrong with those that do not get one.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use hitless_api::pod::PodView;

use super::{BackendState, Owner, PoolKey, PoolReading, ProviderView};
use crate::mode::{Control, ServiceView, Target};

/// A Service and one of its pools.
struct Bound<'a> {
    service: &'a ServiceView,
    key: PoolKey,
    target: &'a Target,
}

/// Why a Service's pods are in no pool although it has the label.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// No annotation.
    #[error(
        "it has the label kusionstack.io/control and names no pool, so no load balancer outside of the cluster follows its pods; write the annotation hitless.dev/traffic: PROVIDER/POOL"
    )]
    NoPool,
    /// The annotation can't be understood.
    #[error(
        "its annotation hitless.dev/traffic says {0:?}; write PROVIDER/POOL, or PORT=PROVIDER/POOL where it has several ports, separated by commas"
    )]
    Unreadable(String),
    /// No such TrafficProvider.
    #[error("there is no TrafficProvider {0}; an administrator makes it (docs/balancers.md)")]
    NoProvider(String),
    /// The provider does not list the pool for this namespace.
    #[error(
        "TrafficProvider {} does not open pool {} to namespace {namespace}; an administrator adds it to spec.pools", .key.provider, .key.pool
    )]
    NotAdmitted {
        /// Which.
        key: PoolKey,
        /// The Service's.
        namespace: String,
    },
    /// Which port is meant is not said, or there is no such port.
    #[error("pool {key}: {why}")]
    Port {
        /// Which.
        key: PoolKey,
        /// What is wrong.
        why: String,
    },
}

impl Flaw {
    /// Whether somebody wanted a pool and does not get it: then its pods wait.
    #[must_use]
    pub const fn blocks(&self) -> bool {
        match self {
            Self::NoPool => false,
            Self::Unreadable(_) | Self::NoProvider(_) | Self::NotAdmitted { .. } | Self::Port { .. } => true,
        }
    }
}

/// Which Services name which pools, and which servers are there.
pub struct Pools<'a> {
    bound: BTreeMap<&'a str, Vec<Bound<'a>>>,
    /// Servers of ours, by their addresses. A pod whose server is there is in the pool, whoever names it now.
    registered: BTreeMap<IpAddr, BTreeSet<(&'a PoolKey, SocketAddr)>>,
    flaws: Vec<(&'a ServiceView, Flaw)>,
}

impl<'a> Pools<'a> {
    /// Of these Services and TrafficProviders, and of what their pools were read to have.
    #[must_use]
    pub fn of(
        services: &'a [Arc<ServiceView>],
        providers: &'a [Arc<ProviderView>],
        readings: &'a BTreeMap<PoolKey, PoolReading>,
    ) -> Self {
        let mut pools = Self { bound: BTreeMap::new(), registered: BTreeMap::new(), flaws: Vec::new() };
        for (key, reading) in readings {
            let PoolReading::Read(backends) = reading else { continue };
            for (address, backend) in backends {
                if backend.owner == Owner::Us && backend.state != BackendState::NotRegistered {
                    pools.registered.entry(address.ip()).or_default().insert((key, *address));
                }
            }
        }
        for service in services {
            let Some(control) = &service.control else { continue };
            match entries(service, control, providers) {
                Ok(bound) => pools.bound.entry(service.namespace.as_str()).or_default().extend(bound),
                Err(flaw) => pools.flaws.push((service, flaw)),
            }
        }
        pools
    }

    /// Services that name no pool, or none that they get.
    pub fn flaws(&self) -> impl Iterator<Item = (&'a ServiceView, &Flaw)> {
        self.flaws.iter().map(|(service, flaw)| (*service, flaw))
    }

    /// Whether nobody names any pool.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bound.is_empty() && self.flaws.is_empty() && self.registered.is_empty()
    }

    /// Keys of all pools that a Service names, and the Services.
    pub fn named(&self) -> impl Iterator<Item = (&PoolKey, &'a ServiceView)> {
        self.bound.values().flatten().map(|bound| (&bound.key, bound.service))
    }

    /// The pools that the pod is in or is to be in, with its address there.
    #[must_use]
    pub fn of_pod(&self, pod: &PodView) -> BTreeSet<(&PoolKey, SocketAddr)> {
        let mut all = self.named_by_services(pod);
        if !self.registered.is_empty()
            && let Some(there) = ip(pod).and_then(|ip| self.registered.get(&ip))
        {
            all.extend(there);
        }
        all
    }

    /// The pools that its Services name, with its address there.
    pub fn named_by_services(&self, pod: &PodView) -> BTreeSet<(&PoolKey, SocketAddr)> {
        let here = self.bound.get(pod.id.namespace.as_str()).map_or(&[] as &[Bound<'_>], Vec::as_slice);
        let Some(ip) = here.first().and_then(|_| ip(pod)) else { return BTreeSet::new() };
        let selecting = here.iter().filter(|bound| bound.service.selects(pod));
        let at = |bound: &Bound<'a>| bound.service.port(pod, bound.target).map(|port| SocketAddr::new(ip, port));
        selecting.filter_map(|bound| Some((&bound.key, at(bound)?))).collect()
    }

    /// A Service that selects the pod, and that wants a pool and does not get it.
    #[must_use]
    pub fn flaw_of(&self, pod: &PodView) -> Option<(&'a ServiceView, &Flaw)> {
        self.flaws().find(|(service, flaw)| flaw.blocks() && service.selects(pod))
    }
}

fn ip(pod: &PodView) -> Option<IpAddr> {
    pod.ip.as_ref()?.parse().ok()
}

/// The pools that the Service names.
fn entries<'a>(
    service: &'a ServiceView,
    control: &'a Control,
    providers: &[Arc<ProviderView>],
) -> Result<Vec<Bound<'a>>, Flaw> {
    let text = control.pools.as_deref().ok_or(Flaw::NoPool)?;
    let unreadable = || Flaw::Unreadable(text.to_owned());
    let mut all = Vec::new();
    for entry in text.split(',').map(str::trim) {
        let (port, pool) = entry.split_once('=').map_or((None, entry), |(port, pool)| (Some(port.trim()), pool.trim()));
        let (provider, pool) = pool.split_once('/').ok_or_else(unreadable)?;
        if provider.is_empty() || pool.is_empty() || pool.contains(['/', ' ']) {
            return Err(unreadable());
        }
        let key = PoolKey { provider: provider.to_owned(), pool: pool.to_owned() };
        let known = providers.iter().find(|known| known.name == provider);
        let known = known.ok_or_else(|| Flaw::NoProvider(provider.to_owned()))?;
        let admits = known.spec.pools.iter().any(|each| each.name == pool && each.admits(&service.namespace));
        if !admits {
            return Err(Flaw::NotAdmitted { key, namespace: service.namespace.clone() });
        }
        match target(control, port) {
            Ok(target) => all.push(Bound { service, key, target }),
            Err(why) => return Err(Flaw::Port { key, why }),
        }
    }
    Ok(all)
}

fn target<'a>(control: &'a Control, port: Option<&str>) -> Result<&'a Target, String> {
    match (port, control.ports.as_slice()) {
        (None, [(_, only)]) => Ok(only),
        (None, []) => Err("the Service has no TCP port".to_owned()),
        (None, _) => Err("the Service has several ports; say which one, as in http=PROVIDER/POOL".to_owned()),
        (Some(name), ports) => {
            let known = ports.iter().find(|(known, _)| known.as_deref() == Some(name));
            known.map(|(_, target)| target).ok_or_else(|| format!("the Service has no TCP port of the name {name}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hitless_api::TrafficProvider;
    use k8s_openapi::api::core::v1::{Pod, Service};
    use serde_json::{Value, json};

    fn provider() -> Arc<ProviderView> {
        let object = json!({"apiVersion": "hitless.dev/v1alpha1", "kind": "TrafficProvider", "metadata": {"name": "edge"}, "spec": {
            "haproxy": {"endpoint": "tcp://10.0.0.9:9999"}, "pools": [{"name": "shop", "namespaces": ["shop"]}]}});
        Arc::new(serde_json::from_value::<TrafficProvider>(object).unwrap().into())
    }

    fn service(pools: Option<&str>, ports: &Value) -> Arc<ServiceView> {
        let annotations = pools.map(|pools| json!({"hitless.dev/traffic": pools})).unwrap_or_default();
        let service = json!({"metadata": {"namespace": "shop", "name": "web", "annotations": annotations,
            "labels": {"kusionstack.io/control": "true"}}, "spec": {"selector": {"app": "web"}, "ports": ports}});
        Arc::new(ServiceView::from(&serde_json::from_value::<Service>(service).unwrap()))
    }

    fn pod() -> PodView {
        let pod: Pod = serde_json::from_value(json!({"metadata": {"namespace": "shop", "labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "ports": [{"containerPort": 8080, "name": "web"}]}]},
            "status": {"podIP": "10.1.0.5"}}))
        .unwrap();
        PodView::from(&pod)
    }

    #[test]
    fn a_pod_is_in_the_pool_that_its_service_names_at_its_own_address_and_port() {
        let (providers, none) = ([provider()], BTreeMap::new());
        for (pools, ports) in [
            ("edge/shop", json!([{"port": 80, "targetPort": "web"}])),
            ("edge/shop", json!([{"port": 80, "targetPort": 8080}, {"port": 53, "protocol": "UDP", "name": "dns"}])),
            ("b = edge/shop", json!([{"name": "a", "port": 1}, {"name": "b", "port": 8080}])),
        ] {
            let services = [service(Some(pools), &ports)];
            let bound = Pools::of(&services, &providers, &none);
            let at: Vec<String> = bound.of_pod(&pod()).iter().map(|(key, at)| format!("{key} {at}")).collect();
            assert_eq!(at, ["edge/shop 10.1.0.5:8080"], "{pools}");
        }
        let other = PodView { labels: BTreeMap::new().into(), ..pod() };
        let services = [service(Some("edge/shop"), &json!([{"port": 80}]))];
        assert!(Pools::of(&services, &providers, &none).of_pod(&other).is_empty());
    }

    #[test]
    fn a_service_that_gets_no_pool_is_told_why() {
        let (providers, none) = ([provider()], BTreeMap::new());
        let one = json!([{"port": 80}]);
        let two = json!([{"name": "a", "port": 1}, {"name": "b", "port": 2}]);
        for (pools, ports, words, blocks) in [
            (None, &one, "names no pool", false),
            (Some("edge"), &one, "write PROVIDER/POOL", true),
            (Some("edge/shop,"), &one, "write PROVIDER/POOL", true),
            (Some("http://x/y"), &one, "write PROVIDER/POOL", true),
            (Some("core/shop"), &one, "no TrafficProvider core", true),
            (Some("edge/bank"), &one, "does not open pool bank to namespace shop", true),
            (Some("edge/shop"), &two, "several ports", true),
            (Some("c=edge/shop"), &two, "no TCP port of the name c", true),
            (Some("edge/shop"), &json!([]), "no TCP port", true),
        ] {
            let services = [service(pools, ports)];
            let bound = Pools::of(&services, &providers, &none);
            let (_, flaw) = bound.flaws().next().expect(words);
            assert!(flaw.to_string().contains(words), "{flaw}");
            assert_eq!(bound.flaw_of(&pod()).is_some(), blocks, "{flaw}");
            assert!(bound.of_pod(&pod()).is_empty());
        }
    }
}
