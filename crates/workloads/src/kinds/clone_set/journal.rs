//! Where the ids of a CloneSet's pods are kept: in an annotation of the CloneSet, never in its spec. Its version is tested by every write
//! that makes or removes a pod, so nobody does that on an old view.
//!
//! The annotation is JSON: `{"revisions": ["web-5f…", …], "pods": ["bbbbb0", "zc4xt1m", …], "next": 7}`. An entry is the five letters of the id, the
//! place of its revision among `revisions`, and its marks; the name of its pod follows from the id, or stands there after `=`. If the
//! annotation is lost, pods say their ids themselves.

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::names::annotations;
use serde::{Deserialize, Serialize};

use super::CloneSet;
use super::names;
use crate::pod_set::{Journal, Marks, Record};
use crate::write::Write;

/// Annotations of an object have 256 KiB together.
const LARGEST: usize = 180_000;
/// What one id takes: five letters, two digits, two marks, quotes and a comma.
const ENTRY: usize = 12;

const TO_MAKE: char = 'm';
const RECREATE: char = 'r';
const SCALE_IN: char = 's';

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Text {
    revisions: Vec<String>,
    pods: Vec<String>,
    /// Ids are given in turn, so that no two pods have the same name: somebody may still have that of an earlier one in a list.
    next: i32,
}

/// The journal of one CloneSet.
#[derive(Clone, Copy)]
pub(super) struct InstancesAnnotation<'a> {
    pub(super) set: CloneSet<'a>,
}

impl InstancesAnnotation<'_> {
    fn known(&self) -> Option<&String> {
        self.set.object.annotations.get(annotations::INSTANCES)
    }

    fn parsed(&self) -> Text {
        self.known().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    fn record(&self, entry: &str, revisions: &[String]) -> Option<(i32, Record)> {
        let (entry, name) = match entry.split_once('=') {
            Some((entry, name)) => (entry, Some(name)),
            None => (entry, None),
        };
        let (letters, rest) = entry.split_at_checked(5)?;
        let id = names::read_id(letters)?;
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (place, marks) = rest.split_at_checked(digits)?;
        let revision = revisions.get(place.parse::<usize>().ok()?)?;
        let name = name.map_or_else(|| names::pod(&self.set.object.id.name, id), ToOwned::to_owned);
        let marks = Marks {
            to_make: marks.contains(TO_MAKE),
            recreate: marks.contains(RECREATE),
            scale_in: marks.contains(SCALE_IN),
        };
        Some((id, Record { marks, ..Record::of(name, revision) }))
    }

    fn text(&self, records: &BTreeMap<i32, &Record>, next: i32) -> String {
        let revisions: BTreeSet<&str> = records.values().map(|record| record.revision.as_str()).collect();
        let revisions: Vec<&str> = revisions.into_iter().collect();
        let entry = |(id, record): (&i32, &&Record)| {
            let place = revisions.iter().position(|revision| *revision == record.revision).unwrap_or_default();
            let mut entry = format!("{}{place}", names::id_text(*id));
            let Marks { to_make, recreate, scale_in } = record.marks;
            let marks = [(to_make, TO_MAKE), (recreate, RECREATE), (scale_in, SCALE_IN)];
            entry.extend(marks.into_iter().filter_map(|(is_set, mark)| is_set.then_some(mark)));
            if record.pod_name != names::pod(&self.set.object.id.name, *id) {
                entry.push('=');
                entry.push_str(&record.pod_name);
            }
            entry
        };
        let text = Text {
            pods: records.iter().map(entry).collect(),
            revisions: revisions.iter().map(|revision| (*revision).to_owned()).collect(),
            next,
        };
        // Texts and lists of texts are always JSON.
        serde_json::to_string(&text).unwrap_or_default()
    }
}

impl Journal for InstancesAnnotation<'_> {
    fn read(&self) -> BTreeMap<i32, Record> {
        let text = self.parsed();
        text.pods.iter().filter_map(|entry| self.record(entry, &text.revisions)).collect()
    }

    fn others(&self) -> BTreeSet<i32> {
        BTreeSet::new()
    }

    fn room(&self) -> usize {
        LARGEST / ENTRY
    }

    fn next(&self) -> i32 {
        let next = self.parsed().next;
        if (0..names::MOST).contains(&next) { next } else { 0 }
    }

    fn write(&self, records: &BTreeMap<i32, &Record>, next: i32) -> Option<Write> {
        let text = self.text(records, next);
        let is_known =
            self.known().is_some_and(|known| *known == text) || (records.is_empty() && self.known().is_none());
        (!is_known).then(|| Write::annotate("update-instances", self.set.object, annotations::INSTANCES, &text))
    }

    fn confirm(&self) -> Option<Write> {
        Some(Write::patch("confirm-instances", self.set.object, |patch| patch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Object;
    use crate::registry;
    use serde_json::json;

    fn set(text: &str) -> Object {
        let set = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet",
            "metadata": {"name": "web", "namespace": "shop", "uid": "u", "annotations": {"hitless.dev/instances": text}},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}}}}});
        registry::read(set).unwrap().unwrap()
    }

    #[test]
    fn what_is_written_is_read() {
        let made = |name: &str, revision: &str, marks| Record { marks, ..Record::of(name.to_owned(), revision) };
        let all = [
            (0, made(&names::pod("web", 0), "web-b", Marks::default())),
            (1, made(&names::pod("web", 1), "web-a", Marks { to_make: true, scale_in: true, recreate: false })),
            (7, made("somebody-else", "web-a", Marks { recreate: true, ..Marks::default() })),
        ];
        let empty = set("");
        let instances = |object: &'_ Object| object.clone_set().map(|set| InstancesAnnotation { set }.read()).unwrap();
        let text = InstancesAnnotation { set: empty.clone_set().unwrap() }
            .text(&all.iter().map(|(id, record)| (*id, record)).collect(), 8);
        assert_eq!(instances(&set(&text)), all.into_iter().collect());
    }

    #[test]
    fn what_others_have_written_there_is_no_entry() {
        let object = set(r#"{"revisions": ["web-a"], "pods": ["bbbbb0", "bbbbb9", "a", "éèêëç0", "aaaaa0", "ccccc"]}"#);
        let read = InstancesAnnotation { set: object.clone_set().unwrap() }.read();
        assert_eq!(read.into_values().map(|record| record.revision).collect::<Vec<_>>(), ["web-a"]);
        let nonsense = set("[1, 2");
        assert!(InstancesAnnotation { set: nonsense.clone_set().unwrap() }.read().is_empty());
    }

    #[test]
    fn ten_thousand_pods_have_room() {
        let empty = set("");
        let journal = InstancesAnnotation { set: empty.clone_set().unwrap() };
        let records: Vec<Record> = (0..10_000).map(|id| Record::of(names::pod("web", id), "web-a")).collect();
        let text = journal.text(&(0..).zip(&records).collect(), 10_000);
        assert!(journal.room() >= 10_000 && text.len() < LARGEST, "{}", text.len());
    }
}
