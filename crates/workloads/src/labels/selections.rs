//! Who finds pods by their labels.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use hitless_api::selector;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::never;

/// Somebody who selects pods.
#[derive(Clone, Copy, Debug)]
pub struct Selection<'a> {
    /// The kind, for people.
    pub kind: &'static str,
    /// The name.
    pub name: &'a str,
    /// Whom it selects.
    pub by: By<'a>,
}

/// How somebody selects pods.
#[derive(Clone, Copy, Debug)]
pub enum By<'a> {
    /// By labels with their values, as Services do.
    Labels(&'a BTreeMap<String, String>),
    /// By a selector.
    Selector(&'a LabelSelector),
}

/// All who select pods of one namespace.
#[derive(Clone, Debug, Default)]
pub struct Selections<'a> {
    own: Arc<[Selection<'a>]>,
    everywhere: Arc<[Selection<'a>]>,
}

/// The same of all namespaces.
#[derive(Debug, Default)]
pub(crate) struct AllSelections<'a> {
    own: HashMap<&'a str, Arc<[Selection<'a>]>>,
    everywhere: Arc<[Selection<'a>]>,
}

impl<'a> AllSelections<'a> {
    /// With the namespace in which each selects; `None`: in all of them.
    pub(crate) fn new(all: impl Iterator<Item = (Option<&'a str>, Selection<'a>)>) -> Self {
        let (mut own, mut everywhere) = (HashMap::<&str, Vec<Selection<'a>>>::new(), Vec::new());
        for (namespace, selection) in all {
            match namespace {
                Some(namespace) => own.entry(namespace).or_default().push(selection),
                None => everywhere.push(selection),
            }
        }
        let own = own.into_iter().map(|(namespace, all)| (namespace, all.into())).collect();
        Self { own, everywhere: everywhere.into() }
    }

    pub(crate) fn of(&self, namespace: &str) -> Selections<'a> {
        let own = self.own.get(namespace).cloned().unwrap_or_default();
        Selections { own, everywhere: self.everywhere.clone() }
    }
}

impl Selections<'_> {
    /// The first label by which somebody would lose pods with `from`, or find them, if they had `to`; and who that is.
    pub(super) fn first_moved<'k>(
        &self,
        from: &'k BTreeMap<String, String>,
        to: &'k BTreeMap<String, String>,
    ) -> Option<(&'k str, String)> {
        if from == to {
            return None;
        }
        let mut all = self.own.iter().chain(&*self.everywhere);
        all.find_map(|each| Some((each.moved_by(from, to)?, format!("{} {}", each.kind, each.name))))
    }
}

/// What a selection asks of one label, before and after.
struct Asked<'k> {
    key: &'k str,
    before: bool,
    after: bool,
}

impl<'a> Selection<'a> {
    /// Whether it selects a pod with these labels. What is not understood selects nobody.
    #[must_use]
    pub fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        match self.by {
            By::Labels(by) => !by.is_empty() && by.iter().all(|(key, value)| labels.get(key) == Some(value)),
            By::Selector(by) => selector::read(by).is_ok_and(|selector| selector.matches(labels)),
        }
    }

    /// The labels that it asks for.
    #[must_use]
    pub fn keys(&self) -> BTreeSet<&'a str> {
        match self.by {
            By::Labels(by) => by.keys().map(String::as_str).collect(),
            By::Selector(by) => {
                let requirements = by.match_expressions.iter().flatten().map(|each| each.key.as_str());
                by.match_labels.iter().flatten().map(|(key, _)| key.as_str()).chain(requirements).collect()
            }
        }
    }

    fn moved_by<'k>(&self, from: &'k BTreeMap<String, String>, to: &'k BTreeMap<String, String>) -> Option<&'k str> {
        let mut asked: Vec<Asked<'k>> = Vec::new();
        let mut ask = |key: &str, meets: &dyn Fn(Option<&str>) -> bool| -> bool {
            let (before, after) = (from.get(key).map(String::as_str), to.get(key).map(String::as_str));
            let Some((key, _)) = from.get_key_value(key).or_else(|| to.get_key_value(key)) else {
                // Kubernetes may have set it on some of the pods. Others have what the template says.
                return never(key).is_some() || meets(None);
            };
            asked.push(Asked { key, before: meets(before), after: meets(after) });
            true
        };
        let may_select = match self.by {
            By::Labels(labels) => {
                // Without labels it selects nobody.
                !labels.is_empty()
                    && labels.iter().all(|(key, wanted)| ask(key, &|value| value == Some(wanted.as_str())))
            }
            By::Selector(by) => {
                // What is not understood concerns the same pods before and after.
                let selector = selector::read(by).ok()?;
                selector.labels().all(|(key, wanted)| ask(key, &|value| value == Some(wanted)))
                    && selector.requirements().iter().all(|each| ask(&each.key, &|value| each.meets(value)))
            }
        };
        let selects = |is: fn(&Asked<'_>) -> bool| asked.iter().all(is);
        let is_moved = may_select && selects(|each| each.before) != selects(|each| each.after);
        asked.iter().find(|each| is_moved && each.before != each.after).map(|each| each.key)
    }
}
