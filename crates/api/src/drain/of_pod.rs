//! How a pod is drained: its annotation over policies over the built-in defaults (docs/contract.md#drain-settings).

use crate::names::annotations;
use crate::pod::{PodView, PortView, Protocol};
use crate::{DesiredMode, DrainOverrides, DrainSpec, Hook, PortDrain, PortTreatment};

/// What is wanted of a pod's drain can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidDrain {
    /// The annotation is no JSON object of the known fields.
    #[error("annotation {} is not usable: {why}", annotations::DRAIN)]
    Unreadable {
        /// What the parser said.
        why: String,
    },
    /// The annotation is none of the modes.
    #[error("annotation {} is {value:?}; use Auto, Leave or Hold", annotations::MODE)]
    Mode {
        /// What it is.
        value: String,
    },
    /// Hooks can't be used.
    #[error("{origin} is not usable: {why}")]
    Hooks {
        /// Whose they are.
        origin: String,
        /// What is wrong.
        why: String,
    },
    /// A hook runs a command in a container that the pod does not have.
    #[error(
        "{origin} is not usable: {hook}: the pod has no container {container:?} (of init containers only restartable ones count)"
    )]
    NoContainer {
        /// Whose hook it is.
        origin: String,
        /// Name of the hook.
        hook: String,
        /// Name of the container.
        container: String,
    },
    /// A DrainPolicy can't be used.
    #[error("DrainPolicy {policy} is not usable: {why}")]
    Policy {
        /// `<namespace>/<name>`.
        policy: String,
        /// What is wrong.
        why: String,
    },
}

impl InvalidDrain {
    /// The annotations that it may be about.
    pub const ANNOTATIONS: [&str; 3] = [annotations::DRAIN, annotations::MODE, annotations::HOOKS];

    /// Everything that can't be used of the annotations of a pod, or of a template as a pod, with the annotation that says it.
    #[must_use]
    pub fn in_annotations(pod: &PodView) -> Vec<(&'static str, Self)> {
        let drain = annotation(pod).err().map(|error| (annotations::DRAIN, error));
        let mode = DesiredMode::of(pod).err().map(|error| (annotations::MODE, error));
        let hooks = Hook::of(pod).err().map(|error| (annotations::HOOKS, error));
        [drain, mode, hooks].into_iter().flatten().collect()
    }
}

impl DrainSpec {
    /// The drain of a pod that no policy concerns.
    ///
    /// # Errors
    /// As [`Self::resolve`].
    pub fn of(pod: &PodView) -> Result<Self, InvalidDrain> {
        Self::resolve(pod, &[], |_| None)
    }

    /// The drain of a pod: its annotation, then `policies`, the stronger ones first, then what is built in. Ports that nobody
    /// names are treated as `told` says (the Services' appProtocol), else as the pod's containers declare them (docs/contract.md#port-treatment).
    ///
    /// # Errors
    /// If something of it makes no sense: the pod is not operated before that is mended.
    pub fn resolve(
        pod: &PodView,
        policies: &[&DrainOverrides],
        told: impl Fn(u16) -> Option<PortTreatment>,
    ) -> Result<Self, InvalidDrain> {
        let own = annotation(pod)?;
        let mut spec = Self::default();
        for policy in policies.iter().rev() {
            policy.apply(&mut spec);
        }
        own.apply(&mut spec);
        spec.ports.truncate(Self::MAX_PORTS);
        // A number may be two ports, one for each protocol: DNS, HTTP/3. Of UDP nothing is waited for, so the other one decides.
        let declared = || pod.containers.iter().flat_map(|container| &container.ports);
        let is_udp = |port: &&PortView| port.protocol == Protocol::Udp;
        for declared in declared().filter(|port| !is_udp(port)).chain(declared().filter(is_udp)) {
            if spec.ports.len() < Self::MAX_PORTS && !spec.ports.iter().any(|known| known.port == declared.port) {
                let told = told(declared.port).filter(|_| declared.treatment != PortTreatment::Udp);
                spec.ports.push(PortDrain { port: declared.port, treat: told.unwrap_or(declared.treatment) });
            }
        }
        Ok(spec)
    }
}

fn annotation(pod: &PodView) -> Result<DrainOverrides, InvalidDrain> {
    let Some(text) = pod.annotations.get(annotations::DRAIN) else { return Ok(DrainOverrides::default()) };
    let own: DrainOverrides =
        serde_json::from_str(text).map_err(|error| InvalidDrain::Unreadable { why: error.to_string() })?;
    own.fault().map_or(Ok(own), |why| Err(InvalidDrain::Unreadable { why }))
}

