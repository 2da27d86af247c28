//! Which fields of a template give labels or annotations of its pods to the software in them (downward API).

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::Change;
use serde_json::Value;

use crate::containers;
use crate::field::items;

/// What of a pod's metadata is read: the beginning of a `fieldPath`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Metadata {
    Annotations,
    Labels,
}

impl Metadata {
    const fn path(self) -> &'static str {
        match self {
            Self::Annotations => "metadata.annotations",
            Self::Labels => "metadata.labels",
        }
    }
}

/// A field that reads labels or annotations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reader {
    /// The field, e.g. `spec.template.spec.containers[web].env[SUM]`.
    pub(crate) field: String,
    /// The label or annotation; `None`: all of them.
    key: Option<String>,
    by: By,
}

/// What the field is a part of.
#[derive(Clone, Debug, PartialEq, Eq)]
enum By {
    /// The environment of this container, which gets it at its start.
    Container(String),
    /// This volume, in which the kubelet keeps it up to date.
    Volume(String),
}

impl Reader {
    pub(crate) fn reads(&self, key: &str) -> bool {
        self.key.as_deref().is_none_or(|own| own == key)
    }

    /// `None` if the path leads to something else.
    fn of(metadata: Metadata, field: String, by: By, from: &Value) -> Option<Self> {
        let rest = from["fieldRef"]["fieldPath"].as_str()?.strip_prefix(metadata.path())?;
        if rest.is_empty() {
            return Some(Self { field, key: None, by });
        }
        let key = rest.strip_prefix("['")?.strip_suffix("']")?;
        Some(Self { field, key: Some(key.to_owned()), by })
    }

    /// Names of the containers that have to be started again to get another value. `is_once`: of init containers that run only when a
    /// pod is started, which never get one; else of those that run as long as the pod does.
    fn stale<'t>(&self, template: &'t Value, is_once: bool) -> BTreeSet<&'t str> {
        let init = containers::init(template).filter(move |each| is_once && !containers::is_restartable(each));
        let running = containers::running(template).filter(move |_| !is_once);
        // What is mounted by a path inside of a volume stays as it was when the container was started.
        let mounts = |container: &Value, volume: &str| {
            let mut own = items(&container["volumeMounts"]).filter(|mount| mount["name"] == volume);
            own.any(|mount| is_once || !mount["subPath"].is_null() || !mount["subPathExpr"].is_null())
        };
        let is_stale = |container: &&Value| match &self.by {
            By::Container(name) => container["name"] == name.as_str(),
            By::Volume(volume) => mounts(container, volume),
        };
        init.chain(running).filter(is_stale).filter_map(|container| container["name"].as_str()).collect()
    }
}

/// Names of the containers that get another value of one of these labels or annotations only when they are started again.
pub(crate) fn stale<'t>(
    template: &'t Value,
    metadata: Metadata,
    changes: &BTreeMap<String, Change>,
) -> BTreeSet<&'t str> {
    if changes.is_empty() {
        return BTreeSet::new();
    }
    let readers = readers(template, metadata);
    let meant = readers.iter().filter(|reader| changes.keys().any(|key| reader.reads(key)));
    meant.flat_map(|reader| reader.stale(template, false)).collect()
}

/// The init container that reads it, which runs only when a pod is started: it never gets another value.
pub(crate) fn once<'t>(reader: &Reader, template: &'t Value) -> Option<&'t str> {
    reader.stale(template, true).into_iter().next()
}

/// All fields of the template that read labels, or annotations.
pub(crate) fn readers(template: &Value, metadata: Metadata) -> Vec<Reader> {
    let spec = &template["spec"];
    let containers = ["initContainers", "containers"].into_iter().flat_map(|list| {
        items(&spec[list]).flat_map(move |container| {
            let name = text(container, "name");
            let container_path = format!("spec.template.spec.{list}[{name}]");
            items(&container["env"]).filter_map(move |env| {
                let field = format!("{container_path}.env[{}]", text(env, "name"));
                Reader::of(metadata, field, By::Container(name.to_owned()), &env["valueFrom"])
            })
        })
    });
    let volumes = items(&spec["volumes"]).flat_map(|volume| {
        let name = text(volume, "name");
        let path = format!("spec.template.spec.volumes[{name}]");
        let projected = items(&volume["projected"]["sources"]).enumerate();
        let projected = projected.map(|(index, source)| (format!(".projected.sources[{index}]"), source));
        let sources = std::iter::once((String::new(), volume)).chain(projected);
        sources.flat_map(move |(inside, source)| {
            let path = format!("{path}{inside}.downwardAPI.items");
            items(&source["downwardAPI"]["items"]).filter_map(move |item| {
                let field = format!("{path}[{}]", text(item, "path"));
                Reader::of(metadata, field, By::Volume(name.to_owned()), item)
            })
        })
    });
    containers.chain(volumes).collect()
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap_or_default()
}
