//! What only PodDecorations have.

use hitless_api::pod_decoration::{
    DecorationRollingUpdate, DecorationTemplate, PodDecorationSpec, PodDecorationStatus,
};
use hitless_api::selector;
use serde::Deserialize;
use serde_json::Value;

use crate::object::{Body, Object, Typed};
use crate::template::Template;

/// A PodDecoration.
pub type PodDecoration<'a> = Typed<'a, DecorationBody>;

/// How many unused revisions are kept where it does not say.
const HISTORY: usize = 20;

/// What only a PodDecoration has.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "Raw")]
pub struct DecorationBody {
    /// `spec`.
    pub spec: PodDecorationSpec,
    /// `spec.template`, as it was written.
    pub template: Template,
    /// How many unused revisions are kept.
    pub history_limit: usize,
    /// `status`.
    pub status: PodDecorationStatus,
}

#[derive(Deserialize)]
struct Raw {
    spec: RawSpec,
    #[serde(default)]
    status: PodDecorationStatus,
}

#[derive(Deserialize)]
struct RawSpec {
    #[serde(default)]
    template: Value,
    #[serde(flatten)]
    rest: PodDecorationSpec,
}

impl From<Raw> for DecorationBody {
    fn from(Raw { spec: RawSpec { template, rest: spec }, status }: Raw) -> Self {
        let history = spec.history_limit.and_then(|count| usize::try_from(count).ok());
        Self { spec, template: Template::new(template), history_limit: history.unwrap_or(HISTORY), status }
    }
}

impl DecorationBody {
    /// The greatest is applied first.
    pub(crate) fn weight(&self) -> i32 {
        self.spec.weight.unwrap_or_default()
    }

    /// Which pods get a changed template.
    pub(crate) fn rolling(&self) -> DecorationRollingUpdate {
        self.spec.update_strategy.rolling_update.clone().unwrap_or_default()
    }

    /// Why nobody can tell which pods it selects, or what is to be done to them.
    pub(crate) fn fault(&self) -> Option<String> {
        let own = self.spec.selector.as_ref().and_then(selector::fault).map(|why| format!("spec.selector: {why}"));
        let rolling = self.spec.update_strategy.rolling_update.as_ref().and_then(|rolling| rolling.selector.as_ref());
        let path = "spec.updateStrategy.rollingUpdate.selector";
        let template = serde_json::from_value::<DecorationTemplate>(self.template.content().clone());
        let template = || template.err().map(|why| format!("spec.template: {why}"));
        own.or_else(template).or_else(|| rolling.and_then(selector::fault).map(|why| format!("{path}: {why}")))
    }
}

/// A template that is a decoration's, if it is one.
pub(super) fn template(value: &Value) -> DecorationTemplate {
    serde_json::from_value(value.clone()).unwrap_or_default()
}

impl Object {
    /// As a PodDecoration, if it is one.
    #[must_use]
    pub fn pod_decoration(&self) -> Option<PodDecoration<'_>> {
        match &self.body {
            Body::PodDecoration(body) => Some(Typed { object: self, body }),
            _ => None,
        }
    }
}
