//! Puts back what hitless may have left in other people's objects: holds of workloads, open Services, our labels, pods out of service,
//! pods of our own. For an uninstall, and for `kubectl hitless cleanup` where no controller is left that could do it.
//!
//! Every write is conditional, so several may do this at the same time.

mod carry_out;
mod companions;
mod read;
mod wanted;

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use hitless_api::{ObjectRef, PodRef};
use hitless_runtime::write::{WriteError, Writes};
use hitless_workloads::object::ReadError;
use hitless_workloads::{Component, Write, registry};
use kube::Client;
use tokio::time::{Instant, sleep};

/// Between two passes.
const PAUSE: Duration = Duration::from_millis(200);
/// An agent may still be at work when the first pass is made.
const QUIET: Duration = Duration::from_secs(2);

/// Why something could not be put back, or not be looked at.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// A list failed.
    #[error("reading {what}: {error}")]
    Read {
        /// The resource, such as `services`.
        what: &'static str,
        /// What the API server says.
        #[source]
        error: WriteError,
    },
    /// A write failed.
    #[error("{what}: {error}")]
    Write {
        /// The write in words.
        what: String,
        /// What the API server says.
        #[source]
        error: WriteError,
    },
    /// What the API server sent is no JSON.
    #[error("an object is no JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// An object of a kind that is not as the kind has it.
    #[error("{name} cannot be understood, and is left as it is: {error}")]
    Parse {
        /// Resource, namespace and name.
        name: String,
        /// What is wrong with it.
        #[source]
        error: ReadError,
    },
}

/// One write that puts something back.
#[derive(Debug, PartialEq)]
pub enum Restore {
    /// Lifts a hold, takes our labels off, closes a Service that was opened for a Hold, or deletes a pod of ours that serves nobody.
    Write(Box<Write>),
    /// A pod that is out of service, or that nobody has put in service yet.
    Raise {
        /// The pod.
        pod: PodRef,
        /// As it was seen.
        resource_version: String,
    },
    /// A companion pod that serves, once others do.
    Lower {
        /// The pod.
        pod: PodRef,
        /// As it was seen.
        resource_version: String,
    },
}

impl Restore {
    /// A pod of ours is deleted.
    fn delete(pod: &PodRef) -> Self {
        Self::Write(Box::new(Write::delete_helper("delete", pod, None, None)))
    }

    /// Whether it is about a workload of a kind that the guard holds, or a part of one.
    fn is_of_a_held_kind(&self) -> bool {
        match self {
            Self::Write(write) => {
                let kind = &write.on.group_kind;
                let is_held = registry::of_workload(kind).is_none_or(|kind| kind.guard().is_some());
                registry::resource(kind).is_some() && is_held
            }
            Self::Raise { .. } | Self::Lower { .. } => false,
        }
    }
}

impl fmt::Display for Restore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write(write) => {
                let ObjectRef { group_kind, namespace, name, .. } = &write.on;
                match (&*group_kind.group, &*group_kind.kind) {
                    ("", "Service") => {
                        write!(f, "Service {namespace}/{name}: publishNotReadyAddresses as its owner has it")
                    }
                    ("", "Pod") => write!(f, "Pod {namespace}/{name} (made by hitless): {}", write.verb),
                    _ => write!(f, "{group_kind} {namespace}/{name}: {}", write.verb),
                }
            }
            Self::Raise { pod, .. } => write!(f, "Pod {}/{}: back in service", pod.namespace, pod.name),
            Self::Lower { pod, .. } => write!(f, "Pod {}/{} (companion): out of service", pod.namespace, pod.name),
        }
    }
}

/// What there is to put back now.
#[derive(Debug, Default)]
pub struct Found {
    /// In the order in which it is put back.
    pub wanted: Vec<Restore>,
    /// Companion pods that are waited for, and why.
    pub waiting: Vec<(PodRef, &'static str)>,
    /// What failed. The rest is there all the same: one resource that cannot be read, or what one object's owner refuses, is no reason
    /// to leave another's pods out of service.
    pub failed: Vec<RestoreError>,
}

impl Found {
    fn take<T: Default>(&mut self, answer: Result<T, RestoreError>) -> T {
        answer.unwrap_or_else(|error| {
            self.failed.push(error);
            T::default()
        })
    }
}

/// What a pass did.
#[derive(Debug, Default)]
pub struct Passed {
    /// Objects that were changed, by us or by somebody who was faster.
    pub changed: Vec<Restore>,
    /// Companion pods that are waited for, and why.
    pub waiting: Vec<(PodRef, &'static str)>,
    /// What failed.
    pub failed: Vec<RestoreError>,
}

impl Passed {
    /// Whether there was nothing to do, and nothing is waited for.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.changed.is_empty() && self.waiting.is_empty() && self.failed.is_empty()
    }
}

/// Where to put things back, and with whose rights.
pub struct Restorer {
    client: Client,
    components: Vec<&'static Component>,
    /// `None`: all of them.
    namespace: Option<String>,
    leaves_workloads: bool,
    writes: Writes,
}

impl Restorer {
    /// In all namespaces, for the kinds of these components.
    #[must_use]
    pub fn new(client: Client, components: Vec<&'static Component>, writes: Writes) -> Self {
        Self { client, components, namespace: None, leaves_workloads: false, writes }
    }

