//! Annotations of a template that only say "start again": a change of nothing but these and images is made to running pods, by a
//! restart. The annotations of the pods do not follow, so where the pods' own software reads one of them, its change is native.

mod annotations;
mod downward;
mod own;

use hitless_api::names::{PREFIX, annotations as names};

pub use annotations::Annotations;
pub use own::{Broken, OwnList};

use crate::object::Object;
use crate::plan::Because;
use crate::template::{Shape, Template};
use downward::Reader;

/// Keys that people and their tools change for a restart and nothing else.
const KEYS: [&str; 3] = [names::KUBECTL_RESTARTED_AT, "rollme", names::CONFIG];
/// And beginnings of such keys: Helm's habit, Reloader, Keel.
const PREFIXES: [&str; 3] = ["checksum/", "reloader.stakater.com/", "keel.sh/"];

/// Which annotations of a workload's template are restart annotations.
#[derive(Clone, Debug)]
pub struct RestartAnnotations {
    own: OwnList,
    readers: Vec<Reader>,
}

impl RestartAnnotations {
    /// Those of a workload that is to have this template.
    #[must_use]
    pub fn of(workload: &Object, template: &Template) -> Self {
        Self { own: OwnList::of(workload), readers: downward::readers(template.content()) }
    }

    /// Why what differs can't be made to running pods; `None` if all of it can. Of templates that are equal in all that is not an
    /// annotation or an image.
    pub(crate) fn first_native_change(&self, from: &Annotations, to: &Annotations) -> Option<Because> {
        from.differing(to).find_map(|key| {
            if !self.lists(key) {
                let broken = self.own.broken.first().map(|broken| format!("; {broken}")).unwrap_or_default();
                return Some(Because::annotation(key, &broken));
            }
            let reader = self.readers.iter().find(|reader| reader.reads(key))?;
            Some(Because::annotation(key, &format!(", because {} reads it", reader.field)))
        })
    }

    /// Whether a pod of one of these can be brought to the other in place.
    pub(crate) fn allow(&self, from: &Shape, to: &Shape) -> bool {
        from.fixed == to.fixed && self.first_native_change(&from.annotations, &to.annotations).is_none()
    }

    fn lists(&self, key: &str) -> bool {
        !is_read_here(key)
            && (KEYS.contains(&key) || PREFIXES.iter().any(|prefix| key.starts_with(prefix)) || self.own.covers(key))
    }
}

/// Whether hitless itself reads this annotation from pods: it would go on with the old value.
fn is_read_here(key: &str) -> bool {
    key.starts_with(PREFIX) && key != names::CONFIG || key == names::SKIP_RULES
}

#[cfg(test)]
mod tests;
