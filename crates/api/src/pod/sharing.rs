//! What many pods have in common, kept once: in a cluster with 150,000 pods it is most of what is known of them.

use std::collections::BTreeMap;

use super::conditions::ConditionWords;
use super::{ContainerSpec, PodView};
use crate::ObjectRef;
use crate::shared::Pool;

/// The different values that pods have.
#[derive(Debug, Default)]
pub struct Sharing {
    maps: Pool<BTreeMap<String, String>>,
    owners: Pool<ObjectRef>,
    containers: Pool<ContainerSpec>,
    images: Pool<String>,
    names: Pool<String>,
    lists: Pool<Vec<String>>,
    words: Pool<ConditionWords>,
}

impl Sharing {
    /// Lets the pod have its values in common with those before.
    pub fn share(&mut self, pod: &mut PodView) {
        self.maps.share(&mut pod.labels);
        self.maps.share(&mut pod.annotations);
        if let Some(owner) = &mut pod.owner {
            self.owners.share(owner);
        }
        for (name, condition) in &mut pod.conditions.0 {
            self.names.share(name);
            self.words.share(&mut condition.words);
        }
        if let Some(init) = &mut pod.init {
            self.lists.share(init);
        }
        for container in &mut pod.containers {
            self.containers.share(&mut container.spec);
            if let Some(status) = &mut container.status {
                self.images.share(&mut status.image);
                self.images.share(&mut status.image_id);
            }
        }
    }
}
