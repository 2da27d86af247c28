//! Which images nodes have, and the pods that fetch them.

use std::collections::BTreeMap;
use std::sync::Arc;

use hitless_api::PodRef;
use hitless_rollout::prefetch::{NamePool, NodeImages, PrefetchState, PrefetchView};
use hitless_rollout::round::PrefetchWrite;
use hitless_workloads::image;

use super::{Change, Kind, Object, Refusal, Server, Told, key};
use crate::checks::image_number;
use crate::clock::Micros;
use crate::watch::Key;

/// The images that nodes really have, by name of the node, and when the registry was last asked for them.
#[derive(Default)]
pub(crate) struct NodesImages(BTreeMap<String, BTreeMap<String, Micros>>);

impl NodesImages {
    /// When the registry was last asked for it.
    pub(crate) fn asked_at(&self, node: &str, reference: &str) -> Option<Micros> {
        self.0.get(node)?.get(&image::canonical(reference)).copied()
    }

    /// The image was pulled: it is there by its tag and by its digest.
    pub(crate) fn pulled(&mut self, now: Micros, node: &str, reference: &str) {
        let images = self.0.entry(node.to_owned()).or_default();
        images.extend([(image::canonical(reference), now), (by_digest(reference), now)]);
    }

    /// The node is gone.
    pub(super) fn lose(&mut self, node: &str) {
        self.0.remove(node);
    }

    /// As the Node's status says.
    pub(crate) fn of(&self, node: &str) -> NodeImages {
        let names = self.0.get(node).into_iter().flat_map(BTreeMap::keys);
        let by_tag = names.filter(|name| image::digest_of(name).is_none());
        let images = by_tag.map(|name| [name.clone(), by_digest(name)]);
        let images: Vec<[String; 2]> = images.collect();
        NodeImages::of(images.iter().map(|names| names.iter().map(String::as_str)), &mut NamePool::default())
    }
}

/// The name by its digest: what an image is follows from its number.
pub(crate) fn by_digest(reference: &str) -> String {
    let repository = reference.split([':', '@']).next().unwrap_or_default();
    image::canonical(&format!("{repository}@sha256:{}", image_number(reference).unwrap_or_default()))
}

impl Server {
    pub(super) fn prefetch(&mut self, write: PrefetchWrite) -> Result<Option<Object>, Refusal> {
        match write {
            PrefetchWrite::Create { pull, attempt, resources: _, owner: _ } => {
                self.admit_helper(&pull.namespace)?;
                let name = pull.pod_name(attempt);
                let at = key(&pull.namespace, &name);
                if self.prefetches.contains_key(&at) {
                    return Err(Refusal::Conflict);
                }
                let made = self.version + 1;
                let pod = PodRef { namespace: pull.namespace.clone(), name, uid: format!("uid-{made}") };
                let view = PrefetchView {
                    pod,
                    key: pull.key(),
                    attempt,
                    node: pull.node,
                    image: pull.image,
                    rewritten: None,
                    given: None,
                    created: Some(self.stamp()),
                    deleting: false,
                    state: PrefetchState::Pulling,
                };
                Ok(Some(self.put_prefetch(view)))
            }
            PrefetchWrite::Delete(pod) => {
                let at = key(&pod.namespace, &pod.name);
                if self.prefetches.get(&at).is_none_or(|known| known.pod.uid != pod.uid) {
                    return Err(Refusal::Gone);
                }
                self.remove_prefetch(&at);
                Ok(None)
            }
        }
    }

    pub(crate) fn put_prefetch(&mut self, view: PrefetchView) -> Object {
        let version = self.quiet_bump();
        let (at, object) = (key(&view.pod.namespace, &view.pod.name), Arc::new(view));
        self.prefetches.insert(at.clone(), object.clone());
        self.tell(at, version, Object::Prefetch(object.clone()));
        Object::Prefetch(object)
    }

    fn remove_prefetch(&mut self, at: &Key) {
        if self.prefetches.remove(at).is_some() {
            let version = self.quiet_bump();
            self.outbox.push(Change { version, key: at.clone(), what: Told::Deleted(Kind::Prefetch), node: None });
        }
    }

    /// With their node they go, too.
    pub(super) fn remove_prefetches_of(&mut self, node: &str) {
        let own = self.prefetches.iter().filter(|(_, each)| each.node == node).map(|(at, _)| at.clone());
        for at in own.collect::<Vec<_>>() {
            self.remove_prefetch(&at);
        }
    }

    /// An image that can't be pulled is tried again for ever, which is no unrest.
    fn quiet_bump(&mut self) -> u64 {
        let before = self.changed_at;
        let version = self.bump();
        self.changed_at = before;
        version
    }
}
