//! The ConfigMaps and Secrets that the pods of a template use, and one hash of what is in them (docs/contract.md#config-reload).
//!
//! Contents never come here: every value is a hash already.

mod init;
mod volumes;

use std::collections::BTreeMap;
use std::fmt;

use hitless_api::config::Files;
use hitless_api::digest::{self, Key};
use hitless_api::{MountedConfig, config};
use serde_json::{Value, json};

use crate::containers;
use crate::field::items;
pub use init::{InitConfig, used_by};
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

/// Everything that the pods of a template use of ConfigMaps and Secrets: volumes, and the environment of containers. What ordinary init
/// containers use is kept apart, because they do not run again in place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigUse {
    objects: Objects,
    volumes: Vec<Volume>,
    /// By name of the init container.
    init: BTreeMap<String, Objects>,
}

/// What is used, by object.
type Objects = BTreeMap<ConfigRef, Used>;

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
    pub hash: ConfigHash,
    /// What is mounted; `None`: nothing.
    pub mounted: Option<MountedConfig>,
    /// By ordinary init container that uses some: hash of what that uses.
    pub init: BTreeMap<String, ConfigHash>,
}

/// A hash of what is there. People who may not read that may read the hash, so it has a key where there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigHash {
    value: String,
    /// The same without the key: what was recorded before there was one. It counts until something else is there.
    plain: Option<String>,
}

impl ConfigHash {
    fn of(used: &Value, key: Option<&Key>) -> Self {
        match key {
            Some(key) => Self::plain(&key.short(used)).after(&digest::short(used)),
            None => Self::plain(&digest::short(used)),
        }
    }

    /// One without a key.
    #[must_use]
    pub fn plain(value: &str) -> Self {
        Self { value: value.to_owned(), plain: None }
    }

    /// The same with a key: this is what was recorded before.
    #[must_use]
    pub fn after(self, plain: &str) -> Self {
        Self { plain: Some(plain.to_owned()), ..self }
    }

    /// What is recorded of it.
    #[must_use]
    pub fn value(&self) -> &str {
        &self.value
    }

    /// Whether that is recorded of it.
    #[must_use]
    pub fn is(&self, recorded: &str) -> bool {
        self.value == recorded || self.plain.as_deref() == Some(recorded)
    }
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
        let volumes: Vec<Volume> = items(&template["spec"]["volumes"]).filter_map(Volume::of).collect();
        let mut objects = Objects::new();
        containers::running(template).for_each(|container| use_environment(&mut objects, container));
        for volume in &volumes {
            use_volume(&mut objects, volume);
        }
        let once = containers::init(template).filter(|each| !containers::is_restartable(each));
        let init = once.filter_map(|container| {
            let mut own = Objects::new();
            use_environment(&mut own, container);
            let mounts =
                |volume: &&Volume| items(&container["volumeMounts"]).any(|mount| mount["name"] == *volume.name);
            volumes.iter().filter(mounts).for_each(|volume| use_volume(&mut own, volume));
            let name = container["name"].as_str()?.to_owned();
            (!own.is_empty()).then_some((name, own))
        });
        Self { objects, init: init.collect(), volumes }
    }

    /// Whether there is anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.init.is_empty()
    }

    /// The objects; one may come more than once.
    pub fn objects(&self) -> impl Iterator<Item = &ConfigRef> {
        self.objects.keys().chain(self.init.values().flat_map(Objects::keys))
    }

    /// What is there now. `content` is that of an object; `None`: there is no such object. `key`: of the hashes that people may read.
    ///
    /// # Errors
    /// If something is missing without which no container would start.
    pub fn look<'c>(
        &self,
        content: impl Fn(&ConfigRef) -> Option<&'c ConfigContent>,
        key: Option<&Key>,
    ) -> Result<Config, Missing> {
        let hash = |objects: &Objects| Ok(ConfigHash::of(&used(objects, &content)?, key));
        let init = self.init.iter().map(|(name, objects)| Ok((name.clone(), hash(objects)?)));
        let init = init.collect::<Result<_, Missing>>()?;
        let files: Files = self.volumes.iter().map(|volume| (volume.name.clone(), volume.files(&content))).collect();
        let is_comparable = !files.is_empty() && files.len() <= MountedConfig::MOST_VOLUMES;
        let mounted = is_comparable.then(|| MountedConfig {
            volumes: self.volumes.iter().map(|volume| (volume.name.clone(), volume.others.clone())).collect(),
            digest: config::digest_of(&files),
        });
        Ok(Config { hash: hash(&self.objects)?, mounted, init })
    }
}

/// What the environment of a container uses.
fn use_environment(objects: &mut Objects, container: &Value) {
    for from in items(&container["envFrom"]) {
        use_all(objects, object(&from["configMapRef"], ConfigKind::ConfigMap, "name"));
        use_all(objects, object(&from["secretRef"], ConfigKind::Secret, "name"));
    }
    for from in items(&container["env"]).map(|env| &env["valueFrom"]) {
        for (field, kind) in [("configMapKeyRef", ConfigKind::ConfigMap), ("secretKeyRef", ConfigKind::Secret)] {
            let key = from[field]["key"].as_str();
            if let (Some((object, required)), Some(key)) = (object(&from[field], kind, "name"), key) {
                use_key(objects, object, key, required);
            }
        }
    }
}

/// What a volume shows.
fn use_volume(objects: &mut Objects, volume: &Volume) {
    for part in &volume.parts {
        match &part.items {
            None => use_all(objects, Some((part.object.clone(), part.required))),
            Some(items) => {
                for (key, _) in items {
                    use_key(objects, part.object.clone(), key, part.required);
                }
            }
        }
    }
}

fn use_all(objects: &mut Objects, object: Option<(ConfigRef, bool)>) {
    let Some((object, required)) = object else { return };
    let used = objects.entry(object).or_default();
    used.all = true;
    used.required |= required;
}

fn use_key(objects: &mut Objects, object: ConfigRef, key: &str, required: bool) {
    let used = objects.entry(object).or_default();
    used.required |= required;
    *used.keys.entry(key.to_owned()).or_default() |= required;
}

/// What is used of these objects.
fn used<'c>(objects: &Objects, content: &impl Fn(&ConfigRef) -> Option<&'c ConfigContent>) -> Result<Value, Missing> {
    let mut used: BTreeMap<String, Value> = BTreeMap::new();
    for (object, use_) in objects {
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
    Ok(json!(used))
}

/// The object that a reference names, and whether it has to be there.
fn object(reference: &Value, kind: ConfigKind, name: &str) -> Option<(ConfigRef, bool)> {
    let object = ConfigRef { kind, name: reference[name].as_str().filter(|name| !name.is_empty())?.to_owned() };
    Some((object, reference["optional"] != true))
}

#[cfg(test)]
mod tests;
