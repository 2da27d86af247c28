//! The controller as its Deployment shows it: how it is set, and whether it runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use hitless_api::names::{CONTROLLER, system_namespace};
use hitless_gate::Settings;
use hitless_gate::settings::{ImplicitPercent, SkippedKinds};
use hitless_rollout::prefetch;
use hitless_runtime::config;
use hitless_workloads::Installed;
use hitless_workloads::component::ComponentNames;
use hitless_workloads::switch::SwitchNames;
use k8s_openapi::api::apps::v1::Deployment;

/// What its Deployment says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ControllerView {
    pub(crate) settings: Settings,
    pub(crate) installed: Installed,
    /// What pods that fetch images have besides.
    pub(crate) prefetch: Arc<prefetch::Settings>,
    /// Pods that are wanted.
    wanted: i32,
    /// Of these are Ready.
    ready: i32,
}

/// Whether somebody carries out what is decided. Only the Deployment is asked: the times of a Lease are another machine's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Controller {
    /// Its Deployment could not be read, so nothing is claimed.
    #[default]
    Unknown,
    Ready,
    Absent,
    ScaledToZero,
    NotReady {
        wanted: i32,
    },
}

impl ControllerView {
    #[expect(clippy::needless_pass_by_value, clippy::unnecessary_wraps, reason = "the form of all views")]
    pub(crate) fn of(deployment: Deployment) -> Option<Self> {
        let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        let ready = deployment.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or_default();
        let (settings, installed, prefetch) = settings(&deployment);
        Some(Self { settings, installed, prefetch: Arc::new(prefetch), wanted, ready })
    }
}

impl Controller {
    /// Of its Deployment, which could be read; `None`: it is not there.
    pub(crate) const fn seen(deployment: Option<&ControllerView>) -> Self {
        match deployment {
            None => Self::Absent,
            Some(ControllerView { wanted: 0, .. }) => Self::ScaledToZero,
            Some(ControllerView { wanted, ready: 0, .. }) => Self::NotReady { wanted: *wanted },
            Some(_) => Self::Ready,
        }
    }

    /// It is certain that nobody carries out anything.
    pub(crate) const fn is_away(self) -> bool {
        match self {
            Self::Absent | Self::ScaledToZero => true,
            Self::Unknown | Self::Ready | Self::NotReady { .. } => false,
        }
    }

    /// That nobody carries out anything, why, and what to do.
    pub(crate) fn trouble(self) -> Option<String> {
        let system = system_namespace();
        let deployment = format!("Deployment {CONTROLLER} of namespace {system}");
        let why = match self {
            Self::Unknown | Self::Ready => return None,
            Self::Absent => format!(
                "no controller runs: there is no {deployment}, and nothing begins until there is one (kubectl apply -k manifests; if it \
                 is in another namespace, set HITLESS_NAMESPACE to that)"
            ),
            Self::ScaledToZero => format!(
                "no controller runs: {deployment} is scaled to 0, and nothing begins until it is scaled up (kubectl -n {system} \
                 scale deployment {CONTROLLER} --replicas=2)"
            ),
            Self::NotReady { wanted } => format!(
                "no controller is Ready: {deployment} has 0 of {wanted}, and where none works nothing begins until one does"
            ),
        };
        Some(format!("{why}; see: kubectl hitless doctor"))
    }
}

