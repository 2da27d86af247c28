//! No field of a pod that the controller makes gives it a right on its node, whichever fields the API server describes.
//!
//! A field that nobody has looked at is a failure of this test: it either gives a right, and `policies/node-access.yaml` refuses it, or it
//! belongs to [`PLAIN`].

use std::collections::BTreeSet;

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::fixture::{NAMESPACE, NODE, colla_set_pod, pods};
use crate::request::{Api, Call, Outcome, Who};

/// Fields that give no right on a node, by schema. What they say of the pod itself is compared with its owner's template. Those whose
/// own schema is listed here are gone through there.
const PLAIN: &[(&str, &str)] = &[
    (
        "PodSpec",
        "activeDeadlineSeconds affinity automountServiceAccountToken containers dnsConfig dnsPolicy enableServiceLinks ephemeralContainers \
         hostAliases hostUsers hostname hostnameOverride imagePullSecrets initContainers nodeSelector os overhead preemptionPolicy priority \
         readinessGates resourceClaims resources restartPolicy runtimeClassName schedulerName schedulingGates schedulingGroup securityContext \
         serviceAccount serviceAccountName setHostnameAsFQDN shareProcessNamespace subdomain terminationGracePeriodSeconds tolerations \
         topologySpreadConstraints volumes workloadRef",
    ),
    (
        "Container",
        "args command env envFrom image imagePullPolicy lifecycle livenessProbe name ports readinessProbe resizePolicy resources \
         restartPolicy restartPolicyRules securityContext startupProbe stdin stdinOnce terminationMessagePath terminationMessagePolicy tty \
         volumeMounts workingDir",
    ),
    (
        "SecurityContext",
        "allowPrivilegeEscalation appArmorProfile capabilities readOnlyRootFilesystem runAsGroup runAsNonRoot runAsUser seLinuxOptions \
         seccompProfile windowsOptions",
    ),
    (
        "PodSecurityContext",
        "appArmorProfile fsGroup fsGroupChangePolicy runAsGroup runAsNonRoot runAsUser seLinuxChangePolicy seLinuxOptions seccompProfile \
         supplementalGroups supplementalGroupsPolicy windowsOptions",
    ),
    ("Capabilities", "drop"),
    ("SeccompProfile", "localhostProfile"),
    ("AppArmorProfile", "localhostProfile"),
    ("SELinuxOptions", "level"),
    ("WindowsSecurityContextOptions", "gmsaCredentialSpec gmsaCredentialSpecName runAsUserName"),
    ("ContainerPort", "containerPort hostIP name protocol"),
    (
        "Probe",
        "exec failureThreshold grpc httpGet initialDelaySeconds periodSeconds successThreshold tcpSocket terminationGracePeriodSeconds timeoutSeconds",
    ),
    ("Lifecycle", "postStart preStop stopSignal"),
    ("LifecycleHandler", "exec httpGet sleep tcpSocket"),
    ("HTTPGetAction", "httpHeaders path port scheme"),
    ("TCPSocketAction", "port"),
    ("GRPCAction", "port service"),
    // Of volumes Pod Security's baseline refuses host paths alone; drivers that run what the pod says are refused with them.
    (
        "Volume",
        "awsElasticBlockStore azureDisk azureFile cephfs cinder configMap csi downwardAPI emptyDir ephemeral fc flocker gcePersistentDisk \
         glusterfs image iscsi name nfs persistentVolumeClaim photonPersistentDisk portworxVolume projected quobyte rbd scaleIO secret \
         storageos vsphereVolume",
    ),
];

