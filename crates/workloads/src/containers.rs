//! Which containers of a template run as long as its pods do: those of `containers`, and restartable init containers.

use serde_json::Value;

use crate::field::items;

const REGULAR: &str = "containers";
const INIT: &str = "initContainers";

/// Of an init container: it is started before others and runs as long as they do, so the kubelet replaces it in a running pod.
pub(crate) fn is_restartable(init: &Value) -> bool {
    init["restartPolicy"] == "Always"
}

/// All init containers.
pub(crate) fn init(template: &Value) -> impl Iterator<Item = &Value> {
    items(&template["spec"][INIT])
}

/// All containers, of either list.
pub(crate) fn all(template: &Value) -> impl Iterator<Item = &Value> {
    items(&template["spec"][REGULAR]).chain(init(template))
}

/// All that run as long as the pod does.
pub(crate) fn running(template: &Value) -> impl Iterator<Item = &Value> {
    let regular = items(&template["spec"][REGULAR]);
    regular.chain(init(template).filter(|each| is_restartable(each)))
}

/// The same, to be changed.
pub(crate) fn each_running(template: &mut Value, mut change: impl FnMut(&mut Value)) {
    let Some(spec) = template.get_mut("spec") else { return };
    for container in spec.get_mut(REGULAR).and_then(Value::as_array_mut).into_iter().flatten() {
        change(container);
    }
    let init = spec.get_mut(INIT).and_then(Value::as_array_mut).into_iter().flatten();
    init.filter(|each| is_restartable(each)).for_each(change);
}
