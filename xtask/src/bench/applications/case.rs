//! What a case consists of.

use hitless_e2e::Stack;
use hitless_e2e::app::{Shape, Workload};
use hitless_e2e::servers::Server;
use hitless_e2e::stack::image;
use hitless_e2e::traffic::Rate;
use json_patch::merge;
use serde_json::{Value, json};

use super::client::Script;

/// An application, and what its owner does to it.
pub(super) struct Case {
    /// For people, and part of its namespaces' names.
    pub(super) name: &'static str,
    pub(super) kind: Workload,
    pub(super) replicas: u32,
    /// The name of its image, without registry and tag.
    pub(super) repository: &'static str,
    /// Merged into the workload's JSON.
    pub(super) patch: Value,
    /// Objects beside it in that namespace, before the first rollout (0) and before each one (1 …).
    pub(super) beside: fn(&str, usize) -> Vec<Value>,
    pub(super) change: Change,
    /// A load beside the usual one.
    pub(super) also: Option<Rate>,
    /// A script for Node whose requests count, too ([`super::client`]).
    pub(super) client: Option<Script>,
    /// The usual clients come, too: they speak HTTP/1.1.
    pub(super) is_http: bool,
    /// Clients come to this port of a pod's node, and not to the Service.
    pub(super) node_port: Option<u16>,
    /// What somebody does to the cluster beside it.
    pub(super) by_hand: fn(&Stack, Moment) -> anyhow::Result<()>,
    /// What is done by hand is felt by all that run on the cluster.
    pub(super) is_alone: bool,
    pub(super) brought: Brought,
}

/// What a rollout is.
#[derive(Clone, Copy)]
pub(super) enum Change {
    /// `kubectl set image` of container `web`: v2 and v1 take turns.
    Image,
    /// `kubectl rollout restart`.
    Restart,
    /// A strategic merge patch of the workload, for each rollout.
    Patch(fn(usize) -> Value),
}

/// When something is done by hand.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// Nothing of it is there yet.
    Before,
    /// The application serves.
    Serving,
    /// A rollout has just been asked for.
    Rolling,
    /// All rollouts are over.
    Over,
}

/// What is true of a rollout that has brought what was wanted.
#[derive(Clone, Copy)]
pub(super) enum Brought {
    /// Each pod is Ready, runs the images of the template, and what was to be started anew was.
    Pods,
    /// That, and the Service answers this.
    Answer(fn(usize) -> String),
    /// That, and in each pod this container has this image.
    Container(&'static str, fn(usize) -> String),
}

impl Case {
    /// A Deployment of three replicas of that image, with a new image each time.
    pub(super) fn new(name: &'static str, repository: &'static str) -> Self {
        Self {
            name,
            kind: Workload::Deployment,
            replicas: 3,
            repository,
            patch: Value::Null,
            beside: |_, _| Vec::new(),
            change: Change::Image,
            also: None,
            client: None,
            is_http: true,
            node_port: None,
            by_hand: |_, _| Ok(()),
            is_alone: false,
            brought: Brought::Pods,
        }
    }

    /// The reference server.
    pub(super) fn echo(name: &'static str) -> Self {
        Self::new(name, "echo")
    }

    /// A script for Node.
    pub(super) fn node(name: &'static str, script: &str) -> Self {
        Self::new(name, "server-node").pod(&json!({"containers": [node(script)]}))
    }

    pub(super) fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    pub(super) fn lone(self) -> Self {
        Self { replicas: 1, ..self }
    }

    pub(super) fn replicas(self, replicas: u32) -> Self {
        Self { replicas, ..self }
    }

    pub(super) fn of(self, kind: Workload) -> Self {
        // On each of the cluster's nodes.
        let replicas = if kind == Workload::DaemonSet { 2 } else { self.replicas };
        Self { kind, replicas, ..self }
    }

    pub(super) fn change(self, change: Change) -> Self {
        Self { change, ..self }
    }

    pub(super) fn beside(self, beside: fn(&str, usize) -> Vec<Value>) -> Self {
        Self { beside, ..self }
    }

