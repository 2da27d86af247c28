//! A Service as its owner has it, and what his tools make of the one in the API server.

use hitless_api::names::{annotations, labels};
use serde_json::{Value, json};

use crate::balancer;

/// What an owner does to his Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manage {
    /// `kubectl apply`, after this was made of `publishNotReadyAddresses` in the manifest.
    Apply(Option<bool>),
    /// `kubectl replace`, after the same.
    Replace(Option<bool>),
    /// `kubectl delete`; it is made anew later.
    Delete,
}

/// A Service's manifest.
#[derive(Clone, Debug)]
pub(crate) struct Manifest {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// The label by which it selects, and its value.
    pub(crate) selector: (String, String),
    pub(crate) headless: bool,
    /// It sends what comes to a node to pods of that node only.
    pub(crate) node_local: bool,
    /// Its port.
    pub(crate) port: u16,
    /// The port of the container that it names; else it leads to a number.
    pub(crate) by_name: Option<&'static str>,
    /// It is applied, so that the manifest stands in an annotation; others are created and replaced.
    pub(crate) applied: bool,
    /// `publishNotReadyAddresses`, if it says anything.
    pub(crate) open: Option<bool>,
    /// The pool of a load balancer outside of the cluster that it names.
    pub(crate) pool: Option<usize>,
    /// Counts how often it was made.
    made: u32,
}

const FIELD: &str = "publishNotReadyAddresses";

impl Manifest {
    pub(crate) fn new(namespace: &str, name: &str, selector: (&str, &str)) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            selector: (selector.0.to_owned(), selector.1.to_owned()),
            headless: false,
            node_local: false,
            port: 80,
            by_name: None,
            applied: true,
            open: None,
            pool: None,
            made: 0,
        }
    }

    /// As its owner wants it to be in the end.
    pub(crate) fn is_open(&self) -> bool {
        self.open == Some(true)
    }

    fn content(&self) -> Value {
        let (label, value) = &self.selector;
        let target = self.by_name.map_or_else(|| json!(80), |name| json!(name));
        let mut content = json!({
            "metadata": {"namespace": self.namespace, "name": self.name},
            "spec": {"selector": {label: value}, "ports": [{"port": self.port, "targetPort": target}]}
        });
        if let Some(open) = self.open {
            content["spec"][FIELD] = json!(open);
        }
        if self.node_local {
            content["spec"]["internalTrafficPolicy"] = json!("Local");
        }
        if self.headless {
            content["spec"]["clusterIP"] = json!("None");
        }
        if let Some(pool) = self.pool {
            content["metadata"]["labels"] = json!({labels::CONTROL: "true"});
            content["metadata"]["annotations"] =
                json!({annotations::TRAFFIC: format!("{}/p{pool}", balancer::PROVIDER)});
        }
        content
    }

    /// The object that is made of it.
    pub(crate) fn make(&mut self) -> Value {
        self.made += 1;
        self.replace(&format!("uid-service-{}-{}", self.name, self.made))
    }

    /// `kubectl replace`: what is not in the manifest goes, our mark too.
    pub(crate) fn replace(&self, uid: &str) -> Value {
        let content = self.content();
        let mut object = content.clone();
        object["metadata"]["uid"] = json!(uid);
        if !self.headless {
            object["spec"]["clusterIP"] = json!("10.0.0.1");
        }
        if self.applied {
            object["metadata"]["annotations"][annotations::LAST_APPLIED] = json!(content.to_string());
        }
        object
    }

    /// `kubectl apply`: what is in the manifest is set, what was in it and is no longer goes, all else stays, our mark too.
    pub(crate) fn apply(&self, known: &Value) -> Value {
        let content = self.content();
        let mut object = known.clone();
        let annotation = &known["metadata"]["annotations"][annotations::LAST_APPLIED];
        let last: Value = annotation.as_str().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        if let Some(open) = self.open {
            object["spec"][FIELD] = json!(open);
        } else if last["spec"].get(FIELD).is_some()
            && let Some(spec) = object["spec"].as_object_mut()
        {
            spec.remove(FIELD);
        }
        object["metadata"]["annotations"][annotations::LAST_APPLIED] = json!(content.to_string());
        object
    }
}
