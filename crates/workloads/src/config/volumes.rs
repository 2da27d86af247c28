//! Volumes with the content of ConfigMaps and Secrets.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{ConfigContent, ConfigKind, ConfigRef, object};
use crate::field::items;

/// A volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Volume {
    /// Its name in the pod.
    pub(super) name: String,
    /// Where its files come from; of two files with one path the later counts.
    pub(super) parts: Vec<Part>,
    /// Paths of its files that have another source.
    pub(super) others: Vec<String>,
}

/// The files that one object gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) object: ConfigRef,
    pub(super) required: bool,
    /// Key and path; `None`: each key is a file of that name.
    pub(super) items: Option<Vec<(String, String)>>,
}

impl Volume {
    /// `None` if nothing in it comes from a ConfigMap or Secret.
    pub(super) fn of(volume: &Value) -> Option<Self> {
        let name = volume["name"].as_str()?.to_owned();
        let whole = part(&volume["configMap"], ConfigKind::ConfigMap, "name")
            .or_else(|| part(&volume["secret"], ConfigKind::Secret, "secretName"));
        if let Some(part) = whole {
            return Some(Self { name, parts: vec![part], others: Vec::new() });
        }
        let (mut parts, mut others) = (Vec::new(), Vec::new());
        for source in items(&volume["projected"]["sources"]) {
            parts.extend(part(&source["configMap"], ConfigKind::ConfigMap, "name"));
            parts.extend(part(&source["secret"], ConfigKind::Secret, "name"));
            let items = items(&source["downwardAPI"]["items"]).map(|item| &item["path"]);
            let files = ["serviceAccountToken", "clusterTrustBundle"].map(|field| &source[field]["path"]);
            let certificates = ["credentialBundlePath", "keyPath", "certificateChainPath"];
            let certificates = certificates.map(|field| &source["podCertificate"][field]);
            let paths = items.chain(files).chain(certificates);
            others.extend(paths.filter_map(Value::as_str).map(ToOwned::to_owned));
        }
        (!parts.is_empty()).then_some(Self { name, parts, others })
    }

    /// Its files, as the kubelet makes them.
    pub(super) fn files<'c>(
        &self,
        content: impl Fn(&ConfigRef) -> Option<&'c ConfigContent>,
    ) -> BTreeMap<String, String> {
        let mut files = BTreeMap::new();
        for part in &self.parts {
            let Some(content) = content(&part.object) else { continue };
            match &part.items {
                None => files.extend(content.iter().map(|(key, value)| (key.clone(), value.clone()))),
                Some(items) => {
                    let file = |(key, path): &(String, String)| Some((path.clone(), content.get(key)?.clone()));
                    files.extend(items.iter().filter_map(file));
                }
            }
        }
        files.retain(|path, _| !self.others.contains(path));
        files
    }
}

fn part(source: &Value, kind: ConfigKind, name: &str) -> Option<Part> {
    let (object, required) = object(source, kind, name)?;
    let items: Vec<(String, String)> = items(&source["items"])
        .filter_map(|item| Some((item["key"].as_str()?.to_owned(), item["path"].as_str()?.to_owned())))
        .collect();
    Some(Part { object, required, items: (!items.is_empty()).then_some(items) })
}
