//! Annotations of a template that only say "start again": a change of nothing but these and images is made to running pods, by a
//! restart. The annotations of the pods do not follow, so where the pods' own software reads one of them, its change is native. Of some
//! kinds the pods follow all others.

mod followed;
pub(crate) mod keys;
mod own;
mod policy;

use std::collections::BTreeMap;
use std::fmt;

use hitless_api::Change;
use hitless_api::event::EventNote;
use hitless_api::names::{RESTARTS_PODS, annotations as names};
use hitless_api::pod::PodView;

use followed::Followed;
use keys::{KEYS, PREFIXES, Says, is_read_here};
pub use own::{Broken, OwnList};
pub use policy::RestartsPolicy;

use crate::annotations::Annotations;
use crate::because::{Because, Cause};
use crate::config::InitConfig;
use crate::downward::{self, Metadata, Reader};
use crate::kind::Resource;
use crate::object::Object;
use crate::once_per_pod::OncePerPod;
use crate::template::Template;

/// What a workload's owner is told of what he says of restarts, for as long as it holds.
pub(crate) fn notes(workload: &Object, resource: &Resource) -> impl Iterator<Item = EventNote> {
    OwnList::notes(workload, resource).chain(RestartsPolicy::note(workload, resource))
}

/// What becomes of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// The containers are restarted.
    InPlace,
    /// The pods are made anew.
    Native,
    /// Only new pods would bring it, and their owner lets none be made.
    Refused,
}

impl fmt::Display for Way {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::InPlace => "in place",
            Self::Native => "native",
            Self::Refused => "refused",
        })
    }
}

/// Which annotations of a workload's template are restart annotations, and what a change of them needs.
#[derive(Clone, Debug)]
pub struct RestartAnnotations {
    wanted: RestartsPolicy,
    /// Its owner lets its pods be made anew.
    may_have_new_pods: bool,
    own: OwnList,
    readers: Vec<Reader>,
    /// Running pods follow the others.
    followed: Option<Followed>,
    once: Vec<OncePerPod>,
    reload: Option<InitConfig>,
}

impl RestartAnnotations {
    /// Those of a workload that is to have this template.
    #[must_use]
    pub fn of(workload: &Object, template: &Template) -> Self {
        Self {
            wanted: RestartsPolicy::of(workload),
            may_have_new_pods: workload.may_have_new_pods(),
            own: OwnList::of(workload),
            readers: downward::readers(template.content(), Metadata::Annotations),
            followed: None,
            once: OncePerPod::of(template),
            reload: InitConfig::of(workload),
        }
    }

    /// The same of a workload whose running pods follow the other annotations of its template.
    pub(crate) fn of_followed(workload: &Object, template: &Template) -> Self {
        let all = Self::of(workload, template);
        Self { followed: Some(Followed::of(template, &all.readers)), ..all }
    }

    /// What running pods follow of a change between templates for which [`Self::first_native_change`] has found nothing.
    pub(crate) fn followed(&self, from: &Annotations, to: &Annotations) -> BTreeMap<String, Change> {
        let is_followed = |key: &&str| self.followed.is_some() && self.says(key).is_none();
        followed::changes(from, to, from.differing(to).filter(is_followed))
    }

    /// Fields of the template that give its annotations to the software in the pods: a change of those is native.
    pub fn reading_fields(&self) -> impl Iterator<Item = &str> {
        self.readers.iter().map(|reader| reader.field.as_str())
    }

