//! Image references: which ones mean the same image, and another name for the image that runs.

use std::borrow::Cow;

use hitless_api::digest;
use hitless_api::pod::ContainerView;

/// Between a tag and what [`pinned`] adds to it.
const FRESH: &str = ".hitless-";
/// Longest tag, in bytes.
const LONGEST_TAG: usize = 128;
const DEFAULT_TAG: &str = "latest";

/// A reference taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reference<'a> {
    name: &'a str,
    tag: Option<&'a str>,
    digest: Option<&'a str>,
}

impl<'a> Reference<'a> {
    fn parse(text: &'a str) -> Self {
        let (rest, digest) = text.split_once('@').map_or((text, None), |(rest, digest)| (rest, Some(digest)));
        // A colon before the last slash belongs to the registry's port.
        let after_slash = rest.rfind('/').map_or(0, |slash| slash + 1);
        match rest[after_slash..].find(':') {
            Some(colon) => {
                Self { name: &rest[..after_slash + colon], tag: Some(&rest[after_slash + colon + 1..]), digest }
            }
            None => Self { name: rest, tag: None, digest },
        }
    }

    /// The name with registry and namespace written out, as the runtime reports it.
    fn repository(&self) -> Cow<'a, str> {
        let (host, path) = match self.name.split_once('/') {
            Some((host, path)) if host.contains(['.', ':']) || host == "localhost" => (host, path),
            _ => ("docker.io", self.name),
        };
        match host {
            "docker.io" | "index.docker.io" if !path.contains('/') => Cow::Owned(format!("docker.io/library/{path}")),
            "docker.io" | "index.docker.io" => Cow::Owned(format!("docker.io/{path}")),
            _ => Cow::Borrowed(self.name),
        }
    }
}

/// Digest of the image that the container runs, if the runtime knows one. The runtime names it under any repository from which the
/// node has the image: where an image was copied to several, not always under the one that the spec names. So nothing says yet
/// that the image can be asked for by it there: like every image that a pod is brought to, it has to be shown to be on the node
/// (docs/contract.md#images-first).
#[must_use]
pub fn running_digest(container: &ContainerView) -> Option<&str> {
    digest_of(&container.status.as_ref()?.image_id)
}

/// Name and tag of a reference, without its digest.
#[must_use]
pub fn name_and_tag(reference: &str) -> (&str, Option<&str>) {
    let Reference { name, tag, digest: _ } = Reference::parse(reference);
    (name, tag)
}

/// Whether both references, or image ids, name the same repository.
#[must_use]
pub fn is_same_repository(one: &str, other: &str) -> bool {
    let repository = |text: &str| Reference::parse(without_scheme(text)).repository().into_owned();
    repository(one) == repository(other)
}

/// An image id without `docker-pullable://`.
fn without_scheme(text: &str) -> &str {
    text.split_once("://").map_or(text, |(_, rest)| rest)
}

/// The digest that a reference or an image id names.
#[must_use]
pub fn digest_of(reference: &str) -> Option<&str> {
    Reference::parse(reference).digest
}

/// The reference as it was before [`pinned`].
#[must_use]
pub fn unpinned(reference: &str) -> String {
    let Reference { name, tag, .. } = Reference::parse(reference);
    tag.map_or_else(|| name.to_owned(), |tag| format!("{name}:{}", without_fresh(tag)))
}

fn without_fresh(tag: &str) -> &str {
    tag.split_once(FRESH).map_or(tag, |(tag, _)| tag)
}

/// Whether the tag is `template`'s, with what [`pinned`] has written behind it: of a long one only the beginning was kept.
fn is_tag_of(tag: &str, template: &str) -> bool {
    let (own, wanted) = (without_fresh(tag), without_fresh(template));
    own == wanted || (tag.len() == LONGEST_TAG && own.len() < tag.len() && wanted.starts_with(own))
}

