//! A load balancer outside of the cluster, and the part of a controller that drives it. It behaves like HAProxy: a server that drains may
//! have sessions still, one that was restarted has lost all servers. It is now and then away.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hitless_api::TrafficProvider;
use hitless_balancer::{Mark, Observation, Owner, ProviderError, Server, ServerState, Step, Weight, steps};
use hitless_controller::traffic::{Seen, reading, wanted};
use hitless_rollout::pools::{DesiredPool, PoolKey, PoolReading, ProviderView};
use hitless_rollout::snapshot::Version;
use hitless_workloads::Write;
use hitless_world::review;
use serde_json::json;

use crate::chance::Chance;
use crate::clock::{MS, Micros, NEVER, SECOND};
use crate::server::Refusal;

/// Name of its TrafficProvider.
pub(crate) const PROVIDER: &str = "edge";
/// Its pools are called `p0`, `p1`, …
pub(crate) const POOLS: usize = 8;
/// While something is on its way it is read again after so long.
const BUSY: Micros = 50 * MS;

/// A server of a pool.
#[derive(Clone, Copy)]
struct Model {
    state: ServerState,
    /// Sessions are open until then.
    open_until: Micros,
}

/// A time in which it is away.
struct Outage {
    from: Micros,
    to: Micros,
    /// Its process has ended: nobody gets a session, and it has lost its servers when it is back.
    is_dead: bool,
}

pub(crate) struct Balancer {
    pub(crate) providers: Vec<Arc<ProviderView>>,
    servers: BTreeMap<(String, SocketAddr), Model>,
    outages: Vec<Outage>,
    chance: Chance,
    /// Counts its changes.
    version: u64,
    start: Instant,
}

/// The address of a pod: nobody else ever gets it.
pub(crate) fn ip(uid: &str) -> IpAddr {
    let mut hasher = DefaultHasher::new();
    uid.hash(&mut hasher);
    IpAddr::V6(Ipv6Addr::from(0xfd00_0000_0000_0000_0000_0000_0000_0000 | u128::from(hasher.finish())))
}

