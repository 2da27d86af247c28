//! DrainPolicies that concern a pod which another one concerns as well: only one of them counts (docs/contract.md 13).

use std::collections::BTreeMap;

use crate::mode::Policies;
use hitless_api::event::{EventNote, Severity};
use k8s_openapi::api::core::v1::ObjectReference;

use super::wishes::Wishes;

/// One note for each policy that does not count somewhere, with the first pod by name.
pub(super) fn notes(wishes: &Wishes<'_>, policies: &Policies<'_>) -> Vec<EventNote> {
    let mut found: BTreeMap<&str, (&str, EventNote)> = BTreeMap::new();
    for wish in wishes.by_pod.values() {
        let Some((counts, ignored)) = policies.conflict(wish.pod) else { continue };
        let pod = wish.pod.id.name.as_str();
        if found.get(ignored.uid.as_str()).is_some_and(|(known, _)| *known <= pod) {
            continue;
        }
        let regarding = ObjectReference {
            api_version: Some("hitless.dev/v1alpha1".to_owned()),
            kind: Some("DrainPolicy".to_owned()),
            namespace: Some(ignored.namespace.clone()),
            name: Some(ignored.name.clone()),
            uid: Some(ignored.uid.clone()),
            ..ObjectReference::default()
        };
        let text = format!(
            "of pod {pod} DrainPolicy {} counts and this one does not; let their selectors select different pods",
            counts.name
        );
        let note = EventNote {
            regarding,
            severity: Severity::Warning,
            reason: "PolicyIgnored",
            action: "UpdateInPlace",
            text,
        };
        found.insert(ignored.uid.as_str(), (pod, note));
    }
    found.into_values().map(|(_, note)| note).collect()
}
