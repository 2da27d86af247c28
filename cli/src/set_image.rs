//! `kubectl hitless set image`: one write, also while a rollout is under way. Whether the change goes in place the guard and the controller
//! decide, as for everybody's.

use hitless_api::JsonPatch;
use kube::Client;
use serde_json::Value;

use crate::args::{ImageArg, SetImageArgs, TargetKind, workload_targets};
use crate::failure::Failure;
use crate::follow::follow;
use crate::say;
use crate::snapshot::Snapshot;
use crate::source::{self, Scope};
use crate::write::{Decided, held, write};

pub(crate) async fn run(client: Client, namespace: String, arguments: &SetImageArgs) -> Result<(), Failure> {
    let target = &arguments.target;
    if target.kind == TargetKind::Pod {
        return Err(Failure::Usage(format!("an image is a workload's; write {}", workload_targets())));
    }
    let snapshot = source::read(&client, &Scope::Namespace(namespace)).await?;
    let decide = |snapshot: &Snapshot| decided(snapshot, arguments);
    say(&write(&client, snapshot, &format!("set the image of {target}"), decide).await?)
}

fn decided(snapshot: &Snapshot, arguments: &SetImageArgs) -> Result<Decided<String>, Failure> {
    let target = &arguments.target;
    let missing = || snapshot.missing(&format!("{target} does not exist"));
    let object = snapshot.find(target).and_then(|found| found.workload).ok_or_else(missing)?;
    let raw = snapshot.raw(&object.id.uid).ok_or_else(missing)?;
    let on = object.id.clone();
    Ok(match change(raw, &arguments.images)? {
        None => Decided { on, patch: None, said: format!("{target} has these images already") },
        Some(change) => {
            let said = format!("{target} image updated; {}", follow(object));
            Decided { on, patch: Some(held(change, object, raw)), said }
        }
    })
}

/// One patch that tests the name and the image of each container that it changes; `None`: all have these images.
fn change(object: &Value, images: &[ImageArg]) -> Result<Option<JsonPatch>, Failure> {
    let spec = &object["spec"]["template"]["spec"];
    let mut patch = JsonPatch::of(object["metadata"]["uid"].as_str().unwrap_or_default());
    let mut changes = false;
    for wanted in images {
        let (list, index, container) = find(spec, wanted)?;
        let image = container["image"].as_str().unwrap_or_default();
        if image == wanted.image {
            continue;
        }
        let index = index.to_string();
        let of = |field| ["spec", "template", "spec", list, index.as_str(), field];
        patch = patch.test(&of("name"), container["name"].clone()).test(&of("image"), image);
        patch = patch.replace(&of("image"), wanted.image.as_str());
        changes = true;
    }
    Ok(changes.then_some(patch))
}

/// The container that is meant: its list, its place there, and itself.
fn find<'a>(spec: &'a Value, wanted: &ImageArg) -> Result<(&'static str, usize, &'a Value), Failure> {
    let of = |list: &'static str| {
        let containers = spec[list].as_array().into_iter().flatten().enumerate();
        containers.map(move |(index, container)| (list, index, container))
    };
    let all: Vec<_> = of("containers").chain(of("initContainers")).collect();
    let known = all.iter().filter_map(|(_, _, container)| container["name"].as_str()).collect::<Vec<_>>().join(", ");
    match &wanted.container {
        Some(name) => all
            .iter()
            .find(|(_, _, container)| container["name"] == name.as_str())
            .copied()
            .ok_or_else(|| Failure::Usage(format!("there is no container {name}; there are: {known}"))),
        None if all.len() == 1 => Ok(all[0]),
        None => Err(Failure::Usage(format!(
            "say which container gets {}: CONTAINER=IMAGE, with one of {known}",
            wanted.image
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{pod, rollout};
    use serde_json::json;

    fn images(texts: &[&str]) -> Vec<ImageArg> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn two_containers() -> Value {
        let mut object = rollout(&[pod("a", "web:v1")]).objects[0].raw.clone();
        let containers = object["spec"]["template"]["spec"]["containers"].as_array_mut().unwrap();
        containers.push(json!({"name": "log", "image": "log:v1"}));
        object
    }

    #[test]
    fn all_images_are_one_write_that_tests_what_was_there() {
        let object = two_containers();
        let patch = change(&object, &images(&["web=web:v3", "log=log:v2"])).unwrap().unwrap();
        let mut after = object.clone();
        json_patch::patch(&mut after, &patch.clone().operations()).unwrap();
        let image = |index: usize| after["spec"]["template"]["spec"]["containers"][index]["image"].clone();
        assert_eq!((image(0), image(1)), (json!("web:v3"), json!("log:v2")));
        let mut other = object.clone();
        other["spec"]["template"]["spec"]["containers"][1]["image"] = "log:v9".into();
        assert!(json_patch::patch(&mut other, &patch.operations()).is_err(), "somebody has changed it meanwhile");
        assert_eq!(change(&object, &images(&["web=web:v2"])).unwrap(), None, "nothing to do");
    }

    #[test]
    fn a_container_that_is_not_there_is_refused_by_its_name() {
        let failure = change(&two_containers(), &images(&["web=web:v3", "wbe=web:v3"])).unwrap_err();
        assert_eq!(
            (failure.code(), failure.to_string()),
            (2, "there is no container wbe; there are: web, log".to_owned())
        );
        assert!(change(&two_containers(), &images(&["web:v3"])).unwrap_err().to_string().contains("web, log"));
    }
}
