//! The ConfigMaps and Secrets that the pods of a template use, and one hash of what is in them (docs/contract.md 35).
//!
//! Contents never come here: every value is a hash already.

mod volumes;

use std::collections::BTreeMap;
use std::fmt;

use hitless_api::config::Files;
use hitless_api::{MountedConfig, config, digest};
use serde_json::{Value, json};

use crate::containers;
use crate::template::items;
use volumes::Volume;

/// Which kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConfigKind {
    /// A ConfigMap.
    ConfigMap,
    /// A Secret.
    Secret,
}

/// A ConfigMap or Secret of the workload's namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConfigRef {
    /// Its kind.
    pub kind: ConfigKind,
    /// Its name.
    pub name: String,
}

impl fmt::Display for ConfigRef {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            ConfigKind::ConfigMap => write!(out, "ConfigMap {}", self.name),
            ConfigKind::Secret => write!(out, "Secret {}", self.name),
        }
    }
}

/// Content of an object: by key, [`digest::of_bytes`] the value.
pub type ConfigContent = BTreeMap<String, String>;

/// Everything that the pods of a template use of ConfigMaps and Secrets: volumes, and the environment of containers. Other init
/// containers are left out, because they do not run again in place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigUse {
    objects: BTreeMap<ConfigRef, Used>,
    volumes: Vec<Volume>,
}

/// What is used of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Used {
    /// Without the object no container starts.
    required: bool,
    /// All its keys.
    all: bool,
    /// These keys, and whether a container starts without.
    keys: BTreeMap<String, bool>,
}

/// What is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Hash of all that is used: value of `hitless.dev/config`.
    pub hash: String,
    /// What is mounted; `None`: nothing.
    pub mounted: Option<MountedConfig>,
}

/// Something that no container starts without is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The object.
    pub object: ConfigRef,
    /// The key in it; `None`: the object itself.
    pub key: Option<String>,
}

impl fmt::Display for Missing {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.key {
            Some(key) => write!(out, "{} has no key {key}", self.object),
            None => write!(out, "{} is not there", self.object),
        }
    }
}

impl ConfigUse {
    /// Of the pods of this template.
    #[must_use]
    pub fn of(template: &Value) -> Self {
        let mut uses = Self::default();
        let spec = &template["spec"];
        for container in containers::running(template) {
            for from in items(&container["envFrom"]) {
                uses.use_all(object(&from["configMapRef"], ConfigKind::ConfigMap, "name"));
                uses.use_all(object(&from["secretRef"], ConfigKind::Secret, "name"));
            }
            for from in items(&container["env"]).map(|env| &env["valueFrom"]) {
                for (field, kind) in [("configMapKeyRef", ConfigKind::ConfigMap), ("secretKeyRef", ConfigKind::Secret)]
                {
                    let key = from[field]["key"].as_str();
                    if let (Some((object, required)), Some(key)) = (object(&from[field], kind, "name"), key) {
                        uses.use_key(object, key, required);
                    }
                }
            }
        }
        let volumes: Vec<Volume> = items(&spec["volumes"]).filter_map(Volume::of).collect();
        for part in volumes.iter().flat_map(|volume| &volume.parts) {
            match &part.items {
                None => uses.use_all(Some((part.object.clone(), part.required))),
                Some(items) => {
                    for (key, _) in items {
                        uses.use_key(part.object.clone(), key, part.required);
                    }
                }
            }
        }
        uses.volumes = volumes;
        uses
    }

    /// Whether there is anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// The objects.
    pub fn objects(&self) -> impl Iterator<Item = &ConfigRef> {
        self.objects.keys()
    }

    /// What is there now. `content` is that of an object; `None`: there is no such object.
    ///
    /// # Errors
    /// If something is missing without which no container would start.
    pub fn look<'c>(&self, content: impl Fn(&ConfigRef) -> Option<&'c ConfigContent>) -> Result<Config, Missing> {
        let mut used: BTreeMap<String, Value> = BTreeMap::new();
        for (object, use_) in &self.objects {
            let missing = |key: Option<&String>| Missing { object: object.clone(), key: key.cloned() };
            let found = content(object);
            if found.is_none() && use_.required {
                return Err(missing(None));
            }
            let key = found.and_then(|found| {
                use_.keys.iter().find(|(key, required)| **required && !found.contains_key(*key)).map(|(key, _)| key)
            });
            if key.is_some() {
                return Err(missing(key));
            }
            let is_used = |key: &&String| use_.all || use_.keys.contains_key(*key);
            let found =
                found.map(|found| found.iter().filter(|(key, _)| is_used(key)).collect::<BTreeMap<&String, &String>>());
            used.insert(object.to_string(), json!(found));
        }
        let files: Files = self.volumes.iter().map(|volume| (volume.name.clone(), volume.files(&content))).collect();
        let is_comparable = !files.is_empty() && files.len() <= MountedConfig::MOST_VOLUMES;
        let mounted = is_comparable.then(|| MountedConfig {
            volumes: self.volumes.iter().map(|volume| (volume.name.clone(), volume.others.clone())).collect(),
            digest: config::digest_of(&files),
        });
        Ok(Config { hash: digest::short(&json!(used)), mounted })
    }

    fn use_all(&mut self, object: Option<(ConfigRef, bool)>) {
        let Some((object, required)) = object else { return };
        let used = self.objects.entry(object).or_default();
        used.all = true;
        used.required |= required;
    }

    fn use_key(&mut self, object: ConfigRef, key: &str, required: bool) {
        let used = self.objects.entry(object).or_default();
        used.required |= required;
        *used.keys.entry(key.to_owned()).or_default() |= required;
    }
}

/// The object that a reference names, and whether it has to be there.
fn object(reference: &Value, kind: ConfigKind, name: &str) -> Option<(ConfigRef, bool)> {
    let object = ConfigRef { kind, name: reference[name].as_str().filter(|name| !name.is_empty())?.to_owned() };
    Some((object, reference["optional"] != true))
}

#[cfg(test)]
mod tests;
