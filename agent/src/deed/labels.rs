//! Labels and annotations, set by the agent on a pod that stays in service; nothing is replaced.

use hitless_api::pod::PodView;
use hitless_api::{Change, Grant, JsonPatch};

use super::{Progress, Reason, metadata};
use crate::decision::Direction;
use crate::view::NodePod;

/// Labels and annotations of a grant.
#[derive(Clone, Copy, Debug)]
pub struct Labels<'a> {
    grant: &'a Grant,
}

impl<'a> Labels<'a> {
    pub(super) const fn new(grant: &'a Grant) -> Self {
        Self { grant }
    }

    pub(super) fn flaw(self) -> Option<Reason<'static>> {
        let Grant { containers, labels, annotations, .. } = self.grant;
        if !containers.is_empty() {
            return Some((
                "UnsupportedOp",
                "a change of labels replaces no container, and the grant names some".to_owned(),
            ));
        }
        let changes_none = labels.values().chain(annotations.values()).all(|change| change.from == change.to);
        changes_none.then(|| ("NoChange", "the grant changes neither a label nor an annotation".to_owned()))
    }

    pub(super) fn refusal(self, pod: &PodView) -> Option<Reason<'static>> {
        metadata::refusal(self.grant, pod)
    }

    /// The patch sets all of them at once.
    pub(super) fn progress(self, pod: &PodView) -> Progress {
        let are = |is: fn(&Change, Option<&String>) -> bool| {
            let mut labels = self.grant.labels.iter().map(|(key, change)| (pod.labels.get(key), change));
            let own = metadata::own(self.grant).map(|(key, change)| (pod.annotations.get(key), change));
            labels.all(|(present, change)| is(change, present))
                && own.into_iter().all(|(present, change)| is(change, present))
        };
        if are(|change, value| value == change.to.as_ref()) {
            Progress::Patched
        } else if are(|change, value| change.from.is_none() || value == change.from.as_ref()) {
            Progress::NotPatched
        } else {
            let words = "some labels or annotations have neither the value before nor, all of them, the one after";
            Progress::Other("MetadataChanged", words.to_owned())
        }
    }

    /// Fails unless the pod is still the one that was looked at.
    pub(super) fn patch(self, pod: &NodePod, direction: Direction) -> JsonPatch {
        let patch =
            JsonPatch::of(&pod.view.id.uid).test(&["metadata", "resourceVersion"], pod.view.resource_version.as_str());
        metadata::patch(patch, self.grant, pod, direction, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deed::Deed;
    use k8s_openapi::api::core::v1::Pod;
    use kube::api::Patch;
    use serde_json::{Value, json};

    fn grant(op: &str, containers: &Value, labels: &Value) -> Grant {
        serde_json::from_value(json!({
            "id": "g", "epoch": 1, "pod": {"namespace": "n", "name": "p", "uid": "u-1"}, "op": op, "mode": "Stay",
            "containers": containers, "labels": labels, "annotations": {"hitless.dev/revision": {"from": "r1", "to": "r2"}},
            "before": {}, "drain": {}, "verify": {}, "granted": "2026-01-01T00:00:00.000000Z", "ttlSeconds": 60,
        }))
        .unwrap()
    }

    fn relabel() -> Grant {
        grant(
            "Relabel",
            &json!({}),
            &json!({"chart": {"from": "1", "to": "2"}, "old": {"from": "a"}, "new": {"to": "b"}}),
        )
    }

    fn pod(labels: &Value, revision: &str) -> NodePod {
        let pod = json!({"metadata": {"name": "p", "namespace": "n", "uid": "u-1", "resourceVersion": "7", "labels": labels,
            "annotations": {"hitless.dev/revision": revision}}, "spec": {"containers": [{"name": "c", "image": "c:1"}]}});
        NodePod::from(&serde_json::from_value::<Pod>(pod).unwrap())
    }

    #[test]
    fn it_is_patched_when_all_of_it_is_there_and_the_patch_goes_both_ways() {
        let grant = relabel();
        let deed = Deed::of(&grant);
        let (before, after) =
            (json!({"chart": "1", "old": "a", "app": "x"}), json!({"chart": "2", "new": "b", "app": "x"}));
        assert_eq!(deed.progress(&pod(&before, "r1").view), Progress::NotPatched);
        assert_eq!(deed.progress(&pod(&after, "r2").view), Progress::Patched);
        for (labels, revision) in [(&before, "r2"), (&after, "r1"), (&json!({"chart": "3"}), "r1")] {
            let progress = deed.progress(&pod(labels, revision).view);
            assert!(matches!(progress, Progress::Other("MetadataChanged", _)), "{progress:?}");
        }
        assert_eq!(deed.containers(&pod(&before, "r1").view).count(), 0, "nothing is replaced");
        let operations = |labels: &Value, revision: &str, direction| {
            let Patch::Json(patch) = deed.patch(&pod(labels, revision), direction).build() else {
                panic!("not a JSON patch")
            };
            let mut operations = serde_json::to_value(patch).unwrap();
            // For the API server that is a test for absence.
            let is_kept = |operation: &Value| operation["op"] != "test" || !operation["value"].is_null();
            operations.as_array_mut().unwrap().retain(is_kept);
            operations
        };
        for (from, to, revisions, direction) in
            [(&before, &after, ("r1", "r2"), Direction::Forward), (&after, &before, ("r2", "r1"), Direction::Back)]
        {
            let patch: json_patch::Patch = serde_json::from_value(operations(from, revisions.0, direction)).unwrap();
            let mut object = json!({"metadata": {"uid": "u-1", "resourceVersion": "7", "labels": from,
                "annotations": {"hitless.dev/revision": revisions.0}}});
            json_patch::patch(&mut object, &patch).unwrap();
            assert_eq!(&object["metadata"]["labels"], to);
            assert_eq!(object["metadata"]["annotations"]["hitless.dev/revision"], revisions.1);
        }
    }

    /// Views of pods do not have these annotations: whatever somebody else has set there becomes what the template says.
    #[test]
    fn annotations_of_a_template_become_what_it_says_whatever_they_are() {
        let mut grant = relabel();
        grant.labels.clear();
        let change =
            |from: Option<&str>, to: Option<&str>| Change { from: from.map(Into::into), to: to.map(Into::into) };
        grant.annotations.insert("release".to_owned(), change(Some("1"), Some("2")));
        grant.annotations.insert("gone".to_owned(), change(Some("x"), None));
        let deed = Deed::of(&grant);
        assert_eq!(deed.refusal(&pod(&json!({}), "r1").view), None);
        for (revision, release, direction, expected) in [
            ("r1", "7", Direction::Forward, json!({"hitless.dev/revision": "r2", "release": "2"})),
            ("r2", "2", Direction::Back, json!({"hitless.dev/revision": "r1", "release": "1", "gone": "x"})),
        ] {
            let Patch::Json(patch) = deed.patch(&pod(&json!({"app": "x"}), revision), direction).build() else {
                panic!()
            };
            let mut object = json!({"metadata": {"uid": "u-1", "resourceVersion": "7", "labels": {"app": "x"},
                "annotations": {"hitless.dev/revision": revision, "release": release, "gone": "y"}}});
            json_patch::patch(&mut object, &patch).unwrap();
            assert_eq!(object["metadata"]["annotations"], expected);
        }
    }

    #[test]
    fn a_grant_that_replaces_something_or_changes_nothing_is_flawed() {
        assert_eq!(Deed::of(&relabel()).flaw(), None);
        let replaces = grant("Relabel", &json!({"c": {"from": "c:1", "to": "c:2"}}), &json!({}));
        assert_eq!(Deed::of(&replaces).flaw().unwrap().0, "UnsupportedOp");
        let mut nothing = grant("Relabel", &json!({}), &json!({}));
        nothing.annotations.clear();
        assert_eq!(Deed::of(&nothing).flaw().unwrap().0, "NoChange");
    }
}
