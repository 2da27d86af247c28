//! Which changes of a template can be made to a running pod.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::because::{Because, Cause};
use crate::containers;
use crate::labels::{self, Selections};
use crate::object::Object;
use crate::restart_annotations::RestartAnnotations;
use crate::shape::{Shape, fixed};
use crate::template::Template;

/// The first field in which the templates of this workload differ and that can't be changed in place, e.g.
/// `spec.template.spec.containers[web].env`. `None` if all differences can be made to running pods: images of containers and of
/// restartable init containers, labels, and restart annotations.
#[must_use]
pub fn first_native_change(
    workload: &Object,
    from: &Template,
    to: &Template,
    selections: &Selections<'_>,
) -> Option<Because> {
    if from.revision() == to.revision() {
        return None;
    }
    if let Some(large) = to.too_large().or(from.too_large()) {
        return Some(Because::too_large(large));
    }
    let field = first_difference("spec.template", Some(&fixed(from.content())), Some(&fixed(to.content())));
    field
        .map(|field| because(&field, to))
        .or_else(|| InPlace::of(workload, to, selections).first_native_change(from.shape()))
}

/// What can be changed in the running pods of a workload that is to have a template.
pub(crate) struct InPlace<'a> {
    restarts: RestartAnnotations,
    target: &'a Template,
    selections: &'a Selections<'a>,
}

impl<'a> InPlace<'a> {
    pub(crate) fn of(workload: &Object, target: &'a Template, selections: &'a Selections<'a>) -> Self {
        Self { restarts: RestartAnnotations::of(workload, target), target, selections }
    }

    /// The first label or annotation that can't be changed to the target's. Of templates that are equal in all else but images.
    pub(crate) fn first_native_change(&self, from: &Shape) -> Option<Because> {
        labels::first_native_change(from, self.target, self.selections)
            .or_else(|| self.restarts.first_native_change(&from.annotations, &self.target.shape().annotations))
    }

    /// Whether a pod of this template can be brought to the target in place, or back.
    pub(crate) fn allows(&self, from: &Shape) -> bool {
        from.fixed == self.target.shape().fixed && self.first_native_change(from).is_none()
    }

    pub(crate) const fn restarts(&self) -> &RestartAnnotations {
        &self.restarts
    }
}

/// Why a workload with this template is never brought to another one in place, whatever the change is.
pub(crate) fn never(workload: &Object, template: &Template) -> Option<Because> {
    // The controller changes no template there: whoever takes it over must not reach what the cluster itself consists of.
    if workload.is_system() {
        let text = format!("it is in {}, where hitless changes no workload", workload.id.namespace);
        return Some(Because::of(Cause::SystemNamespace, text));
    }
    if let Some(large) = template.too_large() {
        return Some(Because::too_large(large));
    }
    let text = "its pods use their nodes' network; such pods are not operated";
    let on_host = template.content()["spec"]["hostNetwork"] == true;
    on_host.then(|| Because::of(Cause::HostNetwork, text))
}

/// Why this field can't be changed in running pods.
fn because(field: &str, to: &Template) -> Because {
    let mut once = containers::init(to.content()).filter(|each| !containers::is_restartable(each));
    let name = once.find_map(|each| {
        let name = each["name"].as_str()?;
        field.strip_prefix("spec.template.spec.initContainers[")?.strip_prefix(name)?.starts_with(']').then_some(name)
    });
    name.map_or_else(|| Because::field(field), |name| Because::init_container(field, name))
}

fn first_difference(path: &str, from: Option<&Value>, to: Option<&Value>) -> Option<String> {
    match (from, to) {
        (Some(Value::Object(from)), Some(Value::Object(to))) => {
            let keys: BTreeSet<&String> = from.keys().chain(to.keys()).collect();
            keys.into_iter().find_map(|key| first_difference(&format!("{path}.{key}"), from.get(key), to.get(key)))
        }
        (Some(Value::Array(from)), Some(Value::Array(to))) if from.len() == to.len() => {
            from.iter().zip(to).enumerate().find_map(|(index, (from, to))| {
                let name = from.get("name").filter(|name| Some(*name) == to.get("name")).and_then(Value::as_str);
                let element = name.map_or_else(|| index.to_string(), ToOwned::to_owned);
                first_difference(&format!("{path}[{element}]"), Some(from), Some(to))
            })
        }
        (from, to) if from == to => None,
        _ => Some(path.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn base() -> Value {
        json!({"metadata": {"labels": {"app": "web", "pod-template-hash": "x"}}, "spec": {
            "containers": [{"name": "web", "image": "web:v1", "env": [{"name": "A", "value": "1"}]}, {"name": "side", "image": "side:v1"}],
            "initContainers": [{"name": "init", "image": "init:v1"}, {"name": "proxy", "image": "proxy:v1", "restartPolicy": "Always", "command": []}]}})
    }

    fn changed(path: &str, value: Value) -> Option<Because> {
        let workload = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}});
        let workload = crate::registry::read(workload).unwrap().unwrap();
        let mut to = base();
        *to.pointer_mut(path).unwrap() = value;
        first_native_change(&workload, &Template::new(base()), &Template::new(to), &Selections::default())
    }

    #[test]
    fn images_and_a_rollout_restart_go_in_place() {
        assert_eq!(changed("/spec/containers/0/image", json!("web:v2")), None);
        assert_eq!(changed("/spec/initContainers/1/image", json!("proxy:v2")), None, "it runs as long as the pod does");
        assert_eq!(changed("/metadata", json!({"labels": {"app": "web"}})), None, "the hash is not the user's");
        let restart = json!({"labels": {"app": "web"}, "annotations": {"kubectl.kubernetes.io/restartedAt": "now"}});
        assert_eq!(changed("/metadata", restart), None);
        let mixed = json!({"labels": {"app": "web"}, "annotations": {"hitless.dev/mixed": "1"}});
        assert_eq!(changed("/metadata", mixed), None);
        assert_eq!(changed("/metadata/labels", json!({"app": "web", "helm.sh/chart": "web-2"})), None);
    }

    #[test]
    fn everything_else_is_named() {
        let table = [
            ("/spec/containers/0/env/0/value", json!("2"), "spec.template.spec.containers[web].env[A].value"),
            ("/spec/containers/0/env", json!([]), "spec.template.spec.containers[web].env"),
            ("/spec/containers/1/name", json!("other"), "spec.template.spec.containers[1].name"),
            ("/spec/initContainers/1/command", json!(["a"]), "spec.template.spec.initContainers[proxy].command"),
            ("/spec/containers", json!([{"name": "web", "image": "web:v1"}]), "spec.template.spec.containers"),
            ("/spec", json!(null), "spec.template.spec"),
        ];
        for (path, value, field) in table {
            assert_eq!(changed(path, value), Some(Because::field(field)));
        }
        let annotated = json!({"labels": {"app": "web"}, "annotations": {"a": "b"}});
        assert_eq!(changed("/metadata", annotated), Some(Because::field("spec.template.metadata.annotations[a]")));
    }

    #[test]
    fn an_init_container_that_has_run_is_named() {
        let because = changed("/spec/initContainers/0/image", json!("init:v2")).unwrap();
        let text = "a change of spec.template.spec.initContainers[init].image can't be made to running pods: \
                    init container init runs only when a pod is started";
        assert_eq!((because.cause, because.text.as_str()), (Cause::Field, text));
        let because = changed("/spec/initContainers/1/restartPolicy", json!("Never"));
        assert!(
            because
                .is_some_and(|because| because.text.ends_with("init container proxy runs only when a pod is started"))
        );
    }
}
