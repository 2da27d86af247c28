//! How a pod is drained: its annotation over the built-in defaults (CONTRACT 13).

use hitless_api::names::annotations;
use hitless_api::pod::PodView;
use hitless_api::{DrainSpec, PortDrain, StragglerPolicy};

/// Most ports in a grant (its schema).
const MAX_PORTS: usize = 64;

/// The annotation can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidDrain {
    /// It is no JSON object of the known fields.
    #[error("annotation {} is not usable: {why}", annotations::DRAIN)]
    Unreadable {
        /// What the parser said.
        why: String,
    },
    /// Nobody carries that out yet.
    #[error("annotation {}: stragglers Destroy is not carried out yet; use Wait, Close or Abort", annotations::DRAIN)]
    Destroy,
}

/// The drain of a pod. Ports that the annotation does not name are treated as the pod's containers declare them.
///
/// # Errors
/// If the annotation makes no sense: the pod is not operated before that is mended.
pub fn resolve(pod: &PodView) -> Result<DrainSpec, InvalidDrain> {
    let mut spec = match pod.annotations.get(annotations::DRAIN) {
        None => DrainSpec::default(),
        Some(text) => {
            serde_json::from_str(text).map_err(|error| InvalidDrain::Unreadable { why: error.to_string() })?
        }
    };
    if spec.stragglers == StragglerPolicy::Destroy {
        return Err(InvalidDrain::Destroy);
    }
    for declared in pod.containers.iter().flat_map(|container| &container.ports) {
        if spec.ports.len() < MAX_PORTS && !spec.ports.iter().any(|known| known.port == declared.port) {
            spec.ports.push(PortDrain { port: declared.port, treat: declared.treatment });
        }
    }
    Ok(spec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hitless_api::PortTreatment;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    fn pod(drain: Option<&str>) -> PodView {
        let mut pod: Pod = serde_json::from_value(json!({"metadata": {}, "spec": {"containers": [
            {"name": "c", "ports": [{"containerPort": 80, "name": "http"}, {"containerPort": 81}]}]}}))
        .unwrap();
        pod.metadata.annotations = drain.map(|text| [(annotations::DRAIN.to_owned(), text.to_owned())].into());
        PodView::from(&pod)
    }

    #[test]
    fn the_annotation_overrides_single_fields() {
        let plain = resolve(&pod(None)).unwrap();
        assert_eq!((plain.min_seconds, plain.deadline_seconds), (1, 60));
        assert_eq!(plain.treatment(80), PortTreatment::Http1);
        let own =
            resolve(&pod(Some(r#"{"deadlineSeconds": 90, "ports": [{"port": 80, "treat": "ignore"}]}"#))).unwrap();
        assert_eq!((own.min_seconds, own.deadline_seconds), (1, 90));
        assert_eq!((own.treatment(80), own.treatment(81)), (PortTreatment::Ignore, PortTreatment::Tcp));
    }

    #[test]
    fn what_makes_no_sense_is_refused_in_words() {
        let table = [
            ("{", "not usable"),
            (r#"{"deadline": 3}"#, "unknown field"),
            (r#"{"stragglers": "Destroy"}"#, "not carried out yet"),
        ];
        for (text, words) in table {
            let error = resolve(&pod(Some(text))).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
