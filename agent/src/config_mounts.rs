//! Containers that read files which the kubelet renews: those of ConfigMaps and Secrets.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Pod, Volume};

/// Names of containers that mount such a volume.
pub(crate) fn of(pod: &Pod) -> BTreeSet<String> {
    let Some(spec) = &pod.spec else { return BTreeSet::new() };
    let renewed: BTreeSet<&str> =
        spec.volumes.iter().flatten().filter(|volume| is_renewed(volume)).map(|volume| volume.name.as_str()).collect();
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let mounts = containers.filter(|container| {
        container.volume_mounts.iter().flatten().any(|mount| renewed.contains(mount.name.as_str()))
    });
    mounts.map(|container| container.name.clone()).collect()
}

/// ConfigMaps that admission mounts into each pod, beside its token: certificates of the cluster, on OpenShift two. They change once in years.
const OF_EACH_POD: [&str; 2] = ["kube-root-ca.crt", "openshift-service-ca.crt"];

fn is_renewed(volume: &Volume) -> bool {
    let mut sources = volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
    let has_config = sources.any(|source| {
        let own = source.config_map.as_ref().is_some_and(|config_map| !OF_EACH_POD.contains(&config_map.name.as_str()));
        own || source.secret.is_some()
    });
    volume.config_map.is_some() || volume.secret.is_some() || has_config
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn configuration_counts_and_what_each_pod_has_does_not() {
        let mount =
            |name: &str, volume: &str| json!({"name": name, "volumeMounts": [{"name": volume, "mountPath": "/x"}]});
        let token = json!([{"serviceAccountToken": {"path": "token"}}, {"configMap": {"name": "kube-root-ca.crt"}}]);
        let pod = json!({"metadata": {}, "spec": {
            "volumes": [{"name": "map", "configMap": {"name": "m"}}, {"name": "secret", "secret": {"secretName": "s"}},
                {"name": "all", "projected": {"sources": [{"secret": {"name": "s"}}]}},
                {"name": "both", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}, {"configMap": {"name": "m"}}]}},
                {"name": "token", "projected": {"sources": token}}, {"name": "cache", "emptyDir": {}}],
            "containers": [mount("a", "map"), mount("b", "secret"), mount("c", "all"), mount("d", "token"), mount("e", "cache"),
                mount("g", "both")],
            "initContainers": [mount("f", "map")]}});
        let pod: Pod = serde_json::from_value(pod).unwrap();
        assert_eq!(of(&pod).iter().map(String::as_str).collect::<Vec<_>>(), ["a", "b", "c", "f", "g"]);
        assert!(of(&Pod::default()).is_empty());
    }
}
