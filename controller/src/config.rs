//! Settings of the controller.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use hitless_api::digest::Key;
use hitless_api::names::{CONTROLLER, CONTROLLER_PORT};
use hitless_gate::settings::{ImplicitPercent, SkippedKinds};
use hitless_rollout::prefetch;
use hitless_runtime::config::{ConfigError, Settings};
use hitless_runtime::telemetry::Format;
use hitless_workloads::Installed;
use hitless_workloads::installed::{ComponentNames, SwitchNames};

use crate::approval::client::{Limits, Reach};

/// Settings, read once at start-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// `POD_NAME`: names this process in the Lease and in Events.
    pub pod: String,
    /// `HITLESS_LEASE`: name of the Lease in hitless's namespace whose holder leads. All controllers of a cluster need the same.
    pub lease: String,
    /// `HITLESS_LISTEN`: where the health endpoint is.
    pub listen: SocketAddr,
    /// `HITLESS_LOG`: which log lines are written, e.g. `info` or `hitless_controller=debug,info`.
    pub log: String,
    /// `HITLESS_LOG_FORMAT`: `text` or `json`.
    pub log_format: Format,
    /// What holds for all rules. `HITLESS_IMPLICIT_PERCENT`: budget of pods that nothing else limits, 1 to 100 or `off`; default 25.
    /// `SKIP_POD_TRANSITION_RULES`, upstream's name: comma-separated kinds of rules (`availablePolicy`, `labelCheck`, `webhook`) that
    /// are not evaluated.
    pub gate: hitless_gate::Settings,
    /// Where approvers are looked for. `HITLESS_APPROVERS`: comma-separated hosts, domains (`*.example.com`), Services
    /// (`name.namespace.svc`) and addresses (`10.1.0.0/16`) of approvers, besides Services of a rule's own namespace; default: none. Never at the controller's own
    /// addresses (`POD_IPS`) nor at the API server's (`KUBERNETES_SERVICE_HOST`).
    pub reach: Reach,
    /// What is looked after besides. `HITLESS_COMPONENTS`: comma-separated components of the manifests that are installed:
    /// `kusionstack`, `kruise`; none by default. `HITLESS_SWITCHED_OFF`: comma-separated kinds of these that are off all the same: `CollaSet`,
    /// `OperationJob`, `PodOpsLifecycle`, `CloneSet`, `ContainerRecreateRequest`; none by default.
    pub installed: Installed,
    /// What pods that fetch images have besides (docs/contract.md#images-first). `HITLESS_PREFETCH_LABELS`: comma-separated labels, `cost-center=42`, or
    /// `team` for the value that the workload's template has; `HITLESS_PREFETCH_ANNOTATIONS`: annotations, in the same way; default: none.
    pub prefetch: prefetch::Settings,
    /// `HITLESS_CONFIG_KEY`: key of what is recorded of ConfigMaps and Secrets on workloads (docs/contract.md#config-reload); default: none.
    pub config_key: Option<Key>,
}

impl Config {
    /// Reads the settings; the error names the one that is missing or makes no sense.
    pub fn read<F: Fn(&str) -> Option<String>>(settings: &Settings<F>) -> Result<Self, ConfigError> {
        Ok(Self {
            pod: settings.required("POD_NAME")?,
            lease: settings.optional("HITLESS_LEASE").unwrap_or_else(|| CONTROLLER.to_owned()),
            listen: settings.parsed("HITLESS_LISTEN", SocketAddr::from((Ipv6Addr::UNSPECIFIED, CONTROLLER_PORT)))?,
            log: settings.optional("HITLESS_LOG").unwrap_or_else(|| "info".to_owned()),
            log_format: settings.parsed("HITLESS_LOG_FORMAT", Format::default())?,
            gate: hitless_gate::Settings {
                implicit: settings.parsed(hitless_gate::Settings::IMPLICIT_PERCENT, ImplicitPercent::default())?.0,
                skipped_kinds: settings.parsed(hitless_gate::Settings::SKIPPED_KINDS, SkippedKinds::default())?.0,
            },
            reach: Reach::Network(Limits {
                never: never_approvers(settings),
                only: settings.optional_parsed("HITLESS_APPROVERS")?,
            }),
            installed: Installed {
                components: settings.parsed(Installed::COMPONENTS, ComponentNames::default())?.0,
                off: settings.parsed(Installed::SWITCHED_OFF, SwitchNames::default())?.0,
            },
            prefetch: prefetch::Settings {
                labels: settings.parsed(prefetch::Settings::LABELS, prefetch::Labels::default())?,
                annotations: settings.parsed(prefetch::Settings::ANNOTATIONS, prefetch::Annotations::default())?,
            },
            config_key: settings.optional("HITLESS_CONFIG_KEY").map(|text| Key::of(text.trim())),
        })
    }
}

