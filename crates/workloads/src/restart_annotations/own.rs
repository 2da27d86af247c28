//! A workload's own restart annotations: `hitless.dev/restart-annotations`.

use std::fmt;

use hitless_api::event::{EventNote, Severity};
use hitless_api::names::annotations::RESTART_ANNOTATIONS;

use super::keys::is_read_here;
use crate::kind::Resource;
use crate::object::Object;
use crate::plan::note;

/// The list, and what is wrong with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnList {
    keys: Vec<String>,
    prefixes: Vec<String>,
    /// Entries that mean nothing. The others count all the same.
    pub broken: Vec<Broken>,
}

/// An entry that can't be what its owner means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The entry.
    pub entry: String,
    /// What is wrong with it, and what to do: a clause.
    pub why: &'static str,
}

impl fmt::Display for Broken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "the entry {:?} of {RESTART_ANNOTATIONS} {}", self.entry, self.why)
    }
}

impl OwnList {
    /// The list of this workload.
    #[must_use]
    pub fn of(workload: &Object) -> Self {
        workload.annotations.get(RESTART_ANNOTATIONS).map(|text| Self::parse(text)).unwrap_or_default()
    }

    /// Reads the annotation's value. An empty one, as charts write it, is an empty list.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut list = Self::default();
        if text.trim().is_empty() {
            return list;
        }
        for entry in text.split(',').map(str::trim) {
            let (key, is_prefix) = entry.strip_suffix('*').map_or((entry, false), |prefix| (prefix, true));
            match fault(key, is_prefix) {
                Some(why) => list.broken.push(Broken { entry: entry.to_owned(), why }),
                None if is_prefix => list.prefixes.push(key.to_owned()),
                None => list.keys.push(key.to_owned()),
            }
        }
        list
    }

    pub(super) fn covers(&self, key: &str) -> bool {
        self.keys.iter().any(|own| own == key) || self.prefixes.iter().any(|prefix| key.starts_with(prefix.as_str()))
    }

    /// What the workload's owner is told of it, for as long as it holds.
    pub(super) fn notes(workload: &Object, resource: &Resource) -> impl Iterator<Item = EventNote> {
        let broken = Self::of(workload).broken.into_iter();
        broken.map(move |broken| {
            let text = format!("{broken}; its other entries count");
            note(&workload.id, resource.version, Severity::Warning, "RestartAnnotationsInvalid", text)
        })
    }
}

fn fault(key: &str, is_prefix: bool) -> Option<&'static str> {
    let is_outer = |letter: char| letter.is_ascii_alphanumeric();
    let is_inner = |letter: char| is_outer(letter) || matches!(letter, '-' | '_' | '.');
    let name = key.split_once('/').map_or(key, |(_, name)| name);
    let is_key = key.starts_with(is_outer) && name.starts_with(is_outer) && name.ends_with(is_outer);
    match (key, is_prefix) {
        ("", false) => Some("is empty; remove it"),
        ("", true) => Some("would be every annotation; name keys, or prefixes such as example.com/*"),
        _ if !key.chars().all(|letter| is_inner(letter) || letter == '/') || key.matches('/').count() > 1 => {
            Some("is no key of an annotation; correct it")
        }
        _ if is_read_here(key) => {
            Some("is read from the pods by hitless itself, and they keep the old value; remove it")
        }
        (_, true) if !key.starts_with(is_outer) => Some("is no beginning of a key of an annotation; correct it"),
        (_, false) if !is_key => Some("is no key of an annotation; correct it"),
        _ => None,
    }
}
