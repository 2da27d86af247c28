//! What the ordinary init containers of a workload are given of ConfigMaps and Secrets: annotation `hitless.dev/init-config`.

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::digest;
use hitless_api::names::annotations;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Config, ConfigHash};
use crate::because::{Because, Cause};
use crate::object::Object;

/// What is recorded on a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InitConfig {
    /// By init container, [`Config::init`].
    containers: BTreeMap<String, String>,
    /// The last change that only new pods bring.
    #[serde(skip_serializing_if = "Option::is_none")]
    new_pods: Option<NewPods>,
}

/// A change that only new pods bring.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct NewPods {
    /// Value of `hitless.dev/config` of the template that has it.
    config: String,
    /// Init containers that it is for.
    r#for: BTreeSet<String>,
}

fn values(config: &Config) -> BTreeMap<String, String> {
    config.init.iter().map(|(name, hash)| (name.clone(), hash.value().to_owned())).collect()
}

impl InitConfig {
    /// What is recorded; what is not understood is nothing.
    #[must_use]
    pub fn of(workload: &Object) -> Option<Self> {
        serde_json::from_str(workload.annotations.get(annotations::INIT_CONFIG)?).ok()
    }

    /// What is to be recorded once the pods have this.
    #[must_use]
    pub fn have(config: &Config) -> Self {
        Self { containers: values(config), new_pods: None }
    }

    /// The same, if only new pods bring it, because these init containers use what has changed; with the value of `hitless.dev/config`
    /// that the template gets: unlike every other, also where no container uses what has changed.
    #[must_use]
    pub fn have_anew(config: &Config, containers: &BTreeSet<String>) -> (Self, String) {
        let containers_have = values(config);
        let value = digest::short(&json!([config.hash.value(), containers_have]));
        let new_pods = Some(NewPods { config: value.clone(), r#for: containers.clone() });
        (Self { containers: containers_have, new_pods }, value)
    }

    /// Whether it is up to date with that.
    #[must_use]
    pub fn is(&self, config: &Config) -> bool {
        self.containers.len() == config.init.len()
            && config.init.iter().all(|(name, hash)| self.containers.get(name).is_some_and(|known| hash.is(known)))
    }

    /// Init containers that use something else now. One that is not recorded came with the template, and so with new pods.
    #[must_use]
    pub fn changed(&self, config: &Config) -> BTreeSet<String> {
        let has_changed =
            |(name, now): &(&String, &ConfigHash)| self.containers.get(*name).is_some_and(|known| !now.is(known));
        config.init.iter().filter(has_changed).map(|(name, _)| name.clone()).collect()
    }

    /// The annotation's value.
    #[must_use]
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Why a template with this value of `hitless.dev/config` can't be given to running pods, if it can't.
    pub(crate) fn new_pods_for(&self, value: &str) -> Option<Because> {
        let new_pods = self.new_pods.as_ref().filter(|new_pods| new_pods.config == value)?;
        Some(Because::of(Cause::InitContainer, format!("{}; its pods are made anew", used_by(&new_pods.r#for))))
    }
}

/// That what these init containers use has changed, as a clause.
#[must_use]
pub fn used_by(containers: &BTreeSet<String>) -> String {
    let names = containers.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    let (whose, uses) = if containers.len() == 1 { ("init container", "uses") } else { ("init containers", "use") };
    format!(
        "a ConfigMap or Secret has changed that {whose} {names} {uses}, and init containers run only when a pod is started"
    )
}