    pub(super) fn brought(self, brought: Brought) -> Self {
        Self { brought, ..self }
    }

    pub(super) fn also(self, rate: Rate) -> Self {
        Self { also: Some(rate), ..self }
    }

    pub(super) fn client(self, script: Script) -> Self {
        Self { client: Some(script), ..self }
    }

    pub(super) fn without_http(self) -> Self {
        Self { is_http: false, ..self }
    }

    pub(super) fn by_hand(self, by_hand: fn(&Stack, Moment) -> anyhow::Result<()>) -> Self {
        Self { by_hand, ..self }
    }

    pub(super) fn alone(self) -> Self {
        Self { is_alone: true, ..self }
    }

    pub(super) fn at_node_port(self, port: u16) -> Self {
        Self { node_port: Some(port), ..self }
    }

    /// The pods' spec has this.
    pub(super) fn pod(mut self, spec: &Value) -> Self {
        merge(&mut self.patch["spec"]["template"]["spec"], spec);
        self
    }

    /// The workload's spec has this.
    pub(super) fn spec(mut self, spec: &Value) -> Self {
        merge(&mut self.patch["spec"], spec);
        self
    }

    /// The pods' metadata has this.
    pub(super) fn metadata(mut self, metadata: &Value) -> Self {
        merge(&mut self.patch["spec"]["template"]["metadata"], metadata);
        self
    }

    /// What has to be fetched from Debian: its image, and that of its client's script.
    pub(super) fn servers(&self) -> impl Iterator<Item = &'static Server> {
        let of_client = self.client.map(|_| "server-node").filter(|node| *node != self.repository);
        [Some(self.repository), of_client].into_iter().flatten().filter_map(Server::with_image)
    }

    /// Whether two of its workloads can't run at the same time, because both want the same port of each node.
    pub(super) fn takes_ports_of_nodes(&self) -> bool {
        let spec = &self.patch["spec"]["template"]["spec"];
        let list = |of: &Value, field: &str| of[field].as_array().cloned().unwrap_or_default();
        let takes = |container: &Value| list(container, "ports").iter().any(|port| port["hostPort"].is_u64());
        spec["hostNetwork"] == true || list(spec, "containers").iter().any(takes)
    }

    /// The application, opted in or not.
    pub(super) fn shape(&self, is_ours: bool) -> Shape {
        Shape {
            workload: self.kind,
            replicas: self.replicas,
            repository: self.repository.to_owned(),
            update: is_ours.then_some("in-place"),
            mode: None,
            gate: is_ours,
            patch: self.patch.clone(),
            ..Shape::default()
        }
    }
}

/// A server for Node that ends at once on SIGTERM.
pub(super) const PLAIN: &str =
    "process.on('SIGTERM',()=>process.exit());require('http').createServer((q,r)=>r.end()).listen(8080)";

/// That server with an emptyDir, after this at each start.
pub(super) fn with_state(name: &'static str, script: &str) -> Case {
    let mut web = node(&format!("{script}{PLAIN}"));
    web["volumeMounts"] = json!([{"name": "state", "mountPath": "/state"}]);
    Case::node(name, PLAIN).pod(&json!({"volumes": [{"name": "state", "emptyDir": {}}], "containers": [web]}))
}

/// Container `web` of the reference server, with more.
pub(super) fn echo(more: &Value) -> Value {
    let mut web = container("echo", "v1");
    merge(&mut web, more);
    web
}

/// Container `web` that runs a script for Node.
pub(super) fn node(script: &str) -> Value {
    let mut web = container("server-node", "v1");
    web["command"] = json!(["/usr/bin/node", "-e", script]);
    web
}

/// Container `web` of an image, with the usual port and probe.
pub(super) fn container(repository: &str, version: &str) -> Value {
    json!({"name": "web", "image": image(repository, version), "ports": [{"containerPort": 8080, "name": "http"}],
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 1}})
}

/// v2 in the first rollout, then v1, and so on.
pub(super) fn version(rollout: usize) -> &'static str {
    if rollout % 2 == 1 { "v2" } else { "v1" }
}
