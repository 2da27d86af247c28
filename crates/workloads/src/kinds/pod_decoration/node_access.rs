//! Rights on the node, which a decoration gives nobody.
//!
//! The API server lets the controller make pods of a CollaSet only with rights that the CollaSet's own template gives
//! (manifests/policies/collaset.yaml): a policy sees one object beside the pod. So a decoration that gives others would let pods leave that
//! can't be made anew, and is refused before.

use serde_json::Value;

use crate::field::items;

/// What `decoration` gives that the CollaSet's `template` does not: a clause for people.
pub(super) fn beyond(template: &Value, decoration: &Value) -> Option<String> {
    let is_privileged = |container: &Value| container["securityContext"]["privileged"] == true;
    let containers = |spec: &'_ Value| -> Vec<Value> {
        items(&spec["containers"])
            .chain(items(&spec["initContainers"]))
            .filter(|each| is_privileged(each))
            .cloned()
            .collect()
    };
    let given = containers(&template["spec"]);
    let container = containers(decoration).into_iter().find(|each| given.iter().all(|own| own["name"] != each["name"]));
    if let Some(name) = container.as_ref().map(|container| &container["name"]) {
        return Some(format!(
            "container {} is privileged, which only a container of the CollaSet's own template may be",
            text(name)
        ));
    }
    let path = |volume: &Value| volume["hostPath"]["path"].as_str().map(ToOwned::to_owned);
    let is_given = |volume: &Value| {
        items(&template["spec"]["volumes"]).any(|own| own["name"] == volume["name"] && path(own) == path(volume))
    };
    let volume = items(&decoration["volumes"]).find(|volume| !volume["hostPath"].is_null() && !is_given(volume))?;
    let name = text(&volume["name"]);
    Some(format!("volume {name} is a path of the node; name the same volume in the CollaSet's own template, too"))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_decoration_gives_no_right_that_the_template_does_not_give() {
        let logs = json!({"name": "logs", "hostPath": {"path": "/var/log"}});
        let root = json!({"name": "log", "securityContext": {"privileged": true}});
        let (none, own) = (json!({"spec": {}}), json!({"spec": {"volumes": [logs], "containers": [root]}}));
        let with = |field: &str, value: &Value| json!({field: [value]});
        assert!(beyond(&none, &with("volumes", &logs)).unwrap().contains("volume logs"));
        assert!(beyond(&none, &with("containers", &root)).unwrap().contains("container log"));
        assert!(beyond(&none, &with("initContainers", &root)).is_some());
        for decoration in [with("volumes", &logs), with("containers", &root), json!({})] {
            assert_eq!(beyond(&own, &decoration), None);
        }
        let other = json!({"name": "logs", "hostPath": {"path": "/"}});
        assert!(beyond(&own, &with("volumes", &other)).is_some(), "it is another path");
        assert_eq!(beyond(&none, &with("volumes", &json!({"name": "v", "emptyDir": {}}))), None);
    }
}
