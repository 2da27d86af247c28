//! What only PodDecorations have.

use hitless_api::pod_decoration::{
    DecorationRollingUpdate, DecorationTemplate, PodDecorationSpec, PodDecorationStatus,
};
use hitless_api::selector;
use serde::Deserialize;
use serde_json::Value;

use super::names::{LABEL, mark_among};
use crate::large;
use crate::template::Template;

/// How many unused revisions are kept where it does not say.
const HISTORY: usize = 20;
/// Longest name of a label, behind the slash.
const LONGEST: usize = 63;

/// What only a PodDecoration has.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "Raw")]
pub struct DecorationBody {
    /// `spec`, without the template.
    pub spec: PodDecorationSpec,
    /// `spec.template`, as it was written.
    pub template: Template,
    /// How many unused revisions are kept.
    pub history_limit: usize,
    /// Why nobody can tell which pods it selects, or what they are to get: a clause for people.
    pub fault: Option<String>,
    /// `status`.
    pub status: PodDecorationStatus,
}

#[derive(Deserialize)]
struct Raw {
    #[serde(default)]
    metadata: RawMeta,
    spec: RawSpec,
    #[serde(default)]
    status: PodDecorationStatus,
}

#[derive(Default, Deserialize)]
struct RawMeta {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct RawSpec {
    #[serde(default)]
    template: Value,
    #[serde(flatten)]
    rest: PodDecorationSpec,
}

impl From<Raw> for DecorationBody {
    fn from(Raw { metadata, spec: RawSpec { template, rest: spec }, status }: Raw) -> Self {
        let history = spec.history_limit.and_then(|count| usize::try_from(count).ok());
        Self {
            fault: fault(&metadata.name, &spec, &template),
            spec,
            template: Template::new(template),
            history_limit: history.unwrap_or(HISTORY),
            status,
        }
    }
}

/// What makes no sense in it, whatever the cluster is like.
fn fault(name: &str, spec: &PodDecorationSpec, template: &Value) -> Option<String> {
    let prefix = LABEL.rsplit('/').next().unwrap_or_default();
    let longest = LONGEST - prefix.len();
    if name.len() > longest {
        return Some(format!("its name is longer than {longest} letters, and a label of its pods contains it"));
    }
    if let Some(why) = spec.selector.as_ref().and_then(selector::fault) {
        return Some(format!("spec.selector: {why}"));
    }
    let rolling = spec.update_strategy.rolling_update.as_ref().and_then(|rolling| rolling.selector.as_ref());
    if let Some(why) = rolling.and_then(selector::fault) {
        return Some(format!("spec.updateStrategy.rollingUpdate.selector: {why}"));
    }
    if let Some((large, _)) = template.as_str().and_then(large::marked) {
        return Some(format!("spec.template: {large}"));
    }
    // Absent is empty.
    let template = if template.is_null() { None } else { Some(template.clone()) };
    let template = match serde_json::from_value::<DecorationTemplate>(template?) {
        Ok(template) => template,
        Err(error) => return Some(format!("spec.template: {error}")),
    };
    let mark = mark_among(template.metadata.iter().flat_map(|each| each.labels.keys()))?;
    Some(format!("spec.template.metadata has the label {mark}, which tells what decorations a pod has; take it off"))
}

impl DecorationBody {
    /// The greatest is applied first.
    pub(crate) fn weight(&self) -> i32 {
        self.spec.weight.unwrap_or_default()
    }

    /// Which pods get a changed template.
    pub(crate) fn rolling(&self) -> Option<&DecorationRollingUpdate> {
        self.spec.update_strategy.rolling_update.as_ref()
    }
}

/// A template that is a decoration's, if it is one.
pub(crate) fn template(value: &Value) -> DecorationTemplate {
    serde_json::from_value(value.clone()).unwrap_or_default()
}
