//! HAProxy 2.6 or newer, by its runtime API (`stats socket … level admin`): pods are dynamic servers of a backend.
//!
//! What its behaviour asks of callers:
//!
//! * Dynamic servers live in the process. A restart or a reload loses them all; the next round registers them again. After a
//!   reload the *old* process may still have sessions to a pod, which no count of the new one contains.
//! * `drain` still lets sessions in that stick to a server by a stick table. `maint` lets none in; that is [`Provider::close`].
//! * A dynamic server with `check` serves as soon as it is ready, before its first check. Make pods ready that are ready.
//! * A backend's `default-server` does not apply to dynamic servers: give their settings as [`Keywords`].
//! * Backends with a static algorithm (`source`, `uri`, `static-rr`, … without `hash-type consistent`) take no dynamic server.

mod answer;
mod endpoint;
mod exchange;
#[doc(hidden)]
pub mod fuzz;
mod keywords;
mod listing;

use std::net::SocketAddr;
use std::time::Duration;

use crate::{Mark, PoolName, Provider, ProviderError, Server, ServerName, Weight};

use answer::Target;
pub use endpoint::{Endpoint, EndpointError};
pub use keywords::{InvalidKeywords, Keywords};

/// For one command and its answer. HAProxy answers within milliseconds; a busy one may take longer for a big backend.
const LIMIT: Duration = Duration::from_secs(5);

/// One HAProxy process.
#[derive(Clone, Debug)]
pub struct HaProxy {
    endpoint: Endpoint,
    mark: Mark,
    keywords: Keywords,
    limit: Duration,
}

impl HaProxy {
    /// The process behind this socket. Servers are registered with `mark` in their names, and with `keywords`.
    #[must_use]
    pub const fn new(endpoint: Endpoint, mark: Mark, keywords: Keywords) -> Self {
        Self { endpoint, mark, keywords, limit: LIMIT }
    }

    /// With another limit of time for each command.
    #[must_use]
    pub const fn with_limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    async fn ask(&self, command: &str) -> Result<String, ProviderError> {
        exchange::ask(&self.endpoint, command, self.limit).await
    }

    /// Sends a command that says nothing when it has done what it should.
    async fn tell(&self, target: Target<'_>, command: &str) -> Result<(), ProviderError> {
        answer::quiet(target, command, &self.ask(command).await?)
    }
}

impl Provider for HaProxy {
    async fn read(&self, pool: &PoolName) -> Result<Vec<Server>, ProviderError> {
        // On one connection, so that both answers are of one process even during a reload. Sessions are counted after the states were
        // read: a server that was closed then got no session since. -1: all servers; 4: servers only.
        let command = format!("show servers state {pool};show stat {pool} 4 -1");
        listing::servers(pool, &self.mark, &command, &self.ask(&command).await?)
    }

    async fn register(&self, pool: &PoolName, address: SocketAddr, weight: Weight) -> Result<(), ProviderError> {
        let server = self.mark.name_of(address);
        let command = format!("add server {pool}/{server} {address} weight {weight}{}", self.keywords.after_a_space());
        answer::says("New server registered.", Target { pool, server: &server }, &command, &self.ask(&command).await?)
    }

    async fn set_weight(&self, pool: &PoolName, server: &ServerName, weight: Weight) -> Result<(), ProviderError> {
        self.tell(Target { pool, server }, &format!("set server {pool}/{server} weight {weight}")).await
    }

    async fn ready(&self, pool: &PoolName, server: &ServerName, weight: Weight) -> Result<(), ProviderError> {
        self.set_weight(pool, server, weight).await?;
        let target = Target { pool, server };
        if self.keywords.check() {
            // `add server … check` leaves the check switched off.
            self.tell(target, &format!("enable health {pool}/{server}")).await?;
        }
        self.tell(target, &format!("set server {pool}/{server} state ready")).await
    }

    async fn drain(&self, pool: &PoolName, server: &ServerName) -> Result<(), ProviderError> {
        self.tell(Target { pool, server }, &format!("set server {pool}/{server} state drain")).await
    }

    async fn close(&self, pool: &PoolName, server: &ServerName) -> Result<(), ProviderError> {
        self.tell(Target { pool, server }, &format!("set server {pool}/{server} state maint")).await
    }

    async fn deregister(&self, pool: &PoolName, server: &ServerName) -> Result<(), ProviderError> {
        let command = format!("del server {pool}/{server}");
        answer::says("Server deleted.", Target { pool, server }, &command, &self.ask(&command).await?)
    }
}