impl DesiredMode {
    /// What the pod's annotation wants, if there is one.
    ///
    /// # Errors
    /// If it is none of the known words.
    pub fn of(pod: &PodView) -> Result<Option<Self>, InvalidDrain> {
        let Some(text) = pod.annotations.get(annotations::MODE) else { return Ok(None) };
        Self::parse(text).map(Some).ok_or_else(|| InvalidDrain::Mode { value: text.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StragglerPolicy;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    fn pod(drain: Option<&str>) -> PodView {
        let mut pod: Pod = serde_json::from_value(json!({"metadata": {}, "spec": {"containers": [
            {"name": "c", "ports": [{"containerPort": 80, "name": "http"}, {"containerPort": 81},
                {"containerPort": 53, "protocol": "UDP"}]}]}}))
        .unwrap();
        pod.metadata.annotations = drain.map(|text| [(annotations::DRAIN.to_owned(), text.to_owned())].into());
        PodView::from(&pod)
    }

    #[test]
    fn the_annotation_overrides_single_fields() {
        let plain = DrainSpec::of(&pod(None)).unwrap();
        assert_eq!((plain.min_seconds, plain.deadline_seconds), (1, 60));
        assert_eq!(plain.treatment(80), PortTreatment::Http1);
        let own = DrainSpec::of(&pod(Some(r#"{"deadlineSeconds": 90, "ports": [{"port": 80, "treat": "ignore"}]}"#)))
            .unwrap();
        assert_eq!((own.min_seconds, own.deadline_seconds), (1, 90));
        assert_eq!((own.treatment(80), own.treatment(81)), (PortTreatment::Ignore, PortTreatment::Tcp));
    }

    #[test]
    fn a_number_that_is_a_port_of_both_protocols_is_treated_as_that_of_tcp() {
        for ports in [
            json!([{"containerPort": 53, "protocol": "UDP"}, {"containerPort": 53}]),
            json!([{"containerPort": 53}, {"containerPort": 53, "protocol": "UDP"}]),
        ] {
            let pod = json!({"metadata": {}, "spec": {"containers": [{"name": "c", "ports": ports}]}});
            let pod = PodView::from(&serde_json::from_value::<Pod>(pod).unwrap());
            assert_eq!(DrainSpec::of(&pod).unwrap().ports, [PortDrain { port: 53, treat: PortTreatment::Tcp }]);
        }
    }

    #[test]
    fn each_field_comes_from_the_strongest_that_says_it() {
        let parse = |text: &str| serde_json::from_str::<DrainOverrides>(text).unwrap();
        let policy = parse(
            r#"{"minSeconds": 7, "stragglers": "Destroy", "deadlineSeconds": 70, "ports": [{"port": 81, "treat": "http2"}]}"#,
        );
        let default =
            parse(r#"{"minSeconds": 8, "holdCapMilliseconds": 900, "ports": [{"port": 81, "treat": "tcp"}]}"#);
        let told = |port| (port != 81).then_some(PortTreatment::Http2);
        let spec = DrainSpec::resolve(&pod(Some(r#"{"deadlineSeconds": 90}"#)), &[&policy, &default], told).unwrap();
        assert_eq!((spec.deadline_seconds, spec.min_seconds, spec.hold_cap_milliseconds), (90, 7, 900));
        assert_eq!((spec.stragglers, spec.straggler_after_seconds), (StragglerPolicy::Destroy, 30), "30 is built in");
        let treatments = [80, 81, 53].map(|port| spec.treatment(port));
        assert_eq!(treatments, [PortTreatment::Http2, PortTreatment::Http2, PortTreatment::Udp]);
    }

    #[test]
    fn where_ports_are_too_many_the_annotations_are_kept() {
        let ports = (1000..1064).map(|port| PortDrain { port, treat: PortTreatment::Http2 }).collect();
        let policy = DrainOverrides { ports, ..DrainOverrides::default() };
        let own = r#"{"ports": [{"port": 9000, "treat": "ignore"}, {"port": 1063, "treat": "tcp"}]}"#;
        let spec = DrainSpec::resolve(&pod(Some(own)), &[&policy], |_| None).unwrap();
        assert_eq!(spec.ports.len(), DrainSpec::MAX_PORTS);
        let treatments = [9000, 1063, 1000, 80].map(|port| spec.treatment(port));
        let expected = [PortTreatment::Ignore, PortTreatment::Tcp, PortTreatment::Http2, PortTreatment::Tcp];
        assert_eq!(treatments, expected, "the port that the container declares finds no room");
    }

    #[test]
    fn what_makes_no_sense_is_refused_in_words() {
        let table = [
            ("{", "not usable"),
            (r#"{"deadline": 3}"#, "unknown field"),
            (r#"{"stragglers": "Kill"}"#, "unknown variant"),
            (r#"{"holdCapMilliseconds": 5000}"#, "at most 4000"),
            (r#"{"holdCapMilliseconds": 0}"#, "at least 1"),
            (r#"{"minSeconds": 3601}"#, "at most 3600"),
        ];
        for (text, words) in table {
            let error = DrainSpec::of(&pod(Some(text))).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn all_that_is_wrong_in_annotations_is_found_at_once() {
        let mut pod = pod(Some(r#"{"deadline": 3}"#));
        pod.annotations.insert(annotations::MODE.to_owned(), "hold".to_owned());
        pod.annotations.insert(annotations::HOOKS.to_owned(), "[]".to_owned());
        let found: Vec<&str> = InvalidDrain::in_annotations(&pod).into_iter().map(|(key, _)| key).collect();
        assert_eq!(found, [annotations::DRAIN, annotations::MODE]);
    }

    #[test]
    fn a_mode_is_one_of_three_words() {
        let with = |text: &str| {
            let mut pod = pod(None);
            pod.annotations.insert(annotations::MODE.to_owned(), text.to_owned());
            DesiredMode::of(&pod)
        };
        assert_eq!(DesiredMode::of(&pod(None)), Ok(None));
        assert_eq!(with("Hold"), Ok(Some(DesiredMode::Hold)));
        assert_eq!(
            with("hold").unwrap_err().to_string(),
            "annotation hitless.dev/mode is \"hold\"; use Auto, Leave or Hold"
        );
    }
}
