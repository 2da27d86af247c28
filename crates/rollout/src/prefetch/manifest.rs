//! The prefetch pod itself. `manifests/policies/controller.yaml` lets the controller make no other.

use std::collections::BTreeMap;

use hitless_api::ObjectRef;
use hitless_api::names::{annotations, labels};
use serde_json::{Value, json};

use super::{Pull, Resources};
use crate::owner_reference::owner_reference;

/// Name of its container.
pub(super) const CONTAINER: &str = "image";
/// The root directory: it is no program, whatever the image, its volumes and its symbolic links are. A file that no image should
/// have is one that a hostile image has, and a device below `/dev` is a file where an image says that `/dev` is a volume.
const COMMAND: &str = "/";
/// Seconds after which the kubelet ends it, whatever has become of us: a large image on a slow line takes long.
const DEADLINE_SECONDS: u32 = 3600;

/// The pod, owned by the workload that needs the image, so that it goes with it.
#[must_use]
pub fn manifest(pull: &Pull, attempt: u32, resources: Resources, owner: &ObjectRef) -> Value {
    let mut spec = json!({
        // By name: the scheduler would look for another place.
        "nodeName": pull.node,
        "tolerations": [{"operator": "Exists"}],
        "restartPolicy": "Never",
        "activeDeadlineSeconds": DEADLINE_SECONDS,
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "securityContext": {"runAsNonRoot": true, "runAsUser": 65534, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{
            "name": CONTAINER,
            "image": pull.image,
            "imagePullPolicy": pull.policy.name(),
            "command": [COMMAND],
            "resources": stated(pull, resources),
            "securityContext": {
                "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]},
            },
        }],
    });
    if let Some(account) = &pull.identity.service_account {
        spec["serviceAccountName"] = account.as_str().into();
    }
    if !pull.identity.secrets.is_empty() {
        let secrets = pull.identity.secrets.iter().map(|name| json!({"name": name}));
        spec["imagePullSecrets"] = secrets.collect();
    }
    let mut metadata = json!({
        "name": pull.pod_name(attempt),
        "namespace": pull.namespace,
        "labels": own_labels(pull),
        "annotations": {
            annotations::IMAGE: pull.image,
            "linkerd.io/inject": "disabled",
            "cluster-autoscaler.kubernetes.io/safe-to-evict": "true",
        },
        // Not its controller: a native controller counts what it controls.
        "ownerReferences": [owner_reference(owner, false)],
    });
    pull.extra.add_to(&mut metadata);
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
}

/// The labels that each has. `manifests/policies/made-pods.yaml` lists them, too.
pub(super) fn own_labels(pull: &Pull) -> BTreeMap<String, String> {
    let all = [
        (labels::PREFETCH, pull.key()),
        // It is in no Service, so it needs no readiness gate; and no sidecar, which would never end.
        (labels::GATE, "disabled".to_owned()),
        ("sidecar.istio.io/inject", "false".to_owned()),
        ("app.kubernetes.io/managed-by", "hitless".to_owned()),
    ];
    all.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn stated(pull: &Pull, resources: Resources) -> Value {
    let of_container = || serde_json::from_str(pull.resources.as_deref()?).ok();
    match resources {
        Resources::None => None,
        Resources::OfContainer => of_container(),
    }
    .unwrap_or_else(|| json!({}))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prefetch::Extra;
    use hitless_api::{GroupKind, PullIdentity, PullPolicy};
    use k8s_openapi::api::core::v1::{Pod, ResourceRequirements};

    #[test]
    fn it_pulls_as_the_pod_does_and_can_do_nothing_else() {
        let pull = Pull {
            namespace: "shop".to_owned(),
            node: "n1".to_owned(),
            image: "web:v2".to_owned(),
            policy: PullPolicy::Always,
            identity: PullIdentity { service_account: Some("web".to_owned()), secrets: vec!["login".to_owned()] },
            resources: Some(r#"{"requests":{"cpu":"50m"},"limits":{"cpu":"100m"}}"#.into()),
            extra: Extra::default(),
            is_other_repository: false,
        };
        let owner = ObjectRef {
            group_kind: GroupKind::new("apps", "Deployment"),
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
            uid: "u".to_owned(),
        };
        let pod: Pod = serde_json::from_value(manifest(&pull, 2, Resources::None, &owner)).unwrap();
        let spec = pod.spec.unwrap();
        assert_eq!(spec.service_account_name.as_deref(), Some("web"));
        assert_eq!(spec.image_pull_secrets.unwrap()[0].name, "login");
        assert_eq!(spec.automount_service_account_token, Some(false));
        assert_eq!(spec.containers[0].command.as_deref(), Some(["/".to_owned()].as_slice()));
        assert_eq!(spec.containers[0].image_pull_policy.as_deref(), Some("Always"));
        assert_eq!(spec.containers[0].resources, Some(ResourceRequirements::default()), "BestEffort");
        let meta = pod.metadata;
        assert_eq!(meta.name, Some(format!("hitless-prefetch-{}-2", pull.key())));
        let owners = meta.owner_references.unwrap();
        assert_eq!((owners[0].api_version.as_str(), owners[0].controller), ("apps/v1", Some(false)));
        let other = Pull { policy: PullPolicy::IfNotPresent, ..pull.clone() };
        assert_ne!(pull.key(), other.key());
        let stated = manifest(&pull, 3, Resources::OfContainer, &owner);
        assert_eq!(
            stated["spec"]["containers"][0]["resources"],
            json!({"requests": {"cpu": "50m"}, "limits": {"cpu": "100m"}})
        );
        let (plain, unstated) = (Pull { resources: None, ..pull.clone() }, json!({}));
        assert_eq!(manifest(&plain, 3, Resources::OfContainer, &owner)["spec"]["containers"][0]["resources"], unstated);
        assert_eq!(plain.key(), pull.key(), "who shares an image and a node shares the pod");
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let extra = Extra {
            labels: [pair("team", "shop"), pair("sidecar.istio.io/inject", "true")].into(),
            annotations: [pair("owner", "shop"), pair(annotations::IMAGE, "evil")].into(),
        };
        let more = Pull { extra, ..pull.clone() };
        assert_eq!(more.key(), pull.key(), "and whatever else it has");
        let metadata = manifest(&more, 3, Resources::None, &owner)["metadata"].clone();
        assert_eq!((&metadata["labels"]["team"], &metadata["annotations"]["owner"]), (&json!("shop"), &json!("shop")));
        assert_eq!(metadata["labels"]["sidecar.istio.io/inject"], "false", "ours have precedence");
        assert_eq!(metadata["annotations"][annotations::IMAGE], "web:v2");
    }
}
