//! Which fields of a template give its annotations to the software in the pod (downward API).

use serde_json::Value;

use crate::template::items;

/// Path of the annotations in a `fieldPath`.
const ANNOTATIONS: &str = "metadata.annotations";

/// A field that reads annotations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reader {
    /// The field, e.g. `spec.template.spec.containers[web].env[SUM]`.
    pub(super) field: String,
    /// The annotation; `None`: all of them.
    key: Option<String>,
}

impl Reader {
    pub(super) fn reads(&self, key: &str) -> bool {
        self.key.as_deref().is_none_or(|own| own == key)
    }

    /// `None` if the path leads to something else.
    fn of(field: String, from: &Value) -> Option<Self> {
        let rest = from["fieldRef"]["fieldPath"].as_str()?.strip_prefix(ANNOTATIONS)?;
        if rest.is_empty() {
            return Some(Self { field, key: None });
        }
        let key = rest.strip_prefix("['")?.strip_suffix("']")?;
        Some(Self { field, key: Some(key.to_owned()) })
    }
}

/// All fields of the template that read annotations.
pub(super) fn readers(template: &Value) -> Vec<Reader> {
    let spec = &template["spec"];
    let containers = ["initContainers", "containers"].into_iter().flat_map(|list| {
        items(&spec[list]).flat_map(move |container| {
            let container_path = format!("spec.template.spec.{list}[{}]", text(container, "name"));
            items(&container["env"]).filter_map(move |env| {
                Reader::of(format!("{container_path}.env[{}]", text(env, "name")), &env["valueFrom"])
            })
        })
    });
    let volumes = items(&spec["volumes"]).flat_map(|volume| {
        let path = format!("spec.template.spec.volumes[{}]", text(volume, "name"));
        let projected = items(&volume["projected"]["sources"]).enumerate();
        let projected = projected.map(|(index, source)| (format!(".projected.sources[{index}]"), source));
        let sources = std::iter::once((String::new(), volume)).chain(projected);
        sources.flat_map(move |(inside, source)| {
            let path = format!("{path}{inside}.downwardAPI.items");
            items(&source["downwardAPI"]["items"])
                .filter_map(move |item| Reader::of(format!("{path}[{}]", text(item, "path")), item))
        })
    });
    containers.chain(volumes).collect()
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap_or_default()
}
