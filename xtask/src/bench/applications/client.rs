//! Clients that speak something other than HTTP/1.1: a script for Node in a pod of a namespace beside the application's.

use anyhow::{Context as _, ensure};
use hitless_e2e::stack::image;
use hitless_e2e::until::until_answered;
use hitless_e2e::{Kubectl, namespace};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

/// A script and its argument. It asks port 8080 of the Service [`service`], and prints twice a second what has come of that.
#[derive(Clone, Copy)]
pub(super) struct Script(&'static str, &'static str);

/// Datagrams.
pub(super) const DATAGRAMS: Script = Script(include_str!("clients/datagrams.js"), "");
/// HTTP/2 behind TLS.
pub(super) const HTTP2_OVER_TLS: Script = Script(include_str!("clients/http2.js"), "https");
/// HTTP/2 without TLS, by prior knowledge.
pub(super) const HTTP2_CLEARTEXT: Script = Script(include_str!("clients/http2.js"), "http");
/// Connections that have been upgraded from HTTP/1.1.
pub(super) const UPGRADED: Script = Script(include_str!("clients/pool.js"), "upgrade");
/// Connections of a protocol that nobody here knows.
pub(super) const QUERIES: Script = Script(include_str!("clients/pool.js"), "plain");

/// Databases' and brokers' own.
pub(super) const REDIS: Script = Script(include_str!("clients/pool.js"), "redis");
pub(super) const NATS: Script = Script(include_str!("clients/pool.js"), "nats");
pub(super) const POSTGRESQL: Script = Script(include_str!("clients/pool.js"), "postgresql");

const SERVICE: &str = "other";

/// The Service whose port the scripts ask, with this target.
pub(super) fn service(target: u16, protocol: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": SERVICE},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 8080, "targetPort": target, "protocol": protocol}]}})
}

/// Requests that are over since the script has begun.
#[derive(Clone, Copy, Default, Deserialize)]
pub(super) struct Sent {
    pub(super) requests: u64,
    pub(super) failed: u64,
    /// The longest time without an answer since the line before, or that lasts since an earlier one; 0 where a script does not say.
    #[serde(default)]
    longest_ms: u64,
}

impl Sent {
    pub(super) const fn since(self, before: Self) -> Self {
        let (requests, failed) = (self.requests - before.requests, self.failed - before.failed);
        Self { requests, failed, longest_ms: 0 }
    }
}

/// The namespace of the client of an application in this one.
pub(super) fn namespace_beside(namespace: &str) -> String {
    format!("{namespace}-client")
}

/// A script that runs.
pub(super) struct Client {
    space: Kubectl,
}

impl Client {
    /// Starts it, unless it runs since an earlier rollout, and waits until it has had answers.
    pub(super) fn start(of: &Kubectl, Script(source, argument): Script) -> anyhow::Result<Self> {
        let service = of.get(&["service", SERVICE])?;
        let address = service["spec"]["clusterIP"].as_str().context("the Service has no clusterIP")?;
        let space = of.in_namespace(&namespace_beside(of.namespace()));
        namespace::apply(&space, &json!({}))?;
        let command = ["/usr/bin/node", "-e", source, address, argument];
        let container = json!({"name": "client", "image": image("server-node", "v1"), "command": command});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "client"},
            "spec": {"terminationGracePeriodSeconds": 0, "containers": [container]}});
        space.feed(&["apply"], &pod)?;
        let client = Self { space };
        client.wait_for_more(100)?;
        Ok(client)
    }

    pub(super) fn sent(&self) -> anyhow::Result<Sent> {
        let line = self.space.run(&["logs", "client", "--tail=1"])?;
        serde_json::from_str(&line).with_context(|| format!("pod client says {line:?}"))
    }

    /// The longest time without an answer in what it has printed since then.
    pub(super) fn longest_ms(&self, since: Timestamp) -> anyhow::Result<u64> {
        let lines = self.space.run(&["logs", "client", &format!("--since-time={since}")])?;
        let sent = lines.lines().filter_map(|line| serde_json::from_str::<Sent>(line).ok());
        Ok(sent.map(|sent| sent.longest_ms).max().unwrap_or_default())
    }

    /// Waits until so many more requests are over, and returns all.
    pub(super) fn wait_for_more(&self, count: u64) -> anyhow::Result<Sent> {
        let wanted = self.sent().unwrap_or_default().requests + count;
        until_answered(|| {
            let sent = self.sent()?;
            ensure!(sent.requests >= wanted, "{} requests of {wanted} are over", sent.requests);
            Ok(sent)
        })
    }
}
