//! Who wants that no new operation of a workload's pods begins (docs/contract.md#whose-hold).

use std::fmt;

use hitless_api::ObjectRef;
use hitless_api::names::{PAUSED_FALSE, annotations};

use crate::object::Object;

/// Why no operation of a workload's pods begins. What is under way ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// Its annotation `hitless.dev/paused`.
    Annotation,
    /// Its owner has paused the Deployment, as by `kubectl rollout pause`.
    Owner,
    /// Reloader has paused the Deployment to collect changes.
    Reloader,
}

impl Pause {
    /// What lets operations begin again, for people.
    #[must_use]
    pub fn unblock(self, workload: &ObjectRef) -> String {
        let on = workload.arguments();
        match self {
            Self::Annotation => format!("let it go on with: kubectl hitless resume {on}"),
            Self::Owner => format!(
                "let it go on with: kubectl rollout resume {on}; or, if it is to be driven under that pause for good: kubectl annotate {on} \
                 {}={PAUSED_FALSE}",
                annotations::PAUSED
            ),
            Self::Reloader => "it goes on when Reloader resumes it".to_owned(),
        }
    }

    /// Who has paused it, and what lets operations begin again, for people.
    #[must_use]
    pub fn advice(self, workload: &ObjectRef) -> String {
        format!("{self}; {}", self.unblock(workload))
    }
}

impl fmt::Display for Pause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Annotation => "its workload is paused (annotation hitless.dev/paused), so no operation begins",
            Self::Owner => "its owner has paused the Deployment, so no operation begins",
            Self::Reloader => "Reloader has paused the Deployment to collect changes, so no operation begins",
        })
    }
}

impl Object {
    /// Who wants that no operation of its pods begins. An annotation that is not understood stops, too: it was meant as a brake.
    #[must_use]
    pub fn pause(&self) -> Option<Pause> {
        let wanted = self.annotations.get(annotations::PAUSED).map(String::as_str);
        let deployment = self.deployment();
        match wanted {
            // Its pods go, whatever was wanted.
            _ if self.deleting => None,
            Some(value) if value != PAUSED_FALSE => Some(Pause::Annotation),
            _ if deployment.is_some_and(|each| each.is_paused_by_reloader()) => Some(Pause::Reloader),
            Some(_) => None,
            None => deployment.filter(|each| each.body.paused && !self.held_by_guard()).map(|_| Pause::Owner),
        }
    }
}
