//! Workloads with a pod that can't be operated, because what is wanted of its drain, mode or hooks makes no sense. Their owners
//! are told as soon as such a pod is seen, and not when the images change.

use hitless_api::event::{EventNote, Severity};
use hitless_workloads::registry;

use crate::round::facts::Facts;
use crate::round::features::{Effects, FeatureContext};

pub(crate) fn follow<'a>(context: &FeatureContext<'_, 'a, '_>) -> Effects<'a> {
    let Facts { desired, inoperable, .. } = context.facts;
    let notes = inoperable.iter().map(|(index, why)| {
        let workload = &desired.plans[*index].workload;
        EventNote {
            regarding: workload.reference(registry::version(&workload.group_kind)),
            severity: Severity::Warning,
            reason: why.reason(),
            action: "UpdateInPlace",
            text: format!("at least one of its pods can't be operated: {}", why.text()),
        }
    });
    Effects::default().telling(notes)
}
