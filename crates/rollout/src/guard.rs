//! Whether the admission policies are there that keep native controllers from rolling what has opted in. Without them a change of a
//! template rolls natively, at once and in silence.

use std::collections::BTreeSet;
use std::sync::Arc;

use hitless_api::event::{EventNote, Severity};
use hitless_workloads::{KINDS, Kind, Object, OptIn, registry};

use crate::snapshot::Snapshot;

/// Label of these policies and of their bindings.
pub const LABEL: &str = "hitless.dev/guard";

/// What is there of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guards {
    /// Names of policies, mutating and validating ones.
    pub policies: BTreeSet<String>,
    /// Names of their bindings.
    pub bindings: BTreeSet<String>,
}

impl Guards {
    /// Why workloads of that kind are not kept from rolling natively, if they are not.
    #[must_use]
    pub fn missing(&self, kind: &dyn Kind) -> Option<String> {
        let guard = kind.guard()?;
        let names = [guard.holds, guard.refuses];
        if names.iter().any(|name| self.policies.contains(*name) && self.bindings.contains(*name)) {
            return None;
        }
        Some(match names.iter().find(|name| self.policies.contains(**name)) {
            Some(name) => format!("admission policy {name} has no binding"),
            None => format!("there is neither admission policy {} nor {}", guard.holds, guard.refuses),
        })
    }

    /// Those of these that have opted in and that nothing keeps from rolling natively, and why.
    pub fn unguarded<'a>(&self, objects: &'a [Arc<Object>]) -> impl Iterator<Item = (&'a Object, String)> {
        let kinds = KINDS.iter().filter_map(|kind| Some((*kind, self.missing(*kind)?)));
        kinds.flat_map(move |(kind, why)| {
            let own = kind.resources().first().map(|resource| &resource.group_kind);
            let of_kind = objects.iter().filter(move |object| Some(&object.id.group_kind) == own);
            let opted = of_kind.filter(|object| object.opt_in() != OptIn::No && !object.deleting);
            opted.map(move |object| (&**object, format!("{why}: {TO_DO}")))
        })
    }
}

/// What follows, and what to do about it.
const TO_DO: &str = "a change of a template is not held: the native controller rolls it at once, and requests are lost; install hitless \
                     again: kubectl apply -k manifests (Kubernetes 1.36), or overlays/refusing, or overlays/v1beta1 (manifests/README.md)";

/// For people, on each of them.
pub(crate) fn notes(snapshot: &Snapshot) -> Vec<EventNote> {
    let note = |(object, text): (&Object, String)| EventNote {
        regarding: object.id.reference(registry::version(&object.id.group_kind)),
        severity: Severity::Warning,
        reason: "NoGuard",
        action: "Observe",
        text,
    };
    snapshot.guards.iter().flat_map(|guards| guards.unguarded(&snapshot.objects)).map(note).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn workload(group_kind: &str, annotation: &str) -> Arc<Object> {
        let object = json!({"apiVersion": "apps/v1", "kind": group_kind,
            "metadata": {"namespace": "shop", "name": "web", "uid": group_kind, "annotations": {(annotation): "in-place"}},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "updateStrategy": {"type": "RollingUpdate"},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}}}});
        Arc::new(registry::read(object).unwrap().unwrap())
    }

    fn snapshot(guards: Option<Guards>) -> Snapshot {
        let objects = vec![
            workload("Deployment", "hitless.dev/update"),
            workload("StatefulSet", "hitless.dev/update"),
            workload("DaemonSet", "example.com/update"),
        ];
        Snapshot { objects, guards, ..Snapshot::default() }
    }

    #[test]
    fn who_opted_in_and_is_kept_by_nothing_is_told_and_nobody_where_it_is_not_known() {
        let kinds = |guards| notes(&snapshot(guards)).into_iter().map(|note| note.text).collect::<Vec<_>>();
        assert!(kinds(None).is_empty(), "it is not known");
        let nothing = kinds(Some(Guards::default()));
        assert_eq!(nothing.len(), 2, "{nothing:?}");
        assert!(
            nothing[0].starts_with("there is neither admission policy hitless-guard nor hitless-refuse-deployments: ")
        );
        let held = names(&["hitless-guard", "hitless-refuse-statefulsets"]);
        assert!(kinds(Some(Guards { policies: held.clone(), bindings: held.clone() })).is_empty(), "either will do");
        let unbound = kinds(Some(Guards { policies: held, bindings: names(&["hitless-guard"]) }));
        assert!(unbound[0].starts_with("admission policy hitless-refuse-statefulsets has no binding: "), "{unbound:?}");
    }
}
