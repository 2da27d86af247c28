//! A restart that is wanted for one pod by its annotation `hitless.dev/restart`, and the operation that carries it out.

use std::collections::BTreeMap;

use hitless_api::grant::ImageChange;
use hitless_api::names::annotations;
use hitless_api::pod::{ContainerView, PodView};
use hitless_api::{Change, GrantOp};

use crate::image;
use crate::intent::{Obstacle, Operation, PodIntent};
use crate::requests::token;

/// A restart that is wanted and not carried out yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestartRequest {
    /// Names this request; another one is another restart.
    pub token: String,
    /// Containers that are meant; `None` means all.
    pub containers: Option<Vec<String>>,
}

/// The restart that is wanted for the pod: annotation `hitless.dev/restart` differs from `hitless.dev/restarted`.
#[must_use]
pub fn wanted(pod: &PodView) -> Option<RestartRequest> {
    let token = pod.annotations.get(annotations::RESTART).filter(|token| !token.is_empty())?;
    let recorded = pod.annotations.get(annotations::RESTARTED);
    if recorded.is_some_and(|recorded| recorded == token || token::annotated(recorded) == Some(token.as_str())) {
        return None;
    }
    let containers = pod
        .annotations
        .get(annotations::RESTART_CONTAINERS)
        .map(|names| names.split(',').map(str::trim).filter(|name| !name.is_empty()).map(ToOwned::to_owned).collect());
    Some(RestartRequest { token: token.clone(), containers: containers.filter(|names: &Vec<_>| !names.is_empty()) })
}

impl RestartRequest {
    /// The containers of `pod` that are meant.
    ///
    /// # Errors
    /// [`Obstacle::UnknownContainer`] if the pod lacks one.
    pub fn select<'a>(&self, pod: &'a PodView) -> Result<Vec<&'a ContainerView>, Obstacle> {
        let Some(names) = &self.containers else { return Ok(pod.containers.iter().collect()) };
        names
            .iter()
            .map(|name| pod.container(name).ok_or_else(|| Obstacle::UnknownContainer { container: name.clone() }))
            .collect()
    }

    /// The operation that carries it out. `revision` is written along where the pod has none: afterwards its images no longer
    /// tell which revision it is.
    ///
    /// # Errors
    /// If a container is unknown, or the digest of its image is.
    pub fn intent(&self, pod: &PodView, revision: Option<&str>) -> Result<PodIntent, Obstacle> {
        let containers = self
            .select(pod)?
            .into_iter()
            .map(|container| Ok((container.name.clone(), alias(pod, container, &self.token)?)))
            .collect::<Result<BTreeMap<_, _>, _>>()?;
        let mut changes = BTreeMap::from([self.mark(pod)]);
        if let (None, Some(revision)) = (pod.annotations.get(annotations::REVISION), revision) {
            changes.insert(annotations::REVISION.to_owned(), Change { from: None, to: Some(revision.to_owned()) });
        }
        Ok(PodIntent::new(pod, Operation::new(GrantOp::Restart, containers, changes, BTreeMap::new())))
    }

    /// The annotation change that says "carried out".
    #[must_use]
    pub fn mark(&self, pod: &PodView) -> (String, Change) {
        let from = pod.annotations.get(annotations::RESTARTED).cloned();
        // Of one that is wanted and was carried out: without it, it would be carried out once more.
        let wanted = pod.annotations.get(annotations::RESTART).map(String::as_str);
        let annotated = from.as_deref().and_then(token::annotated).filter(|annotated| wanted == Some(annotated));
        let to = Some(token::recorded(&self.token, annotated));
        (annotations::RESTARTED.to_owned(), Change { from, to })
    }
}

/// The image change that restarts the container.
///
/// # Errors
/// [`Obstacle::DigestUnknown`]; [`Obstacle::NotStarted`] of one whose image nobody knows yet; [`Obstacle::NotReplaced`] where another image
/// runs than that of the spec, whose name it would get.
pub(crate) fn alias(pod: &PodView, container: &ContainerView, token: &str) -> Result<ImageChange, Obstacle> {
    if runs_image_before(pod, container) {
        return Err(Obstacle::NotReplaced { container: container.name.clone() });
    }
    let none = || match container.name.clone() {
        name if image::has_no_other_name(container) => Obstacle::DigestUnknown { container: name },
        name => Obstacle::NotStarted { container: name },
    };
    let to = image::alias(container, token).ok_or_else(none)?;
    Ok(ImageChange { from: container.image.clone(), to })
}