/// The reference pinned to a digest: the only function that writes one. `manifests/policies/controller-companion.yaml` is the only one that
/// admits it, and `hitless_world::images` the table for both.
///
/// With a token its tag gets an end that no earlier reference had: the kubelet's back-off goes by
/// pod, container and a hash of its spec, so a reference that comes again soon may wait. The runtime ignores a tag where a digest
/// stands beside it.
#[must_use]
pub fn pinned(reference: &str, digest: &str, token: Option<&str>) -> String {
    let Reference { name, tag, .. } = Reference::parse(reference);
    let tag = tag.map(without_fresh);
    match (tag, token) {
        (tag, Some(token)) => {
            let end = format!("{FRESH}{}", digest::short(&serde_json::Value::from(token)));
            let tag: String = tag.unwrap_or(DEFAULT_TAG).chars().take(LONGEST_TAG - end.len()).collect();
            format!("{name}:{tag}{end}@{digest}")
        }
        (Some(tag), None) => format!("{name}:{tag}@{digest}"),
        (None, None) => format!("{name}@{digest}"),
    }
}

/// What a node has to have so that a container of this image starts: `<repository>@<digest>`, or `<repository>:<tag>` where the
/// reference names no digest; with registry and namespace written out.
#[must_use]
pub fn canonical(reference: &str) -> String {
    let parsed = Reference::parse(without_scheme(reference));
    let repository = parsed.repository();
    match parsed.digest {
        Some(digest) => format!("{repository}@{digest}"),
        None => format!("{repository}:{}", parsed.tag.unwrap_or(DEFAULT_TAG)),
    }
}

/// What the node has, because the container runs there: its image by name and by digest, both [`canonical`]. Its spec proves nothing:
/// it may name another image already. Nothing for a container that does not run: its image may have been removed since.
pub fn proven(container: &ContainerView) -> impl Iterator<Item = String> {
    let status = container.status.as_ref().filter(|_| is_running(container));
    let by_id = status.map(|status| status.image_id.as_str()).filter(|id| id.contains('@'));
    status.map(|status| status.image.as_str()).into_iter().chain(by_id).map(canonical)
}

/// The digest that the reference means on the node, because a container of this image runs there.
#[must_use]
pub fn running_as<'c>(container: &'c ContainerView, reference: &str) -> Option<&'c str> {
    let status = container.status.as_ref().filter(|_| is_running(container))?;
    let is_same =
        canonical(&status.image) == canonical(reference) && is_same_repository(&status.image, &status.image_id);
    is_same.then(|| digest_of(&status.image_id)).flatten()
}

/// Whether the container runs, so that its image is on the node.
#[must_use]
pub fn is_running(container: &ContainerView) -> bool {
    container.status.as_ref().is_some_and(|status| status.running_since.is_some())
}

/// Whether the container's image is the one that `target` names: by reference, or by digest (docs/contract.md#pod-revision). Where a digest
/// stands beside a tag on one side only, the tags decide, because that is what a restart makes of a name.
#[must_use]
pub fn is_same(container: &ContainerView, target: &str) -> bool {
    if container.image == target {
        return true;
    }
    let (now, then) = (Reference::parse(&container.image), Reference::parse(target));
    if now.repository() != then.repository() {
        return false;
    }
    let same_tag = is_tag_of(now.tag.unwrap_or(DEFAULT_TAG), then.tag.unwrap_or(DEFAULT_TAG));
    match (now.digest, then.digest) {
        (Some(now), Some(then)) => now == then,
        (None, Some(then)) => running_digest(container) == Some(then),
        // `repo@digest` alone says nothing about a tag.
        (Some(_), None) => same_tag && (now.tag.is_some() || then.tag.is_none()),
        (None, None) => same_tag,
    }
}

/// Another name for the image that the container runs, so that the kubelet restarts the container. `token` names the request.
///
/// A name that was started before may be in the kubelet's back-off, which goes by pod, container and a hash of its spec; so
/// the first alias pins the name as written to its digest, and every later one takes a fresh tag in front of the same digest.
/// `None` where the digest is not known, or is none by which the node or a registry has the image under this name.
#[must_use]
pub fn alias(container: &ContainerView, token: &str) -> Option<String> {
    match digest_of(&container.image) {
        Some(digest) => Some(pinned(&container.image, digest, Some(token))),
        None if is_imported(container) => None,
        None => running_digest(container).map(|digest| pinned(&container.image, digest, None)),
    }
}

/// Whether a mirror may have the image under this name: the last part of the path, tag and digest are the same.
pub(crate) fn is_of_mirror(is: &str, wanted: &str) -> bool {
    is.rsplit('/').next() == wanted.rsplit('/').next()
}

