//! What the authors of DrainPolicies should know: one that can't be obeyed, and one that concerns a pod which another one concerns as
//! well, of which only one counts (docs/contract.md#drain-settings).

use std::collections::BTreeMap;

use hitless_api::event::{EventNote, Severity};
use hitless_api::{GroupKind, ObjectRef};

use crate::mode::PolicyView;
use crate::round::facts::Facts;
use crate::round::features::{Effects, FeatureContext};

/// One note for each policy with something to mend, and one for each that does not count somewhere, with the first pod by name.
pub(crate) fn follow<'a>(context: &FeatureContext<'_, 'a, '_>) -> Effects<'a> {
    let Facts { desired, policies, .. } = context.facts;
    let mut found: BTreeMap<&str, (&str, EventNote)> = BTreeMap::new();
    for wanted in desired.by_pod.values() {
        let Some((counts, ignored)) = policies.conflict(wanted.pod) else { continue };
        let pod = wanted.pod.id.name.as_str();
        if found.get(ignored.uid.as_str()).is_some_and(|(known, _)| *known <= pod) {
            continue;
        }
        let text = format!(
            "of pod {pod} DrainPolicy {} counts and this one does not; let their selectors select different pods",
            counts.name
        );
        found.insert(ignored.uid.as_str(), (pod, note(ignored, "PolicyIgnored", text)));
    }
    let not_usable = policies.not_usable().map(|(policy, error)| {
        note(policy, "InvalidSpec", format!("{error}; the pods that it concerns are not operated until then"))
    });
    Effects::default().telling(found.into_values().map(|(_, note)| note)).telling(not_usable)
}

fn note(policy: &PolicyView, reason: &'static str, text: String) -> EventNote {
    let regarding = ObjectRef {
        group_kind: GroupKind::new("hitless.dev", "DrainPolicy"),
        namespace: policy.namespace.clone(),
        name: policy.name.clone(),
        uid: policy.uid.clone(),
    };
    let regarding = regarding.reference("v1alpha1");
    EventNote { regarding, severity: Severity::Warning, reason, action: "UpdateInPlace", text }
}
