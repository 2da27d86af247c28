//! Kubelets that pull images for prefetch pods, and what Nodes say of the images that they have.

use hitless_rollout::prefetch::{PrefetchState, PrefetchView};
use hitless_rollout::snapshot::NodeView;

use super::{Job, Kubernetes};
use crate::checks::image_number;
use crate::clock::SECOND;
use crate::faults::Fault;
use crate::ground::Ground;
use crate::kubelet::Image;
use crate::server::by_digest;
use crate::trace::Who;
use crate::watch::Key;

impl Kubernetes {
    /// A kubelet has tried to pull an image.
    pub(super) fn pulled(&mut self, at: &Key, ground: &mut Ground) {
        let Some(pod) = ground.server.prefetches.get(at).cloned() else { return };
        if !self.usable.iter().any(|node| format!("n{node}") == pod.node) {
            return self.later(ground.now + SECOND, Job::Pulled(at.clone()));
        }
        let kind = ground.images.get(image_number(&pod.image).unwrap_or_default());
        let is_missing = kind == Some(&Image::Missing);
        let fails = is_missing || ground.chance.happens(ground.weather.pull_fails);
        let wall = ground.wall(0);
        let state = if fails {
            if !is_missing {
                ground.fault(Fault::PullFailed);
                let again = ground.now + ground.chance.delay(SECOND, 90 * SECOND);
                self.later(again, Job::Pulled(at.clone()));
            }
            PrefetchState::Failed { reason: "ErrImagePull".to_owned(), message: "no such image".to_owned() }
        } else {
            ground.server.images.pulled(ground.now, &pod.node, &pod.image);
            let due = ground.now + ground.chance.delay(SECOND, 12 * SECOND);
            self.later(due, Job::NodeImages(pod.node.clone()));
            PrefetchState::Fetched { at: Some(wall), image_id: by_digest(&pod.image) }
        };
        ground.say(Who::Kubernetes, || format!("{}: {} {state:?}", pod.node, pod.image));
        ground.server.put_prefetch(PrefetchView { state, ..PrefetchView::clone(&pod) });
    }
}

/// A node's status says which images it has.
pub(super) fn node_images(node: &str, ground: &mut Ground) {
    let images = ground.server.images.of(node);
    if let Some(known) = ground.server.nodes.get(node).filter(|known| known.images != images) {
        let known = NodeView { images, ..NodeView::clone(known) };
        ground.server.put_node(known);
    }
}
