//! What commands are about: workloads, pods, images.

use std::str::FromStr;

use hitless_api::{GroupKind, label};

use super::image;

/// `[CONTAINER=]IMAGE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ImageArg {
    pub(crate) container: Option<String>,
    pub(crate) image: String,
}

impl FromStr for ImageArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // Neither a reference nor the name of a container contains an equals sign.
        let (container, name) = match text.split_once('=') {
            Some((container, name)) => (Some(container.to_owned()), name),
            None => (None, text),
        };
        if name.is_empty() || name.contains('=') || container.as_deref() == Some("") {
            return Err("write for example web=registry.example/web:v2, or the image alone".to_owned());
        }
        if !image::is_reference(name) {
            return Err(format!(
                "{name:?} is no image; write for example registry.example/web:v2 (only the tag may have capital letters), or \
                 registry.example/web@sha256: with 64 hexadecimal digits"
            ));
        }
        Ok(Self { container, image: name.to_owned() })
    }
}

/// `KEY=VALUE`, or `KEY-` for one that goes, as for `kubectl label`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LabelArg {
    pub(crate) key: String,
    pub(crate) value: Option<String>,
}

impl FromStr for LabelArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = match text.split_once('=') {
            Some((key, value)) => Some((key, Some(value))),
            None => text.strip_suffix('-').map(|key| (key, None)),
        };
        match found.filter(|(key, value)| label::is_key(key) && value.is_none_or(label::is_value)) {
            Some((key, value)) => Ok(Self { key: key.to_owned(), value: value.map(ToOwned::to_owned) }),
            None => Err("write for example helm.sh/chart=web-2, or helm.sh/chart- to take it away".to_owned()),
        }
    }
}

/// `KIND/NAME`, or a name that may be a Deployment's or a pod's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) kind: Option<TargetKind>,
    pub(crate) name: String,
}

impl FromStr for Named {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let target: Target = text.parse()?;
        Ok(Self { kind: text.contains('/').then_some(target.kind), name: target.name })
    }
}

/// Kind of object that commands take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TargetKind {
    /// One of the kinds of [`hitless_workloads::KINDS`].
    Workload(GroupKind),
    Pod,
}

impl TargetKind {
    /// What a name without a kind means first.
    pub(crate) fn default_workload() -> Self {
        Self::Workload(GroupKind::new("apps", DEFAULT_KIND))
    }

    fn named(text: &str) -> Option<Self> {
        if ["pod", "pods", "po"].contains(&text) {
            return Some(Self::Pod);
        }
        let (name, group) = text.split_once('.').map_or((text, None), |(name, group)| (name, Some(group)));
        let own = &hitless_workloads::registry::named(name)?.resources().first()?.group_kind;
        group.is_none_or(|group| group == own.group).then(|| Self::Workload(own.clone()))
    }

    /// As users write it.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Workload(kind) => kind.to_string().to_lowercase(),
            Self::Pod => "pod".to_owned(),
        }
    }
}

/// The kind of a name that stands alone.
const DEFAULT_KIND: &str = "Deployment";

/// How targets begin: `deployment/`, …, `pod/`.
pub(crate) fn target_words() -> Vec<String> {
    // The long name and the shortest.
    let ends = |kind: &&dyn hitless_workloads::Kind| {
        kind.names().first().copied().into_iter().chain(kind.names().last().copied())
    };
    let mut names: Vec<&str> = hitless_workloads::KINDS.iter().flat_map(ends).chain(["pod"]).collect();
    names.dedup();
    names.into_iter().map(|name| format!("{name}/")).collect()
}

/// Every way to name a workload: `deployment/NAME, …`.
pub(crate) fn workload_targets() -> String {
    let names = hitless_workloads::KINDS.iter().filter_map(|kind| kind.names().first());
    names.map(|name| format!("{name}/NAME")).collect::<Vec<_>>().join(", ")
}

/// `KIND/NAME`; a name alone is a Deployment's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) kind: TargetKind,
    pub(crate) name: String,
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (kind, name) = match text.split_once('/') {
            Some((kind, name)) => {
                let unknown = || format!("kind {kind} is not supported; write {} or pod/NAME", workload_targets());
                (TargetKind::named(&kind.to_ascii_lowercase()).ok_or_else(unknown)?, name)
            }
            None => (TargetKind::default_workload(), text),
        };
        if name.is_empty() {
            return Err("the name is missing; write for example deployment/web".to_owned());
        }
        Ok(Self { kind, name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_and_bare_names() {
        let image = |text: &str| text.parse::<ImageArg>();
        assert_eq!(
            image(&format!("web=r.io:5000/web:v2@sha256:{}", "0".repeat(64))).unwrap().container.as_deref(),
            Some("web")
        );
        assert_eq!(image("r.io:5000/web:v2").unwrap(), ImageArg { container: None, image: "r.io:5000/web:v2".into() });
        assert!(image("web=").is_err() && image("=web").is_err() && image("a=b=c").is_err());
        let label = |text: &str| text.parse::<LabelArg>();
        assert_eq!(label("a.b/c=d").unwrap(), LabelArg { key: "a.b/c".into(), value: Some("d".into()) });
        assert_eq!(label("c-").unwrap(), LabelArg { key: "c".into(), value: None });
        assert!(label("c").is_err() && label("c=-").is_err() && label("=d").is_err());
        let refused = image("web=UPPER case:v3").unwrap_err();
        assert!(refused.starts_with(r#""UPPER case:v3" is no image; write for example"#), "{refused}");
        let named = |text: &str| text.parse::<Named>().unwrap().kind;
        assert_eq!((named("web"), named("pod/web")), (None, Some(TargetKind::Pod)));
    }
}