/// The kubelet has not ended the container before, and nothing but what runs tells which digest the name means. Where that name runs, the
/// image was changed back before the kubelet had looked.
fn runs_image_before(pod: &PodView, container: &ContainerView) -> bool {
    let to_end = pod.containers_to_end();
    let Some(status) = &container.status else { return false };
    let is_other = image::canonical(&status.image) != image::canonical(&container.image);
    let is_to_end = to_end.get(&container.name) == Some(&status.container_id);
    image::digest_of(&container.image).is_none() && is_to_end && is_other
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    fn pod(annotations: &serde_json::Value) -> PodView {
        let container = |name: &str| json!({"name": name, "image": format!("r.io/{name}:v1")});
        let status = |name: &str| json!({"name": name, "imageID": format!("r.io/{name}@sha256:1"), "image": "", "ready": true, "restartCount": 0});
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p", "uid": "u", "annotations": annotations},
            "spec": {"containers": [container("web"), container("side")]},
            "status": {"containerStatuses": [status("web"), status("side")]}
        }))
        .unwrap();
        PodView::from(&pod)
    }

    #[test]
    fn a_restart_is_wanted_until_its_token_was_carried_out() {
        assert_eq!(wanted(&pod(&json!({}))), None);
        assert_eq!(wanted(&pod(&json!({"hitless.dev/restart": ""}))), None);
        assert_eq!(wanted(&pod(&json!({"hitless.dev/restart": "a", "hitless.dev/restarted": "a"}))), None);
        let request = wanted(&pod(&json!({"hitless.dev/restart": "b", "hitless.dev/restarted": "a"}))).unwrap();
        assert_eq!(request, RestartRequest { token: "b".into(), containers: None });
    }

    #[test]
    fn a_job_that_restarts_the_pod_does_not_have_the_restart_before_carried_out_again() {
        let before = pod(&json!({"hitless.dev/restart": "a", "hitless.dev/restarted": "a"}));
        let of_job = |token: &str| RestartRequest { token: token.into(), containers: None };
        let recorded = of_job("job-u").mark(&before).1.to.unwrap();
        let after = |wanted: &str| {
            wanted_token(&pod(&json!({"hitless.dev/restart": wanted, "hitless.dev/restarted": recorded})))
        };
        assert_eq!((after("a"), after("b")), (None, Some("b".to_owned())));
        // One after the other: the token of the annotation stays behind that of the last job.
        let next = pod(&json!({"hitless.dev/restart": "a", "hitless.dev/restarted": recorded}));
        assert_eq!(of_job("job-v").mark(&next).1.to.as_deref(), Some("job-v+a"));
        assert_eq!(of_job("b").mark(&next).1.to.as_deref(), Some("b"));
        let open = pod(&json!({"hitless.dev/restart": "b", "hitless.dev/restarted": "a"}));
        assert_eq!(of_job("job-u").mark(&open).1.to.as_deref(), Some("job-u"), "that of b is still to be carried out");
    }

    fn wanted_token(pod: &PodView) -> Option<String> {
        wanted(pod).map(|wanted| wanted.token)
    }

    #[test]
    fn all_containers_unless_some_are_named() {
        let pod = pod(&json!({"hitless.dev/restart": "a", "hitless.dev/restart-containers": " web ,"}));
        let intent = wanted(&pod).unwrap().intent(&pod, Some("rev")).unwrap();
        assert_eq!(intent.operation.op, GrantOp::Restart);
        assert_eq!(intent.operation.containers.keys().collect::<Vec<_>>(), ["web"]);
        assert_eq!(intent.operation.containers["web"].to, "r.io/web:v1@sha256:1");
        assert_eq!(intent.operation.annotations["hitless.dev/restarted"], Change { from: None, to: Some("a".into()) });
        assert_eq!(intent.operation.annotations["hitless.dev/revision"].to.as_deref(), Some("rev"));
    }

    #[test]
    fn a_wrong_container_and_an_unknown_digest_are_told_apart() {
        let unknown = pod(&json!({"hitless.dev/restart": "a", "hitless.dev/restart-containers": "nope"}));
        let error = wanted(&unknown).unwrap().intent(&unknown, None).unwrap_err();
        assert_eq!(error.reason(), "UnknownContainer");
        let mut imported = pod(&json!({"hitless.dev/restart": "a"}));
        for container in &mut imported.containers {
            container.status.as_mut().unwrap().image_id = "sha256:1".into();
        }
        let error = wanted(&imported).unwrap().intent(&imported, None).unwrap_err();
        assert_eq!(error.reason(), "DigestUnknown");
        for container in &mut imported.containers {
            container.status = None;
        }
        let error = wanted(&imported).unwrap().intent(&imported, None).unwrap_err();
        assert_eq!((error.reason(), error.is_for_ever()), ("NotStarted", false));
    }

    #[test]
    fn the_name_of_the_next_image_is_not_given_to_the_one_before_that_still_runs() {
        let next_image = |image: &str, runs: &str| {
            let replaced = r#"{"web": "c://1"}"#;
            let mut pod = pod(&json!({"hitless.dev/restart": "a", "hitless.dev/replaced": replaced}));
            let web = &mut pod.containers[0];
            let mut spec = (*web.spec).clone();
            spec.image = image.into();
            web.spec = spec.into();
            let status = web.status.as_mut().unwrap();
            (status.container_id, status.image) = ("c://1".into(), runs.into());
            let intent = wanted(&pod).unwrap().intent(&pod, None);
            intent.map(|intent| intent.operation.containers["web"].to.clone()).map_err(|error| error.reason())
        };
        assert_eq!(next_image("r.io/web:v2", "r.io/web:v1"), Err("NotReplaced"));
        assert_eq!(
            next_image("r.io/web:v1", "r.io/web:v1").as_deref(),
            Ok("r.io/web:v1@sha256:1"),
            "it was changed back"
        );
        let pinned = next_image("r.io/web:v2@sha256:2", "r.io/web:v1").unwrap();
        assert!(pinned.starts_with("r.io/web:v2.hitless-") && pinned.ends_with("@sha256:2"), "{pinned}");
    }
}