    /// Why what differs can't be made to running pods; `None` if all of it can. Of templates that are equal in all that is not an
    /// annotation or an image.
    pub(crate) fn first_native_change(&self, from: &Annotations, to: &Annotations) -> Option<Because> {
        let own = from.differing(to).find_map(|key| {
            if key == names::NEW_PODS {
                return Some(Because::new_pods(&format!("{} of the template", names::NEW_PODS)));
            }
            let Some(says) = self.says(key) else {
                if let Some(followed) = &self.followed {
                    return Some(Because::annotation(key, &followed.never(key)?));
                }
                let broken = self.own.broken.first().map(|broken| format!("; {broken}")).unwrap_or_default();
                return Some(Because::annotation(key, &broken));
            };
            if let Some(reader) = self.readers.iter().find(|reader| reader.reads(key)) {
                return Some(Because::annotation(key, &format!(", because {} reads it", reader.field)));
            }
            match self.wanted {
                RestartsPolicy::Containers => None,
                RestartsPolicy::Pods => {
                    Some(Because::new_pods(&format!("{}: {RESTARTS_PODS} of the workload", names::RESTARTS)))
                }
                RestartsPolicy::Auto => {
                    let kept = self.once.iter().find_map(|each| each.keeps_from(says, key));
                    kept.or_else(|| self.reload.as_ref().filter(|_| says == Says::Reload)?.new_pods_for(to.value(key)?))
                }
            }
        });
        own.or_else(|| Followed::too_much(&self.followed(from, to)))
    }

    /// Why a restart of these pods, from a template with these annotations, is to make them anew although it could be done in place: they
    /// have containers that the template does not have, such as a mesh's proxy, and who restarts by an annotation often means these. Only
    /// where new pods are allowed: else it is done in place, and says what it left.
    pub(crate) fn asks_admission(&self, from: &Annotations, to: &Template, pods: &[&PodView]) -> Option<Because> {
        let is_meant = |says: Says| match says {
            Says::Restart | Says::ConfigChanged => true,
            Says::Reload => false,
        };
        let is_auto = match self.wanted {
            RestartsPolicy::Auto => self.may_have_new_pods,
            RestartsPolicy::Containers | RestartsPolicy::Pods => false,
        };
        let mut changed = from.differing(&to.shape().annotations);
        changed.find(|key| is_auto && self.says(key).is_some_and(is_meant))?;
        let injected = OncePerPod::injected(to, pods).into_iter().next()?;
        let text = format!(
            "in a restart in place {injected}: admission has put it into the pods, the template does not have it"
        );
        Some(Because::of(Cause::InjectionChanged, text))
    }

    /// What becomes of a restart of a workload that has this, by an annotation that says so.
    pub(crate) fn way(&self, each: &OncePerPod, says: Says) -> Way {
        let is_injected = matches!(each, OncePerPod::Injected { .. });
        let is_kept = match self.wanted {
            RestartsPolicy::Containers => false,
            RestartsPolicy::Pods => true,
            // See `asks_admission`: where no pod may be made anew it is done in place.
            RestartsPolicy::Auto => each.keeps_from(says, "").is_some() || (is_injected && self.may_have_new_pods),
        };
        match (is_kept, self.may_have_new_pods) {
            (false, _) => Way::InPlace,
            (true, true) => Way::Native,
            (true, false) => Way::Refused,
        }
    }

    /// What becomes of a version that crashes in place: a new pod is tried, where one may be made.
    pub(crate) const fn way_of_crash(&self) -> &'static str {
        if self.may_have_new_pods { "tried in new pods" } else { "halted" }
    }

    /// Whether what differs says that configuration has changed.
    pub(crate) fn say_configuration(&self, from: &Annotations, to: &Annotations) -> bool {
        from.differing(to).any(|key| self.says(key) == Some(Says::ConfigChanged))
    }

    /// What a change of this annotation says; `None` if it is no restart annotation. What an own one is for nobody knows.
    fn says(&self, key: &str) -> Option<Says> {
        if is_read_here(key) {
            return None;
        }
        let by_key = KEYS.iter().find(|(known, _)| *known == key);
        let known = by_key.or_else(|| PREFIXES.iter().find(|(prefix, _)| key.starts_with(prefix)));
        known.map(|(_, says)| *says).or_else(|| self.own.covers(key).then_some(Says::ConfigChanged))
    }
}

#[cfg(test)]
mod tests;
