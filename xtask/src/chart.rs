//! The Helm chart `charts/hitless`, made from `manifests`: both ways of installing give the same objects.
//!
//! Each kustomization becomes a condition. Its objects are rendered where the condition is true, and its patches become conditions inside
//! the objects that they change. Some fields come from values instead, whose defaults are what stood there. Files that belong to
//! the chart alone are written by hand: `Chart.yaml`, and what is in `templates` but not in `templates/manifests`.

mod emit;
mod kustomize;
mod settings;
mod values;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};
use hitless_workloads::{COMPONENTS, Component};

use kustomize::Object;

/// The chart.
const FOLDER: &str = "charts/hitless";
/// All of it is generated.
const TEMPLATES: &str = "templates/manifests";
/// The rules for Prometheus, which the chart has as they are.
const ALERTS: &str = "docs/examples/alerts.yaml";
/// The namespace in the manifests; the chart's is that of the release.
const NAMESPACE: &str = "hitless-system";

/// Parts of hitless itself that may be left out, beside the components of other projects: name of the value, and folder.
const OWN_COMPONENTS: [(&str, &str); 2] = [("exec-hooks", "manifests/exec-hooks"), ("selinux", "overlays/selinux")];

/// Kustomizations and when they are installed. Those that patch whatever is there come last.
fn layers(root: &Path) -> Vec<(String, Option<String>)> {
    let is_named = |name: &str| format!(r#"has "{name}" .Values.components"#);
    let [hooks, selinux] = OWN_COMPONENTS.map(|(name, folder)| (folder.to_owned(), Some(is_named(name))));
    let of_projects = COMPONENTS.into_iter().flat_map(|Component { name, .. }| {
        let parts = ["", "/rbac", "/crds", "/policies"].map(|part| format!("manifests/{name}{part}"));
        let there = parts.into_iter().filter(|folder| root.join(folder).is_dir());
        there.map(|folder| (folder, Some(is_named(name)))).collect::<Vec<_>>()
    });
    let admission = |version: &str| Some(format!(r#"eq (include "hitless.admission" .) "{version}""#));
    let base = ["manifests", "manifests/crds"].map(|folder| (folder.to_owned(), None));
    let last = [
        ("manifests/network".to_owned(), Some(".Values.networkPolicy.enabled".to_owned())),
        ("manifests/refusing".to_owned(), admission("refusing")),
        ("manifests/v1beta1".to_owned(), admission("v1beta1")),
    ];
    base.into_iter().chain([hooks]).chain(of_projects).chain([selinux]).chain(last).collect()
}

/// Path in the chart and content of every generated file.
fn files(root: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let mut objects: Vec<Object> = Vec::new();
    for (folder, condition) in layers(root) {
        kustomize::layer(root, &folder, condition.as_deref(), &mut objects)
            .with_context(|| format!("{folder} as a template"))?;
    }
    // Helm makes the release's namespace, and refuses one that is in the chart, too.
    objects.retain(|object| object.value["kind"] != "Namespace");
    let defaults = settings::replace(&mut objects)?;
    let mut files = BTreeMap::new();
    for object in &objects {
        let name = object.file.strip_prefix("manifests/").unwrap_or(&object.file);
        let file: &mut String = files.entry(format!("{TEMPLATES}/{name}")).or_default();
        if file.is_empty() {
            *file =
                format!("{{{{- /* Generated from {} by `cargo xtask generate`. Do not edit. */ -}}}}\n", object.file);
        }
        file.push_str(&emit::document(&object.conditions, &object.value));
    }
    let alerts = fs::read_to_string(root.join(ALERTS)).with_context(|| format!("cannot read {ALERTS}"))?;
    files.insert("alerts.yaml".to_owned(), format!("# Generated from {ALERTS} by `cargo xtask generate`.\n{alerts}"));
    files.insert("values.schema.json".to_owned(), values::schema()?);
    files.insert("values.yaml".to_owned(), values::defaults(&defaults)?);
    Ok(files)
}

/// Writes the generated files, and removes those of manifests that are gone.
pub(crate) fn write(root: &Path) -> anyhow::Result<()> {
    let folder = root.join(FOLDER);
    let templates = folder.join(TEMPLATES);
    if templates.exists() {
        fs::remove_dir_all(&templates).with_context(|| format!("cannot remove {}", templates.display()))?;
    }
    let files = files(root)?;
    ensure!(!files.is_empty(), "the manifests have no objects");
    for (name, text) in &files {
        let path = folder.join(name);
        let parent = path.parent().context("a file has no folder")?;
        fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    println!("wrote {} files of {FOLDER}", files.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::PathBuf;

    use super::*;

    /// The files below a folder.
    fn below(folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries.flat_map(|path| if path.is_dir() { below(&path) } else { vec![path] }).collect()
    }

    #[test]
    fn the_committed_chart_is_what_the_manifests_say() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let (folder, generated) = (root.join(FOLDER), files(root).unwrap());
        for (name, text) in &generated {
            let committed = fs::read_to_string(folder.join(name)).unwrap_or_default();
            assert!(committed == *text, "{FOLDER}/{name} is stale: run `cargo xtask generate` and commit the result");
        }
        let there: BTreeSet<PathBuf> = below(&folder.join(TEMPLATES)).into_iter().collect();
        let wanted = generated.keys().filter(|name| name.starts_with(TEMPLATES)).map(|name| folder.join(name));
        assert_eq!(there, wanted.collect(), "run `cargo xtask generate` and commit the result");
    }
}
