//! A version that nobody has verified gets onto few pods, whatever the probes say.

use hitless_api::pod::PodView;

use super::{Checks, Operation, image_number};
use crate::server::Server;

/// The image that all pods begin with.
const FIRST: &str = "1";

fn repository(image: &str) -> &str {
    image.split([':', '@']).next().unwrap_or_default()
}

/// Of the only container: repository and number.
fn image(pod: &PodView) -> Option<(&str, &str)> {
    let image = &pod.containers.first()?.image;
    Some((repository(image), image_number(image)?))
}

impl Checks {
    /// A pod is as `view` says now: available with an image, it has verified that.
    pub(super) fn verify(&mut self, view: &PodView) {
        let Some((repository, number)) = image(view).filter(|_| view.available()) else { return };
        let status = view.containers.first().and_then(|container| container.status.as_ref());
        // In a Hold it is Ready with the container of before for a moment.
        if status.is_some_and(|status| image_number(&status.image) == Some(number)) {
            self.verified.insert((view.id.namespace.clone(), repository.to_owned(), number.to_owned()));
        }
    }

    /// Images of a pod are about to be patched by an agent.
    pub(super) fn given(&mut self, server: &Server, before: &PodView, after: &PodView, operation: &Operation) {
        let Some((repository, number)) = image(after) else { return };
        let is_given = operation.forward && image(before).is_some_and(|(_, old)| old != number);
        let truth = self.truth(&before.id.uid);
        truth.given = is_given.then(|| number.to_owned());
        let is_between = truth.between;
        let namespace = &before.id.namespace;
        let is_verified = || self.verified.contains(&(namespace.clone(), repository.to_owned(), number.to_owned()));
        if self.off || !is_given || is_between || number == FIRST || is_verified() {
            return;
        }
        let (mut count, mut bound) = (0, 1);
        for (uid, truth) in self.pods.iter().filter(|(_, truth)| truth.given.as_deref() == Some(number)) {
            let pod = server.pods.get(uid.as_str()).map(|pod| &pod.view).filter(|pod| pod.id.namespace == *namespace);
            // On a node that does not answer it proves nothing.
            let node = pod.and_then(|pod| server.nodes.get(pod.node.as_deref()?));
            if node.is_some_and(|node| node.not_ready_since.is_some()) {
                continue;
            }
            if pod.and_then(|pod| image(pod)).is_some_and(|(other, _)| other == repository) {
                (count, bound) = (count + 1, bound.max(truth.bound));
            }
        }
        if count > bound {
            let what = format!(
                "{count} pods have {repository}:v{number}, with which nobody has been available, and at most {bound} may"
            );
            self.fail(server.now, what);
        }
    }
}
