//! Which images nodes say they have.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use hitless_workloads::image;

/// The images in a Node's status: the largest fifty, unless the kubelet is told otherwise. One that is not listed may be there
/// all the same. With each name by tag the one by digest, where there is one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeImages(BTreeMap<Arc<str>, Option<Arc<str>>>);

impl NodeImages {
    /// Of `status.images[].names`: the names of each image. Names that several nodes have are kept once.
    pub fn of<'a, N: IntoIterator<Item = &'a str>>(images: impl IntoIterator<Item = N>, pool: &mut NamePool) -> Self {
        let mut all = BTreeMap::new();
        for names in images {
            let names: Vec<Arc<str>> = names.into_iter().map(|name| pool.shared(&image::canonical(name))).collect();
            for name in &names {
                let mut by_digest = names.iter().filter(|other| image::digest_of(other).is_some());
                let by_digest = by_digest.find(|other| image::is_same_repository(name, other));
                all.insert(name.clone(), by_digest.cloned());
            }
        }
        Self(all)
    }

    /// Whether it has the image with this [`image::canonical`] name.
    #[must_use]
    pub fn has(&self, canonical: &str) -> bool {
        self.0.contains_key(canonical)
    }

    /// Digest of the image with this [`image::canonical`] name.
    #[must_use]
    pub fn digest(&self, canonical: &str) -> Option<&str> {
        self.0.get(canonical)?.as_deref().and_then(image::digest_of)
    }
}

/// Names of images, each once: thousands of nodes have the same ones.
#[derive(Debug, Default)]
pub struct NamePool {
    names: HashSet<Arc<str>>,
    /// With so many names it is looked which are still used.
    limit: usize,
}

impl NamePool {
    /// Names that are kept without looking whether they are used.
    const SMALL: usize = 1000;

    fn shared(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.names.get(name) {
            return known.clone();
        }
        if self.names.len() >= self.limit.max(Self::SMALL) {
            self.names.retain(|name| Arc::strong_count(name) > 1);
            self.limit = self.names.len() * 2;
        }
        let name: Arc<str> = Arc::from(name);
        self.names.insert(name.clone());
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_share_the_names_and_unused_ones_are_forgotten() {
        let mut pool = NamePool::default();
        let one = NodeImages::of([vec!["r.io/web:v1", "r.io/web@sha256:11"], vec!["nginx"]], &mut pool);
        let other = NodeImages::of([["r.io/web:v1"]], &mut pool);
        assert_eq!((one.digest("r.io/web:v1"), other.digest("r.io/web:v1")), (Some("sha256:11"), None));
        assert!(one.has("docker.io/library/nginx:latest") && other.has("r.io/web:v1") && !other.has("r.io/web:v2"));
        assert_eq!(pool.names.len(), 3);
        for number in 0..5000 {
            NodeImages::of([[format!("r.io/web:{number}").as_str()]], &mut pool);
        }
        assert!(pool.names.len() <= NamePool::SMALL, "{}", pool.names.len());
        assert!(one.has("r.io/web:v1"));
        assert!(pool.names.contains("r.io/web:v1"), "it is still used");
    }
}
