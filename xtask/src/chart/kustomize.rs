//! The part of kustomize that the manifests use. A word that is not known here is an error.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::emit;

/// An object of the manifests, and when it is there.
pub(super) struct Object {
    /// Its file, from the root of the repository.
    pub(super) file: String,
    /// Conditions of the template; all of them have to be true.
    pub(super) conditions: Vec<String>,
    /// The object. Strings in it that [`emit`] marks are parts of the template.
    pub(super) value: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Kustomization {
    #[serde(rename = "apiVersion")]
    _api_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    #[serde(default)]
    resources: Vec<String>,
    #[serde(default)]
    patches: Vec<Patch>,
    #[serde(default)]
    labels: Vec<Pairs>,
    #[serde(default)]
    common_annotations: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pairs {
    pairs: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Patch {
    target: Target,
    patch: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Target {
    kind: String,
    name: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Operation {
    op: String,
    path: String,
    value: Value,
}

impl Target {
    fn is(&self, value: &Value) -> bool {
        self.kind.split('|').any(|kind| value["kind"] == kind)
            && self.name.as_ref().is_none_or(|name| value["metadata"]["name"] == **name)
    }
}

/// Adds a kustomization, which counts where the condition is true, to the objects.
pub(super) fn layer(
    root: &Path,
    folder: &str,
    condition: Option<&str>,
    objects: &mut Vec<Object>,
) -> anyhow::Result<()> {
    let text = fs::read_to_string(root.join(folder).join("kustomization.yaml"))?;
    let layer: Kustomization = serde_saphyr::from_str(&text)?;
    // A folder is a layer of its own.
    for resource in layer.resources.iter().filter(|resource| !root.join(folder).join(resource).is_dir()) {
        let file = format!("{folder}/{resource}");
        let text = fs::read_to_string(root.join(&file)).with_context(|| format!("cannot read {file}"))?;
        ensure!(!text.contains("{{"), "{file} has {{{{, which is the beginning of a template's expression");
        let documents: Vec<Value> =
            serde_saphyr::from_multiple(&text).with_context(|| format!("cannot read {file}"))?;
        for mut value in documents {
            for (field, texts) in layer
                .labels
                .iter()
                .map(|labels| ("labels", &labels.pairs))
                .chain([("annotations", &layer.common_annotations)])
            {
                add(&mut value, field, texts);
            }
            let conditions = condition.map(str::to_owned).into_iter().collect();
            objects.push(Object { file: file.clone(), conditions, value });
        }
    }
    for patch in &layer.patches {
        let condition = condition.context("a patch without a condition belongs into the object")?;
        let mut targets = objects.iter_mut().filter(|object| patch.target.is(&object.value)).peekable();
        ensure!(targets.peek().is_some(), "a patch of {} changes nothing", patch.target.kind);
        for object in targets {
            apply(object, &patch.patch, condition)?;
        }
    }
    Ok(())
}

fn add(value: &mut Value, field: &str, texts: &Map<String, Value>) {
    if let Some(metadata) = value["metadata"].as_object_mut()
        && !texts.is_empty()
        && let Some(there) = metadata.entry(field).or_insert_with(|| Value::Object(Map::new())).as_object_mut()
    {
        there.extend(texts.clone());
    }
}

/// Applies a patch where the condition is true.
fn apply(object: &mut Object, patch: &str, condition: &str) -> anyhow::Result<()> {
    let patch: Value = serde_saphyr::from_str(patch)?;
    if patch["$patch"] == "delete" {
        object.conditions.push(format!("not ({condition})"));
        return Ok(());
    }
    let operations: Vec<Operation> = serde_json::from_value(patch).context("a patch that is no list of operations")?;
    for Operation { op, path, value } in operations {
        let (parent, name) = path.rsplit_once('/').context("a patch of the whole object")?;
        let parent =
            object.value.pointer_mut(parent).with_context(|| format!("a patch of {path}, which is not there"))?;
        match (op.as_str(), parent) {
            ("add", Value::Array(list)) if name == "-" => list.push(emit::item_if(condition, &value)),
            ("add", Value::Object(fields)) if !fields.contains_key(name) => {
                let (key, value) = emit::field_if(condition, name, &value);
                fields.insert(key, value);
            }
            ("replace", Value::Object(fields)) => {
                let there = fields.get_mut(name).with_context(|| format!("{path} is not there"))?;
                *there = emit::either(condition, &value, there);
            }
            (op, _) => bail!("the chart can't have the operation {op} on {path}"),
        }
    }
    Ok(())
}

/// The first object of this kind and name.
pub(super) fn find<'o>(objects: &'o mut [Object], kind: &str, name: &str) -> anyhow::Result<&'o mut Object> {
    let mut all = objects.iter_mut();
    all.find(|object| object.value["kind"] == kind && object.value["metadata"]["name"] == name)
        .with_context(|| format!("the manifests have no {kind} {name}"))
}