/// What the controller's Deployment tells it in the environment; what it would refuse to start with counts as the default.
fn settings(deployment: &Deployment) -> (Settings, Installed, prefetch::Settings) {
    let pod = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    let variables: BTreeMap<&str, &str> = pod
        .iter()
        .flat_map(|pod| &pod.containers)
        .flat_map(|container| container.env.iter().flatten())
        .filter_map(|variable| Some((variable.name.as_str(), variable.value.as_deref()?)))
        .collect();
    let variables = config::Settings::new(|name| variables.get(name).map(|value| (*value).to_owned()));
    let settings = Settings {
        implicit: variables.parsed(Settings::IMPLICIT_PERCENT, ImplicitPercent::default()).unwrap_or_default().0,
        skipped_kinds: variables.parsed(Settings::SKIPPED_KINDS, SkippedKinds::default()).unwrap_or_default().0,
    };
    let installed = Installed {
        components: variables.parsed(Installed::COMPONENTS, ComponentNames::default()).unwrap_or_default().0,
        off: variables.parsed(Installed::SWITCHED_OFF, SwitchNames::default()).unwrap_or_default().0,
    };
    let prefetch = prefetch::Settings {
        labels: variables.parsed(prefetch::Settings::LABELS, prefetch::Labels::default()).unwrap_or_default(),
        annotations: variables
            .parsed(prefetch::Settings::ANNOTATIONS, prefetch::Annotations::default())
            .unwrap_or_default(),
    };
    (settings, installed, prefetch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hitless_gate::ImplicitBudget;
    use serde_json::{Value, json};

    fn view(replicas: &Value, ready: &Value, env: &Value) -> ControllerView {
        let deployment = json!({"metadata": {}, "status": {"readyReplicas": ready}, "spec": {"replicas": replicas, "selector": {},
            "template": {"spec": {"containers": [{"name": "controller", "env": env}]}}}});
        ControllerView::of(serde_json::from_value(deployment).unwrap()).unwrap()
    }

    #[test]
    fn settings_are_those_that_the_controller_is_started_with() {
        let started = |env: Value| view(&json!(2), &json!(2), &env).settings;
        assert_eq!(started(json!([])), Settings::default());
        assert_eq!(started(json!([{"name": "HITLESS_IMPLICIT_PERCENT", "value": "off"}])).implicit, None);
        let half = started(json!([{"name": "HITLESS_IMPLICIT_PERCENT", "value": "50"}])).implicit;
        assert_eq!(half, Some(ImplicitBudget { percent: 50 }));
        for (name, refused) in [("HITLESS_IMPLICIT_PERCENT", "half"), ("SKIP_POD_TRANSITION_RULES", "webhooks")] {
            assert_eq!(started(json!([{"name": name, "value": refused}])), Settings::default(), "{refused}");
        }
        let env = json!([{"name": "HITLESS_PREFETCH_LABELS", "value": "team"}]);
        assert_eq!(view(&json!(2), &json!(2), &env).prefetch.labels, "team".parse().unwrap());
        let skipped = started(json!([{"name": "SKIP_POD_TRANSITION_RULES", "value": "webhook, labelCheck"}]));
        assert_eq!(skipped.skipped_kinds.into_iter().collect::<Vec<_>>(), ["labelCheck", "webhook"]);
    }

    #[test]
    fn a_controller_that_does_not_run_is_named_with_what_to_do() {
        let seen = |replicas: Value, ready: Value| Controller::seen(Some(&view(&replicas, &ready, &json!([]))));
        assert_eq!(seen(json!(2), json!(1)), Controller::Ready);
        assert_eq!(seen(json!(null), json!(1)), Controller::Ready, "one is the default");
        assert_eq!(Controller::Ready.trouble(), None);
        assert_eq!(Controller::Unknown.trouble(), None, "what was not read is not claimed");
        for (controller, words) in [
            (seen(json!(0), json!(null)), "kubectl -n hitless-system scale deployment hitless-controller --replicas=2"),
            (Controller::seen(None), "there is no Deployment hitless-controller of namespace hitless-system"),
        ] {
            let said = controller.trouble().unwrap();
            assert!(said.starts_with("no controller runs: ") && said.contains(words), "{said}");
            assert!(said.contains("nothing begins until") && said.ends_with("kubectl hitless doctor"), "{said}");
            assert!(controller.is_away());
        }
        let not_ready = seen(json!(2), json!(null));
        assert!(!not_ready.is_away(), "it may be at work all the same");
        assert!(not_ready.trouble().unwrap().contains("0 of 2"), "{not_ready:?}");
    }
}
