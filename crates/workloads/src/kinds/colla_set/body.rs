//! What only CollaSets have.

use std::collections::BTreeSet;

use hitless_api::colla_set::{CollaSetSpec, CollaSetStatus};
use serde::Deserialize;
use serde_json::Value;

use crate::object::{Body, Object, OptIn, Typed};
use crate::template::Template;

/// A CollaSet.
pub type CollaSet<'a> = Typed<'a, CollaSetBody>;

/// How many unused revisions are kept where the CollaSet does not say.
const HISTORY: usize = 20;

/// What only a CollaSet has.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "Raw")]
pub struct CollaSetBody {
    /// `spec.replicas`, 0 if absent.
    pub replicas: usize,
    /// `spec.paused`: no pod is updated.
    pub paused: bool,
    /// `spec.selector`, as text.
    pub selector: String,
    /// `spec.template`.
    pub template: Template,
    /// `spec.updateStrategy.podUpgradePolicy`.
    pub policy: UpgradePolicy,
    /// Which pods are updated.
    pub scope: Scope,
    /// Pods are named by their instance id.
    pub in_sequence: bool,
    /// Name of its ResourceContext, if it is not its own.
    pub context: Option<String>,
    /// How many unused revisions are kept.
    pub history_limit: usize,
    /// Names of pods that are removed first.
    pub pods_to_delete: BTreeSet<String>,
    /// Fields that it has and that nobody acts on yet.
    pub not_supported: Vec<&'static str>,
    /// `status`.
    pub status: CollaSetStatus,
}

/// How a pod gets another version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UpgradePolicy {
    /// In place where that can be, else as a new pod.
    #[default]
    InPlaceIfPossible,
    /// In place or not at all.
    InPlaceOnly,
    /// As a new pod.
    Recreate,
    /// A new pod is there before the old one goes.
    Replace,
}

/// Which pods are updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All but so many.
    Partition(usize),
    /// Those with a label.
    ByLabel,
}

#[derive(Deserialize)]
struct Raw {
    spec: CollaSetSpec,
    #[serde(default)]
    status: CollaSetStatus,
}

impl From<Raw> for CollaSetBody {
    fn from(Raw { spec, status }: Raw) -> Self {
        let update = spec.update_strategy.unwrap_or_default();
        let rolling = update.rolling_update.unwrap_or_default();
        let partition = rolling.by_partition.and_then(|by| by.partition).unwrap_or_default();
        let scale = spec.scale_strategy.unwrap_or_default();
        let naming = spec.naming_strategy.and_then(|naming| naming.pod_naming_suffix_policy);
        let delays = update.operation_delay_seconds.or(scale.operation_delay_seconds).unwrap_or_default();
        let not_supported = [
            (!spec.volume_claim_templates.is_empty(), "spec.volumeClaimTemplates"),
            (!scale.pod_to_exclude.is_empty(), "spec.scaleStrategy.podToExclude"),
            (!scale.pod_to_include.is_empty(), "spec.scaleStrategy.podToInclude"),
            (delays > 0, "operationDelaySeconds"),
        ];
        Self {
            replicas: spec.replicas.and_then(|count| usize::try_from(count).ok()).unwrap_or_default(),
            paused: spec.paused,
            selector: text(&serde_json::to_value(&spec.selector).unwrap_or_default()),
            template: Template::new(spec.template),
            policy: match update.pod_update_policy.as_deref() {
                Some("InPlaceOnly") => UpgradePolicy::InPlaceOnly,
                Some("ReCreate" | "Recreate") => UpgradePolicy::Recreate,
                Some("Replace") => UpgradePolicy::Replace,
                _ => UpgradePolicy::InPlaceIfPossible,
            },
            scope: match rolling.by_label {
                Some(_) => Scope::ByLabel,
                None => Scope::Partition(usize::try_from(partition).unwrap_or_default()),
            },
            in_sequence: naming.as_deref() == Some("PersistentSequence"),
            context: scale.context.filter(|name| !name.is_empty()),
            history_limit: spec.history_limit.and_then(|count| usize::try_from(count).ok()).unwrap_or(HISTORY),
            pods_to_delete: scale.pod_to_delete.into_iter().collect(),
            not_supported: not_supported.into_iter().filter_map(|(is_set, field)| is_set.then_some(field)).collect(),
            status,
        }
    }
}

/// A label selector as the subresource `scale` has it.
fn text(selector: &Value) -> String {
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let labels = labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
    let expressions = selector["matchExpressions"].as_array().into_iter().flatten().map(|each| {
        let key = each["key"].as_str().unwrap_or_default();
        let values = each["values"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let values = values.collect::<Vec<_>>().join(",");
        match each["operator"].as_str().unwrap_or_default() {
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            _ => format!("{key} in ({values})"),
        }
    });
    labels.chain(expressions).collect::<Vec<_>>().join(",")
}

impl CollaSetBody {
    /// Nobody else is there to do it.
    pub(crate) fn opt_in(&self) -> OptIn {
        match self.policy {
            UpgradePolicy::InPlaceOnly => OptIn::InPlaceOnly,
            UpgradePolicy::InPlaceIfPossible | UpgradePolicy::Recreate | UpgradePolicy::Replace => OptIn::InPlace,
        }
    }
}

impl Object {
    /// As a CollaSet, if it is one.
    #[must_use]
    pub fn colla_set(&self) -> Option<CollaSet<'_>> {
        match &self.body {
            Body::CollaSet(body) => Some(Typed { object: self, body }),
            _ => None,
        }
    }
}