/// Fields that give one: `<schema>.<field>`, what is said of it, and a merge patch of a pod's spec. `extra` is a container more.
fn rights() -> Vec<(&'static str, &'static str, Value)> {
    let context = |context: Value| json!({"extra": {"securityContext": context}});
    let probe = |of: &str, probe: Value| json!({"extra": {of: probe}});
    let get = json!({"httpGet": {"port": 80, "host": "127.0.0.1"}});
    let connect = json!({"tcpSocket": {"port": 80, "host": "127.0.0.1"}});
    let volume = |source: Value| {
        let mut volume = source;
        volume["name"] = json!("extra");
        json!({"volumes": [volume]})
    };
    let host_process = json!({"windowsOptions": {"hostProcess": true}});
    let confinement = "seccomp, AppArmor or SELinux";
    vec![
        ("PodSpec.hostNetwork", "namespaces of the node", json!({"hostNetwork": true})),
        ("PodSpec.hostPID", "namespaces of the node", json!({"hostPID": true})),
        ("PodSpec.hostIPC", "namespaces of the node", json!({"hostIPC": true})),
        ("PodSpec.nodeName", "nodeName", json!({"nodeName": NODE})),
        ("PodSpec.priorityClassName", "priorityClassName", json!({"priorityClassName": "system-cluster-critical"})),
        (
            "PodSecurityContext.sysctls",
            "sysctls",
            json!({"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}}),
        ),
        (
            "PodSecurityContext.seccompProfile",
            confinement,
            json!({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}),
        ),
        (
            "PodSecurityContext.appArmorProfile",
            confinement,
            json!({"securityContext": {"appArmorProfile": {"type": "Unconfined"}}}),
        ),
        (
            "PodSecurityContext.seLinuxOptions",
            confinement,
            json!({"securityContext": {"seLinuxOptions": {"type": "spc_t"}}}),
        ),
        (
            "WindowsSecurityContextOptions.hostProcess",
            "hostProcess",
            json!({"hostNetwork": true, "securityContext": host_process}),
        ),
        ("SecurityContext.privileged", "privileged", context(json!({"privileged": true}))),
        (
            "SecurityContext.procMount",
            "procMount",
            json!({"hostUsers": false, "extra": {"securityContext": {"procMount": "Unmasked"}}}),
        ),
        ("Capabilities.add", "capabilities", context(json!({"capabilities": {"add": ["SYS_ADMIN"]}}))),
        ("Capabilities.add", "capabilities", context(json!({"capabilities": {"add": ["ALL"]}}))),
        ("SeccompProfile.type", confinement, context(json!({"seccompProfile": {"type": "Unconfined"}}))),
        ("AppArmorProfile.type", confinement, context(json!({"appArmorProfile": {"type": "Unconfined"}}))),
        ("SELinuxOptions.type", confinement, context(json!({"seLinuxOptions": {"type": "spc_t"}}))),
        ("SELinuxOptions.user", confinement, context(json!({"seLinuxOptions": {"user": "u"}}))),
        ("SELinuxOptions.role", confinement, context(json!({"seLinuxOptions": {"role": "r"}}))),
        ("ContainerPort.hostPort", "hostPort", json!({"extra": {"ports": [{"containerPort": 81, "hostPort": 81}]}})),
        ("HTTPGetAction.host", "host of a probe or hook", probe("livenessProbe", get.clone())),
        ("HTTPGetAction.host", "host of a probe or hook", probe("readinessProbe", get.clone())),
        ("HTTPGetAction.host", "host of a probe or hook", probe("startupProbe", get.clone())),
        ("HTTPGetAction.host", "host of a probe or hook", probe("lifecycle", json!({"postStart": get}))),
        ("TCPSocketAction.host", "host of a probe or hook", probe("livenessProbe", connect.clone())),
        ("TCPSocketAction.host", "host of a probe or hook", probe("lifecycle", json!({"preStop": connect}))),
        ("Container.volumeDevices", "volumeDevices", {
            let mut spec = volume(json!({"persistentVolumeClaim": {"claimName": "x"}}));
            spec["extra"] = json!({"volumeDevices": [{"name": "extra", "devicePath": "/dev/x"}]});
            spec
        }),
        ("Volume.hostPath", "hostPath", volume(json!({"hostPath": {"path": "/"}}))),
        ("Volume.flexVolume", "hostPath", volume(json!({"flexVolume": {"driver": "a/b"}}))),
        ("Volume.gitRepo", "hostPath", volume(json!({"gitRepo": {"repository": "x"}}))),
    ]
}

/// A pod of a CollaSet with this, in the given list of containers.
fn pod(list: &str, changes: &Value) -> Value {
    let mut pod = colla_set_pod("colla", "new");
    for (field, value) in changes.as_object().into_iter().flatten() {
        if field != "extra" {
            pod["spec"][field] = value.clone();
            continue;
        }
        let mut container = json!({"name": "extra", "image": "extra:1"});
        if list == "initContainers" {
            // Only such ones have probes and hooks.
            container["restartPolicy"] = json!("Always");
        }
        for (field, value) in value.as_object().into_iter().flatten() {
            container[field] = value.clone();
        }
        if let Some(containers) = pod["spec"][list].as_array_mut() {
            containers.push(container);
        }
    }
    pod
}

/// What is wrong.
pub(crate) async fn judge(api: &Api) -> anyhow::Result<Vec<String>> {
    let openapi = api.admin(&Call::get("/openapi/v3/api/v1")).await?;
    let rights = rights();
    let (mut wrong, mut served) = (Vec::new(), BTreeSet::new());
    for (schema, plain) in PLAIN {
        let of = openapi["components"]["schemas"][format!("io.k8s.api.core.v1.{schema}")]["properties"].as_object();
        for field in of.with_context(|| format!("the API server describes no {schema}"))?.keys() {
            let name = format!("{schema}.{field}");
            if !plain.split_whitespace().any(|each| each == field) && !rights.iter().any(|(each, ..)| *each == name) {
                wrong.push(format!("{name}: nobody has looked whether it gives a pod a right on its node"));
            }
            served.insert(name);
        }
    }
    for (name, words, changes) in rights.iter().filter(|(name, ..)| served.contains(*name)) {
        for list in ["containers", "initContainers"] {
            let call = Call::create(pods(NAMESPACE), pod(list, changes));
            match api.send(Who::Controller, &call).await? {
                Outcome::Admitted(..) => wrong.push(format!("the controller makes pods with {name} in {list}")),
                // Another policy may be named, which compares the pod with its owner.
                Outcome::Refused(message)
                    if message.contains("ValidatingAdmissionPolicy 'hitless-controller-collaset") => {}
                Outcome::Refused(message) if message.contains("node-access=allowed") && message.contains(words) => {}
                Outcome::Refused(message) => wrong.push(format!("{name} in {list}: {message}")),
            }
        }
    }
    Ok(wrong)
}
