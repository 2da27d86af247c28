//! The seam to load balancers, and the one round around it.

use std::future::Future;
use std::net::SocketAddr;
use std::time::Instant;

use crate::{Observation, Plan, PoolName, ProviderError, Server, ServerName, Step, Wanted, Weight, steps};

/// One kind of load balancer. Each call is bounded in time and in what it takes of an answer. An error says nothing about whether
/// the call took effect: read again. All calls may be repeated.
pub trait Provider: Send + Sync {
    /// All servers of a pool: all of them, or an error.
    fn read(&self, pool: &PoolName) -> impl Future<Output = Result<Vec<Server>, ProviderError>> + Send;

    /// Registers a server with our mark. It gets no session before [`Self::ready`] where the provider can do that.
    fn register(
        &self,
        pool: &PoolName,
        address: SocketAddr,
        weight: Weight,
    ) -> impl Future<Output = Result<(), ProviderError>> + Send;

    /// Changes its share of new sessions.
    fn set_weight(
        &self,
        pool: &PoolName,
        server: &ServerName,
        weight: Weight,
    ) -> impl Future<Output = Result<(), ProviderError>> + Send;

    /// Lets sessions in.
    fn ready(
        &self,
        pool: &PoolName,
        server: &ServerName,
        weight: Weight,
    ) -> impl Future<Output = Result<(), ProviderError>> + Send;

    /// Lets no new session in, except those that stick to the server. Open ones go on.
    fn drain(&self, pool: &PoolName, server: &ServerName) -> impl Future<Output = Result<(), ProviderError>> + Send;

    /// Lets no session in at all. Providers without sessions that stick have nothing to do.
    fn close(&self, pool: &PoolName, server: &ServerName) -> impl Future<Output = Result<(), ProviderError>> + Send;

    /// Deletes it. Only for servers of ours.
    fn deregister(
        &self,
        pool: &PoolName,
        server: &ServerName,
    ) -> impl Future<Output = Result<(), ProviderError>> + Send;
}

/// What a round has done.
#[derive(Debug)]
pub struct Round {
    /// What was decided.
    pub plan: Plan,
    /// What was decided and not done. After a step that found the provider away the others are not tried and not listed.
    pub failed: Vec<Failed>,
    /// The pool after the last step. Evidence comes from here: a reading from before a step proves nothing after it.
    pub observation: Observation,
}

/// A step that the provider did not take.
#[derive(Debug)]
pub struct Failed {
    /// The step.
    pub step: Step,
    /// Why not.
    pub error: ProviderError,
}

/// Reads a pool.
pub async fn observe(provider: &impl Provider, pool: &PoolName) -> Observation {
    let at = Instant::now();
    Observation::new(provider.read(pool).await, at)
}

/// Takes one step.
pub async fn carry_out(provider: &impl Provider, pool: &PoolName, step: &Step) -> Result<(), ProviderError> {
    match step {
        Step::Register { address, weight } => provider.register(pool, *address, *weight).await,
        Step::SetWeight { server, weight } => provider.set_weight(pool, server, *weight).await,
        Step::MakeReady { server, weight } => provider.ready(pool, server, *weight).await,
        Step::Drain { server } => provider.drain(pool, server).await,
        Step::Close { server } => provider.close(pool, server).await,
        Step::Deregister { server } => provider.deregister(pool, server).await,
    }
}

/// Reads, decides, acts, and reads again. Ask for the next one until the plan has no steps.
pub async fn round(provider: &impl Provider, pool: &PoolName, wanted: &[Wanted]) -> Round {
    let observation = observe(provider, pool).await;
    let plan = steps(wanted, &observation, Instant::now());
    if plan.steps.is_empty() {
        return Round { plan, failed: Vec::new(), observation };
    }
    let mut failed = Vec::new();
    for step in &plan.steps {
        if let Err(error) = carry_out(provider, pool, step).await {
            // A provider that does not answer would take the limit of time for each of the other steps, too.
            let away = error.is_away();
            failed.push(Failed { step: step.clone(), error });
            if away {
                break;
            }
        }
    }
    Round { plan, failed, observation: observe(provider, pool).await }
}