impl Balancer {
    /// Of chance of its own, so that seeds of before keep their meaning.
    pub(crate) fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed.rotate_left(17));
        let pools: Vec<_> = (0..POOLS).map(|index| json!({"name": format!("p{index}"), "namespaces": ["*"]})).collect();
        let provider = json!({"apiVersion": "hitless.dev/v1alpha1", "kind": "TrafficProvider",
            "metadata": {"name": PROVIDER, "uid": "uid-edge"}, "spec": {"haproxy": {"endpoint": "tcp://lb:9999"}, "pools": pools}});
        let provider: Result<TrafficProvider, _> = serde_json::from_value(provider);
        let (mut outages, mut at) = (Vec::new(), 0);
        for _ in 0..chance.index(4) {
            let from = at + chance.delay(SECOND, 300 * SECOND);
            at = from + chance.delay(100 * MS, 60 * SECOND);
            outages.push(Outage { from, to: at, is_dead: chance.happens(5_000) });
        }
        Self {
            providers: provider.into_iter().map(|each| Arc::new(each.into())).collect(),
            servers: BTreeMap::new(),
            outages,
            chance,
            version: 0,
            start: Instant::now(),
        }
    }

    /// What a controller says of its pools.
    pub(crate) fn report(&mut self, write: &Write, resource_version: String) -> Result<(), Refusal> {
        let mut named = self.providers.iter_mut().filter(|known| known.name == write.on.name);
        let known = named.next().ok_or(Refusal::Gone)?;
        review(write, Some(&known.version))?;
        let version = Version { resource_version, ..known.version.clone() };
        *known = Arc::new(ProviderView { version, status: write.content("/status"), ..(**known).clone() });
        Ok(())
    }

    /// A pool for a Service; most have one.
    pub(crate) fn pool(&mut self) -> Option<usize> {
        let index = self.chance.index(POOLS);
        self.chance.happens(8_000).then_some(index)
    }

    fn instant(&self, now: Micros) -> Instant {
        self.start + Duration::from_micros(now.unsigned_abs())
    }

    fn outage(&self, now: Micros) -> Option<&Outage> {
        self.outages.iter().find(|outage| outage.from <= now && now < outage.to)
    }

    /// What it has lost by now is gone.
    fn pass_to(&mut self, now: Micros) {
        let over = self.outages.iter().position(|outage| outage.to <= now);
        if let Some(outage) = over.map(|index| self.outages.remove(index))
            && outage.is_dead
        {
            self.servers.clear();
            self.version += 1;
        }
    }

    /// When it goes away or comes back next.
    fn next_change(&self, now: Micros) -> Micros {
        let times = self.outages.iter().flat_map(|outage| [outage.from, outage.to]);
        times.filter(|at| *at > now).min().unwrap_or(NEVER)
    }

    /// Whether somebody at this address gets sessions, or has some.
    pub(crate) fn serves(&self, ip: &str, now: Micros) -> bool {
        let Ok(ip) = ip.parse::<IpAddr>() else { return false };
        let is_dead = self.outage(now).is_some_and(|outage| outage.is_dead)
            || self.outages.iter().any(|outage| outage.is_dead && outage.to <= now);
        let mut here = self.servers.iter().filter(|((_, address), _)| address.ip() == ip);
        !is_dead && here.any(|(_, model)| model.state == ServerState::Ready || now < model.open_until)
    }

    fn read(&self, pool: &str, now: Micros) -> Observation {
        if self.outage(now).is_some() {
            let error = ProviderError::Unexpected { request: "show".to_owned(), why: "it is away".to_owned() };
            return Observation::new(Err(error), self.instant(now));
        }
        let Ok(mark) = Mark::new("hitless") else { return Observation::new(Ok(Vec::new()), self.instant(now)) };
        let own = self.servers.iter().filter(|((known, _), _)| known == pool);
        let server = |((_, address), model): (&(String, SocketAddr), &Model)| Server {
            name: mark.name_of(*address),
            address: Some(*address),
            state: model.state,
            weight: Weight::ONE.get(),
            sessions: Some(u32::from(now < model.open_until || model.state == ServerState::Ready)),
            owner: Owner::Us,
        };
        Observation::new(Ok(own.map(server).collect()), self.instant(now))
    }

    fn take(&mut self, pool: &str, step: &Step, now: Micros) {
        let Ok(mark) = Mark::new("hitless") else { return };
        self.version += 1;
        if let Step::Register { address, .. } = step {
            let model = Model { state: ServerState::Maintenance, open_until: 0 };
            self.servers.insert((pool.to_owned(), *address), model);
            return;
        }
        let (Step::SetWeight { server, .. }
        | Step::MakeReady { server, .. }
        | Step::Drain { server }
        | Step::Close { server }
        | Step::Deregister { server }) = step
        else {
            return;
        };
        let Some(address) = mark.address_of(server) else { return };
        let at = (pool.to_owned(), address);
        let longest = if self.chance.happens(9_000) { 2 * SECOND } else { 30 * SECOND };
        let open_until = now + self.chance.delay(0, longest);
        match (step, self.servers.get_mut(&at)) {
            (Step::MakeReady { .. }, Some(model)) => model.state = ServerState::Ready,
            (Step::Drain { .. }, Some(model)) => *model = Model { state: ServerState::Draining, open_until },
            (Step::Close { .. }, Some(model)) => model.state = ServerState::Maintenance,
            (Step::Deregister { .. }, _) => _ = self.servers.remove(&at),
            _ => {}
        }
    }
}

/// The part of a controller that drives it.
#[derive(Default)]
pub(crate) struct Driver {
    orders: Vec<DesiredPool>,
    pub(crate) seen: BTreeMap<PoolKey, PoolReading>,
    next: Micros,
    version: u64,
}

impl Driver {
    /// What a round wants.
    pub(crate) fn follow(&mut self, orders: Vec<DesiredPool>, now: Micros) {
        if self.orders != orders {
            self.orders = orders;
            self.next = now;
        }
    }

    pub(crate) fn wake(&self, balancer: &Balancer, now: Micros) -> Micros {
        if self.version == balancer.version { self.next } else { self.next.min(now) }
    }

    /// One step for each pool that needs one, so that a process may die between two; whether the next round is told something else.
    pub(crate) fn drive(&mut self, balancer: &mut Balancer, now: Micros) -> bool {
        balancer.pass_to(now);
        self.next = balancer.next_change(now);
        let mut seen = BTreeMap::new();
        for order in &self.orders {
            let (pool, at) = (order.key.pool.as_str(), balancer.instant(now));
            let all = wanted(&order.backends);
            let plan = steps(&all, &balancer.read(pool, now), at);
            if let Some(step) = plan.steps.first() {
                balancer.take(pool, step, now);
                self.next = self.next.min(now + BUSY);
            }
            let observation = balancer.read(pool, now);
            let own = balancer.servers.iter().filter(|((known, _), _)| known == pool);
            let ends = own.filter(|(_, model)| model.state != ServerState::Ready && model.open_until > now);
            self.next = ends.map(|(_, model)| model.open_until).fold(self.next, Micros::min).max(now + MS);
            let of_pool = reading(&Seen { observation, told: order.backends.clone() }, at);
            seen.insert(order.key.clone(), of_pool);
        }
        self.version = balancer.version;
        let is_new = self.seen != seen;
        self.seen = seen;
        is_new
    }
}