/// An API server that has a name and no address can't be told from others.
fn never_approvers<F: Fn(&str) -> Option<String>>(settings: &Settings<F>) -> Vec<IpAddr> {
    let all = ["POD_IPS", "KUBERNETES_SERVICE_HOST"].into_iter().filter_map(|name| settings.optional(name));
    all.flat_map(|text| text.split(',').filter_map(|each| each.trim().parse().ok()).collect::<Vec<_>>()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hitless_gate::ImplicitBudget;
    use hitless_workloads::{COMPONENTS, Switch};

    #[test]
    fn approvers_are_neither_the_controller_nor_the_api_server_and_may_be_named() {
        let read = |approvers: &'static str| {
            Config::read(&Settings::new(move |name| match name {
                "POD_NAME" => Some("p".to_owned()),
                "POD_IPS" => Some("10.1.0.7,fd00::7".to_owned()),
                "KUBERNETES_SERVICE_HOST" => Some("10.96.0.1".to_owned()),
                "HITLESS_APPROVERS" => Some(approvers.to_owned()),
                _ => None,
            }))
        };
        let Reach::Network(limits) = read("").unwrap().reach else { panic!("everywhere") };
        assert_eq!(limits.never, ["10.1.0.7", "fd00::7", "10.96.0.1"].map(|each| each.parse::<IpAddr>().unwrap()));
        assert_eq!(limits.only, None);
        let Reach::Network(limits) = read("*.example.com").unwrap().reach else { panic!("everywhere") };
        assert!(limits.only.is_some());
        assert!(read("*").unwrap_err().to_string().contains("HITLESS_APPROVERS"));
    }

    #[test]
    fn only_the_pods_name_is_required() {
        let read = |pod: Option<&'static str>| {
            Config::read(&Settings::new(move |name| if name == "POD_NAME" { pod.map(str::to_owned) } else { None }))
        };
        let config = read(Some("p")).unwrap();
        assert_eq!((config.listen.port(), config.lease.as_str()), (CONTROLLER_PORT, CONTROLLER));
        assert_eq!(read(None), Err(ConfigError::Missing("POD_NAME")));
        assert_eq!(config.gate, hitless_gate::Settings::default());
    }

    #[test]
    fn kinds_of_a_component_are_switched_off_by_name() {
        let read = |off: &'static str| {
            Config::read(&Settings::new(move |name| match name {
                "POD_NAME" => Some("p".to_owned()),
                "HITLESS_COMPONENTS" => Some("kusionstack,kruise".to_owned()),
                "HITLESS_SWITCHED_OFF" => Some(off.to_owned()),
                _ => None,
            }))
        };
        assert_eq!(read("").unwrap().installed, Installed::with(&COMPONENTS));
        let off = read("collaset, PodOpsLifecycle,CloneSet").unwrap().installed.off;
        assert_eq!(off.into_iter().collect::<Vec<_>>(), ["CloneSet", "CollaSet", "PodOpsLifecycle"].map(Switch::of));
        let error = read("StatefulSet").unwrap_err().to_string();
        assert!(error.contains("HITLESS_SWITCHED_OFF") && error.contains("StatefulSet"), "{error}");
    }

    #[test]
    fn labels_of_pods_that_fetch_are_set_or_refused_by_name() {
        let read = |name: &'static str, value: &'static str| {
            Config::read(&Settings::new(move |wanted| match wanted {
                "POD_NAME" => Some("p".to_owned()),
                wanted => (wanted == name).then(|| value.to_owned()),
            }))
        };
        let set = read("HITLESS_PREFETCH_LABELS", "team,cost-center=42").unwrap().prefetch;
        assert_eq!(set.labels, "cost-center=42, team".parse().unwrap());
        assert_eq!(read("HITLESS_PREFETCH_ANNOTATIONS", "").unwrap().prefetch, prefetch::Settings::default());
        for (name, value) in
            [("HITLESS_PREFETCH_LABELS", "hitless.dev/companion"), ("HITLESS_PREFETCH_ANNOTATIONS", "a b=c")]
        {
            let error = read(name, value).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(value), "{error}");
        }
    }

    #[test]
    fn the_gate_is_set_or_refused_by_name() {
        let read = |name: &'static str, value: &'static str| {
            Config::read(&Settings::new(move |wanted| match wanted {
                "POD_NAME" => Some("p".to_owned()),
                wanted => (wanted == name).then(|| value.to_owned()),
            }))
        };
        assert_eq!(read("HITLESS_IMPLICIT_PERCENT", "off").unwrap().gate.implicit, None);
        assert_eq!(read("HITLESS_IMPLICIT_PERCENT", "50").unwrap().gate.implicit, Some(ImplicitBudget { percent: 50 }));
        let skipped = read("SKIP_POD_TRANSITION_RULES", "webhook, labelCheck").unwrap().gate.skipped_kinds;
        assert_eq!(skipped.into_iter().collect::<Vec<_>>(), ["labelCheck", "webhook"]);
        for (name, value) in [
            ("HITLESS_IMPLICIT_PERCENT", "0"),
            ("HITLESS_IMPLICIT_PERCENT", "many"),
            ("SKIP_POD_TRANSITION_RULES", "webhooks"),
        ] {
            let error = read(name, value).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(value), "{error}");
        }
    }
}
