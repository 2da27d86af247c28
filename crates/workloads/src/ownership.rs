//! Fields of a workload that were borrowed for a rollout are given up once they are put back. Whoever applies the object server-side
//! would be told of a conflict with `hitless-controller` otherwise, the next time that one of them changes. Such a field belongs to
//! nobody then, until its owner applies it anew: the API server takes no list of owners in the write that changes a field.

use hitless_api::names::CONTROLLER;

use crate::object::Object;
use crate::plan::{Plan, Stage};
use crate::write::Write;

/// Gives them up, if none of them is borrowed any more and nothing else is to be written.
pub(crate) fn give_up(root: &Object, plan: &Plan) -> Option<Write> {
    let is_over = match plan.stage {
        Stage::NotOurs | Stage::Idle | Stage::Native => true,
        Stage::Rolling | Stage::Finishing | Stage::SteppingAside(_) | Stage::Refused(_) | Stage::Halted(_) => false,
    };
    let index = root.owned_spec.filter(|_| is_over && plan.writes.is_empty())?.to_string();
    let entry = ["metadata", "managedFields", &index];
    let manager = ["metadata", "managedFields", &index, "manager"];
    Some(Write::patch("give-up-fields", root, |patch| patch.test(&manager, CONTROLLER).remove(&entry)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn they_are_given_up_once_the_rollout_is_over() {
        let entries =
            json!([{"manager": "gitops", "fieldsV1": {}}, {"manager": CONTROLLER, "fieldsV1": {"f:spec": {}}}]);
        let root = crate::registry::read(json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"namespace": "shop", "name": "web", "uid": "u", "resourceVersion": "7", "managedFields": entries},
            "spec": {"selector": {}, "template": {"spec": {"containers": [{"name": "web", "image": "web:v1"}]}}}}))
        .unwrap()
        .unwrap();
        let at = |stage: Stage| Plan { stage, ..Plan::nothing(&root) };
        let write = give_up(&root, &at(Stage::Idle)).unwrap();
        let crate::Request::Patch(patch) = write.request else { panic!("{write:?}") };
        let patch = json!(patch.operations());
        assert_eq!(patch[2], json!({"op": "test", "path": "/metadata/managedFields/1/manager", "value": CONTROLLER}));
        assert_eq!(patch[3], json!({"op": "remove", "path": "/metadata/managedFields/1"}));
        assert_eq!(give_up(&root, &at(Stage::Rolling)), None, "it is borrowed");
    }
}
