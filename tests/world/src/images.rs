//! Spellings of image references: what the product writes for each, and whether its own admission policy lets a companion pod have it. One
//! table for who writes and who admits: in unit tests the policy is the function here, in the end-to-end test `policies` it is the real one.

use hitless_api::pod::{ContainerView, PodView};
use hitless_workloads::image::{alias, digest_of, pinned};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

const DIGEST: &str = "sha256:22";

/// Images of templates.
pub const SPELLINGS: [&str; 8] = [
    "web:1",
    "web",
    "web:1@sha256:22",
    "web@sha256:22",
    "r.io:5000/team/web:1",
    "r.io:5000/team/web",
    "r.io:5000/team/web:1@sha256:22",
    // Nothing can be written behind so long a tag.
    "r.io/web:0123456789-0123456789-0123456789-0123456789-0123456789-0123456789-0123456789-0123456789-0123456789-0123456789",
];

/// Images that a companion pod of this template never has.
#[must_use]
pub fn strange(template: &str) -> Vec<String> {
    let name = template.split('@').next().unwrap_or_default();
    vec![
        format!("{name}evil@{DIGEST}"),
        format!("{name}/evil@{DIGEST}"),
        format!("{name}.hitless-01"),
        format!("{name}.hitless-0x@{DIGEST}"),
        format!("evil.io/{name}.hitless-01@{DIGEST}"),
        format!("{name}.hitless-01@{DIGEST}/evil"),
        "other:1".to_owned(),
    ]
}

/// All that one operation after the other makes of a template's image: the image as it is, with the digest that a tag means, and restarts
/// after each of them.
#[must_use]
pub fn references(template: &str) -> Vec<String> {
    let by_tag = |token| pinned(template, DIGEST, token);
    let updates = if digest_of(template).is_some() {
        vec![template.to_owned()]
    } else {
        vec![template.to_owned(), by_tag(None), by_tag(Some("a container's id"))]
    };
    let mut all = updates.clone();
    for update in updates {
        let mut now = update;
        for token in ["one", "another", "a third"] {
            now = alias(&running(&now), token).unwrap_or_default();
            all.push(now.clone());
        }
    }
    all
}

/// A container of this image, which runs.
fn running(image: &str) -> ContainerView {
    let pod = json!({"metadata": {}, "spec": {"containers": [{"name": "c", "image": image}]}, "status": {"containerStatuses": [
        {"name": "c", "image": image, "imageID": format!("{}@{DIGEST}", hitless_workloads::image::name_and_tag(image).0),
            "ready": true, "restartCount": 0}]}});
    let mut pod = PodView::from(&serde_json::from_value::<Pod>(pod).unwrap_or_default());
    pod.containers.remove(0)
}

/// What `manifests/policies/controller-companion.yaml` says of the image of a container that the template has, in its own order.
#[must_use]
pub fn admits(template: &str, image: &str) -> bool {
    if image == template {
        return true;
    }
    let Some((name, digest)) = image.split_once('@') else { return false };
    let (written, of_template) =
        template.split_once('@').map_or((template, None), |(name, digest)| (name, Some(digest)));
    let is_tagged = written.rfind(':') > written.rfind('/');
    let tagged = if is_tagged { written.to_owned() } else { format!("{written}:latest") };
    let is_hex = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || ('a'..='f').contains(&c));
    let is_digest = digest.split_once(':').is_some_and(|(algorithm, hash)| {
        !algorithm.is_empty() && algorithm.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit()) && is_hex(hash)
    });
    let is_marked = || {
        name.rsplit_once(".hitless-").is_some_and(|(before, mark)| {
            let tag =
                name.rfind(':').filter(|colon| Some(*colon) > name.rfind('/')).map(|colon| name.len() - colon - 1);
            is_hex(mark) && (before == tagged || (tagged.starts_with(before) && tag == Some(128)))
        })
    };
    is_digest && of_template.is_none_or(|wanted| wanted == digest) && (name == written || name == tagged || is_marked())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_product_writes_its_policy_admits_and_nothing_else() {
        for template in SPELLINGS {
            for image in references(template) {
                assert!(admits(template, &image), "{image} for {template}");
            }
            for image in strange(template) {
                assert!(!admits(template, &image), "{image} for {template}");
            }
        }
    }
}