    /// Only in this one.
    #[must_use]
    pub fn only_in(mut self, namespace: String) -> Self {
        self.namespace = Some(namespace);
        self
    }

    /// Workloads that the guard holds, and their parts, stay as they are: pods and Services are put back, and the finalizers go of
    /// objects that nobody else would let go.
    #[must_use]
    pub fn leaving_workloads(mut self) -> Self {
        self.leaves_workloads = true;
        self
    }

    /// Puts back what is to be put back now.
    pub async fn pass(&self) -> Passed {
        let mut found = self.look().await;
        found.wanted.retain(|restore| !(self.leaves_workloads && restore.is_of_a_held_kind()));
        self.carry_out_all(found).await
    }

    async fn carry_out_all(&self, found: Found) -> Passed {
        let mut passed = Passed { changed: Vec::new(), waiting: found.waiting, failed: found.failed };
        for restore in found.wanted {
            match self.carry_out(&restore).await {
                // What somebody else changed meanwhile is for the next pass, which comes in any case: it counts as changed.
                Ok(()) => passed.changed.push(restore),
                Err(error) if error.is_stale() => passed.changed.push(restore),
                Err(error) => passed.failed.push(RestoreError::Write { what: restore.to_string(), error }),
            }
        }
        passed
    }

    /// Passes until there has been nothing to do for two seconds; `told` hears of each.
    pub async fn until_quiet(&self, mut told: impl FnMut(&Passed)) {
        let mut quiet_since = Instant::now();
        while quiet_since.elapsed() < QUIET {
            let passed = self.pass().await;
            told(&passed);
            if !passed.is_quiet() {
                quiet_since = Instant::now();
            }
            sleep(PAUSE).await;
        }
    }

    /// Closes Services that no operation needs open any more; `live` are the ids of grants that are not finished. For a controller that
    /// leaves without a successor while its agents go on. Says whether any Service was open.
    pub async fn close_ended(&self, live: &BTreeSet<String>) -> (bool, Passed) {
        let (is_open, found) = self.look_at_open(live).await;
        (is_open, self.carry_out_all(found).await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hitless_api::names;
    use kube::client::Body;
    use serde_json::json;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[tokio::test]
    async fn a_resource_that_cannot_be_read_keeps_nobody_from_raising_pods() {
        let raised = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&raised);
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let gates = json!({"containers": [], "readinessGates": [{"conditionType": names::IN_SERVICE}]});
            let pod =
                json!({"metadata": {"namespace": "a", "name": "p", "uid": "p", "resourceVersion": "1"}, "spec": gates});
            let path = request.uri().path();
            let (code, body) = if request.method() == http::Method::PATCH && path.ends_with("/pods/p/status") {
                counter.fetch_add(1, Ordering::Relaxed);
                (200, pod)
            } else if path.ends_with("/replicasets") {
                (500, json!({"kind": "Status", "status": "Failure", "code": 500, "message": "m"}))
            } else {
                let items = if path.ends_with("/pods") { vec![pod] } else { Vec::new() };
                (200, json!({"metadata": {}, "items": items}))
            };
            let body = Body::from(body.to_string().into_bytes());
            std::future::ready(http::Response::builder().status(code).body(body))
        });
        let restorer = Restorer::new(Client::new(service, "default"), Vec::new(), Writes::default());
        let passed = restorer.pass().await;
        assert_eq!((passed.changed.len(), raised.load(Ordering::Relaxed)), (1, 1));
        assert!(
            matches!(&passed.failed[..], [RestoreError::Read { what: "replicasets", .. }]),
            "Deployments wait for their parts: {:?}",
            passed.failed
        );
    }
}
