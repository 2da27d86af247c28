//! Which images nodes have, and the pods that fetch them.

use std::collections::BTreeMap;
use std::sync::Arc;

use hitless_api::PodRef;
use hitless_rollout::prefetch::{NamePool, NodeImages, PrefetchState, PrefetchView};
use hitless_workloads::{Request, Write, image};
use k8s_openapi::api::core::v1::Pod;

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
    /// A pod that fetches an image is made or deleted.
    pub(super) fn prefetch(&mut self, at: &Key, write: &Write) -> Result<Option<Object>, Refusal> {
        let Request::Create(manifest) = &write.request else {
            if self.prefetches.get(at).is_none_or(|known| known.pod.uid != write.on.uid) {
                return Err(Refusal::Gone);
            }
            self.remove_prefetch(at);
            return Ok(None);
        };
        self.admit_helper(&write.on.namespace)?;
        if self.prefetches.contains_key(at) {
            return Err(Refusal::Conflict);
        }
        let pod = serde_json::from_value::<Pod>(manifest.clone()).ok();
        let view = pod.as_ref().and_then(PrefetchView::of).ok_or(Refusal::Denied("no pod that fetches an image"))?;
        let pod = PodRef { uid: format!("uid-{}", self.version + 1), ..view.pod.clone() };
        let (created, state) = (Some(self.stamp()), PrefetchState::Pulling);
        Ok(Some(self.put_prefetch(PrefetchView { pod, created, state, given: None, ..view })))
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
