//! Marks on Deployments, ReplicaSets and their pods: labels and annotations of ours and of others.

use hitless_api::names::{annotations, labels};
use hitless_api::pod::PodView;

use super::{Deployment, ReplicaSet};

impl Deployment<'_> {
    /// Whether Reloader has paused it to collect changes, and nobody else holds it.
    pub(crate) fn is_paused_by_reloader(&self) -> bool {
        let since = self.object.annotations.get(annotations::RELOADER_PAUSED_AT);
        self.body.paused && !self.object.held_by_guard() && since.is_some_and(|since| !since.is_empty())
    }

    /// Value of the label [`labels::SETTLED`] for this generation.
    #[must_use]
    pub(super) fn settled_mark(&self) -> String {
        format!("{}.{}", self.id.uid, self.generation)
    }
}

impl<'a> ReplicaSet<'a> {
    /// Whether it is one of ours that only keeps a template for `kubectl rollout undo`.
    #[must_use]
    pub fn is_history(&self) -> bool {
        self.labels.contains_key(labels::HISTORY)
    }

    /// Whether it is marked as the one behind the pods of a held Deployment.
    #[must_use]
    pub fn is_marked_live(&self) -> bool {
        self.labels.contains_key(labels::LIVE)
    }

    /// Digest of the annotations of the template that its pods were made from before the rollout began. Its pods that were brought
    /// to no revision and carry no mark are of that one: a rollout that changes annotations ends only when it has reached every pod.
    /// `None`: the rollout was begun by a version that did not keep it.
    pub(super) fn left(&self) -> Option<&'a str> {
        let ReplicaSet { object, body } = *self;
        if !body.template.is_mixed() {
            return Some(body.template.shape().annotations.digest());
        }
        object.labels.get(labels::LIVE).map(String::as_str).filter(|left| *left != "true")
    }

    /// Digest of the annotations of the template that one of its pods was made from; of one that was brought to no revision since.
    pub(super) fn annotations_of<'p>(&self, pod: &'p PodView) -> Option<&'p str>
    where
        'a: 'p,
    {
        // A version before this one wrote 1 there.
        let mark = pod.annotations.get(annotations::MIXED).map(|mark| mark.split('.').next().unwrap_or(mark));
        mark.filter(|digest| *digest != "1").or_else(|| self.left())
    }

    /// Number of its revision, as the Deployment controller counts.
    pub(super) fn number(&self) -> Option<u64> {
        self.object.annotations.get(annotations::DEPLOYMENT_REVISION)?.parse().ok()
    }

    /// Those of our labels that are on it.
    #[must_use]
    pub fn own_labels(&self) -> Vec<&'static str> {
        let names = [labels::HISTORY, labels::LIVE, labels::SETTLED];
        names.into_iter().filter(|name| self.labels.contains_key(*name)).collect()
    }

    /// The generation of its Deployment at which a rollout was last brought to its end.
    #[must_use]
    pub fn settled_at(&self, deployment: Deployment<'_>) -> Option<i64> {
        let (uid, generation) = self.labels.get(labels::SETTLED)?.rsplit_once('.')?;
        generation.parse().ok().filter(|_| uid == deployment.id.uid)
    }
}
