//! Whether a pod of a template may run beside another one of the same workload.

use serde_json::Value;

use crate::field::items;

/// Why it may not, as a clause for people; `None`: it may.
#[must_use]
pub(crate) fn only_one(template: &Value) -> Option<String> {
    let spec = &template["spec"];
    if spec["hostNetwork"] == true {
        return Some("its pods use their nodes' network".to_owned());
    }
    for volume in items(&spec["volumes"]) {
        let name = volume["name"].as_str().unwrap_or_default();
        // What two pods may do to it at once is for its owner to say.
        if volume.get("persistentVolumeClaim").is_some_and(|claim| !claim.is_null()) {
            return Some(format!("volume {name} is a PersistentVolumeClaim"));
        }
    }
    for container in items(&spec["containers"]).chain(items(&spec["initContainers"])) {
        let taken = items(&container["ports"]).find_map(|port| port["hostPort"].as_u64().filter(|port| *port > 0));
        if let Some(port) = taken {
            return Some(format!("its pods use port {port} of their node"));
        }
    }
    None
}

/// Whether this `maxSurge` is none at all.
pub(crate) fn is_none(most: &Value) -> bool {
    *most == 0 || *most == "0%" || *most == "0"
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pod_that_needs_something_for_itself_runs_alone() {
        let why = |spec: Value| only_one(&json!({"spec": spec}));
        assert_eq!(why(json!({"containers": [{"name": "web", "ports": [{"containerPort": 80}]}]})), None);
        assert_eq!(why(json!({"volumes": [{"name": "tmp", "emptyDir": {}}]})), None);
        assert_eq!(why(json!({"hostNetwork": true})).as_deref(), Some("its pods use their nodes' network"));
        let claim = json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]});
        assert_eq!(why(claim).as_deref(), Some("volume data is a PersistentVolumeClaim"));
        let port = json!({"containers": [{"name": "web", "ports": [{"containerPort": 80, "hostPort": 8080}]}]});
        assert_eq!(why(port).as_deref(), Some("its pods use port 8080 of their node"));
    }
}