/// Whether it is known which image the container has, and that there is no [`alias`] of it.
#[must_use]
pub fn has_no_other_name(container: &ContainerView) -> bool {
    let is_known = container.status.as_ref().is_some_and(|status| !status.image_id.is_empty());
    is_known && alias(container, "").is_none()
}

/// Whether the image was loaded into the node from a file. containerd then makes up a repository for its digest, with the day's date
/// (`import-2026-11-26`, client/import.go, `kind load`), under which no registry has it, and the node has it under no other one.
fn is_imported(container: &ContainerView) -> bool {
    let id = container.status.as_ref().map_or("", |status| status.image_id.as_str());
    let date =
        Reference::parse(without_scheme(id)).name.rsplit('/').next().and_then(|name| name.strip_prefix("import-"));
    date.is_some_and(|date| date.len() == 10 && date.chars().all(|c| c.is_ascii_digit() || c == '-'))
}

/// Whether the runtime names the container's image by another repository than its spec: the node may have it under that one only.
#[must_use]
pub fn is_under_another_name(container: &ContainerView) -> bool {
    container.status.as_ref().is_some_and(|status| {
        digest_of(&status.image_id).is_some() && !is_same_repository(&container.image, &status.image_id)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hitless_api::pod::{ContainerSpec, ContainerState, Place};

    const D1: &str = "sha256:1111";
    const D2: &str = "sha256:2222";

    fn container(image: &str, image_id: &str) -> ContainerView {
        let spec = ContainerSpec {
            name: "c".into(),
            place: Place::Container(0),
            image: image.into(),
            pull_policy: hitless_api::PullPolicy::default(),
            ports: vec![],
            probe_periods: vec![],
            delays_ready: false,
            resources: None,
            start_seconds: 0,
        };
        ContainerView {
            spec: spec.into(),
            status: Some(ContainerState {
                container_id: "containerd://1".into(),
                image: image.into(),
                image_id: image_id.into(),
                ready: true,
                running_since: None,
                last_ended: None,
                waiting: None,
                trouble: None,
                restarts: 0,
            }),
        }
    }

    #[test]
    fn the_same_image_under_different_names() {
        let table = [
            ("r.io:5000/web:v1", "", "r.io:5000/web:v1", true),
            ("r.io:5000/web:v1", "", "r.io:5000/web:v2", false),
            ("r.io:5000/web", "", "r.io:5000/web:latest", true),
            ("r.io:5000/web", "", "r.io:5000/other", false),
            ("nginx:1", "", "docker.io/library/nginx:1", true),
            ("library/nginx:1", "", "index.docker.io/library/nginx:1", true),
            ("localhost/nginx:1", "", "nginx:1", false),
            ("r.io/web:v1@sha256:1111", "", "r.io/web:v1", true),
            ("r.io/web:v1@sha256:1111", "", "r.io/web:v2", false),
            ("r.io/web@sha256:1111", "", "r.io/web:v1", false),
            ("r.io/web@sha256:1111", "", "r.io/web", true),
            ("r.io/web:v1", "r.io/web@sha256:1111", "r.io/web@sha256:1111", true),
            ("r.io/web:v1", "r.io/web@sha256:1111", "r.io/web:v9@sha256:2222", false),
            ("r.io/web:v1", "sha256:1111", "r.io/web@sha256:1111", false),
            ("r.io/web:latest.hitless-x@sha256:1111", "", "r.io/web@sha256:1111", true),
            ("r.io/web:latest.hitless-x@sha256:1111", "", "r.io/web", true),
            ("", "", "", true),
        ];
        for (image, id, target, same) in table {
            assert_eq!(is_same(&container(image, id), target), same, "{image} ({id}) and {target}");
        }
    }

    #[test]
    fn a_node_has_an_image_by_its_digest_else_by_its_tag() {
        let table = [
            ("nginx", "docker.io/library/nginx:latest"),
            ("r.io:5000/web:v1", "r.io:5000/web:v1"),
            ("r.io/web:v1@sha256:1111", "r.io/web@sha256:1111"),
            ("docker-pullable://web@sha256:1111", "docker.io/library/web@sha256:1111"),
        ];
        for (reference, wanted) in table {
            assert_eq!(canonical(reference), wanted);
        }
        let mut runs = container("r.io/web:v1", &format!("r.io/web@{D1}"));
        assert_eq!(proven(&runs).count(), 0, "it does not run");
        runs.status.as_mut().unwrap().running_since = Some(jiff::Timestamp::UNIX_EPOCH);
        let names: Vec<String> = proven(&runs).collect();
        assert_eq!(names, ["r.io/web:v1".to_owned(), format!("r.io/web@{D1}")]);
        assert_eq!((running_as(&runs, "r.io/web:v1"), running_as(&runs, "r.io/web:v2")), (Some(D1), None));
        // Its spec was changed, and the kubelet has not followed.
        runs.image = "r.io/web:v2".to_owned();
        assert_eq!(proven(&runs).next().as_deref(), Some("r.io/web:v1"));
        assert_eq!((running_as(&runs, "r.io/web:v1"), running_as(&runs, "r.io/web:v2")), (Some(D1), None));
    }

    #[test]
    fn a_pinned_reference_shows_its_tag_and_may_be_told_from_every_earlier_one() {
        assert_eq!(pinned("r.io/web:v1", D1, None), "r.io/web:v1@sha256:1111");
        assert_eq!(pinned("r.io/web", D1, None), "r.io/web@sha256:1111");
        let (one, other) = (pinned("r.io/web:v1", D1, Some("a")), pinned("r.io/web:v1", D1, Some("b")));
        assert!(one.starts_with("r.io/web:v1.hitless-") && one.ends_with("@sha256:1111") && one != other, "{one}");
        for reference in [&one, "r.io/web:v1@sha256:1111", "r.io/web:v1"] {
            assert_eq!(
                (unpinned(reference), pinned(reference, D2, None)),
                ("r.io/web:v1".to_owned(), format!("r.io/web:v1@{D2}"))
            );
        }
        assert!(is_same(&container(&one, ""), "r.io/web:v1") && !is_same(&container(&one, ""), "r.io/web:v2"));
        let long = format!("r.io/web:{}", "x".repeat(128));
        let tag = pinned(&long, D1, Some("a")).split('@').next().unwrap().rsplit(':').next().unwrap().len();
        assert_eq!(tag, 128);
    }

    #[test]
    fn a_digest_counts_under_whatever_repository_the_runtime_names() {
        assert_eq!(running_digest(&container("r.io/web:v1", &format!("r.io/web@{D1}"))), Some(D1));
        assert_eq!(running_digest(&container("web:v1", &format!("docker-pullable://web@{D1}"))), Some(D1));
        assert_eq!(running_digest(&container("r.io/web:v1", &format!("mirror.io/web@{D1}"))), Some(D1));
        assert_eq!(running_digest(&container("r.io/web:v1", D1)), None, "an imported image has an id, not a digest");
    }

    #[test]
    fn aliases_never_repeat_and_keep_the_digest() {
        let mut now = container("r.io:5000/web:v1", &format!("r.io:5000/web@{D1}"));
        let mut seen = vec![now.image.clone()];
        for token in ["a", "b", "c"] {
            let next = alias(&now, token).unwrap();
            assert!(next.ends_with(&format!("@{D1}")), "{next}");
            assert!(!seen.contains(&next), "{next} again");
            seen.push(next.clone());
            now.image = next;
        }
        assert_eq!(seen[1], format!("r.io:5000/web:v1@{D1}"));
        assert!(seen[3].starts_with("r.io:5000/web:v1.hitless-"), "the tag is kept: {}", seen[3]);
    }

    #[test]
    fn whatever_is_written_for_an_image_is_still_that_image() {
        for template in hitless_world::images::SPELLINGS {
            for image in hitless_world::images::references(template) {
                assert!(is_same(&container(&image, "web@sha256:22"), template), "{image} for {template}");
            }
        }
    }

    #[test]
    fn a_pinned_name_wins_over_what_runs_and_no_digest_means_no_alias() {
        let pinned = container(&format!("r.io/web@{D2}"), &format!("r.io/web@{D1}"));
        assert!(alias(&pinned, "t").unwrap().ends_with(D2));
        assert_eq!(alias(&container("r.io/web:v1", ""), "t"), None);
        let loaded = |id: &str| alias(&container("web:v1", id), "t").is_some();
        assert!(!loaded("docker.io/library/import-2026-11-26@sha256:1111") && !loaded("sha256:1111"));
        assert!(loaded("mirror.io/web@sha256:1111") && loaded("docker.io/library/import-tool@sha256:1111"));
    }
}
