//! ResourceContexts: which instance ids are taken, and by whom. A CollaSet's journal.

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::resource_context::ContextDetail;
use serde_json::{Value, json};

use super::spec::spec;
use super::{CollaSet, RESOURCE_CONTEXT, names};
use crate::object::{Body, Object};
use crate::pod_set::{Journal, Marks, Pair, Record};
use crate::world::World;
use crate::write::Write;

/// Largest ResourceContext that is written, in bytes of JSON: an object may have 1.5 MB, with all that the API server adds.
const LARGEST: usize = 1_000_000;
/// What one id takes there at most, without the names of its pod and revision.
const ENTRY: usize = 110;

/// The ResourceContext of a CollaSet, if it is there.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    set: CollaSet<'a>,
    object: Option<&'a Object>,
    contexts: &'a [ContextDetail],
}

impl<'a> Context<'a> {
    /// Its own one, or the one that it names.
    pub(super) fn of(set: CollaSet<'a>, world: &World<'a>) -> Self {
        let name = set.body.context.as_ref().unwrap_or(&set.object.id.name);
        let object = world.part(&RESOURCE_CONTEXT.group_kind, &set.object.id.namespace, name);
        let contexts = object.map_or(&[][..], |object| match &object.body {
            Body::ResourceContext(body) => &body.contexts,
            _ => &[],
        });
        Self { set, object, contexts }
    }

    fn is_own(&self, each: &ContextDetail) -> bool {
        each.data.get(names::OWNER) == Some(&self.set.object.id.name)
    }

    fn manifest(&self, contexts: &Value) -> Value {
        let id = &self.set.object.id;
        let name = self.set.body.context.as_ref().unwrap_or(&id.name);
        // Where several CollaSets share it, it goes with none of them.
        let owners = if self.set.body.context.is_none() { json!([spec(self.set).owner()]) } else { Value::Null };
        json!({
            "apiVersion": RESOURCE_CONTEXT.api_version(), "kind": "ResourceContext",
            "metadata": {"name": name, "namespace": id.namespace, "ownerReferences": owners},
            "spec": {"contexts": contexts},
        })
    }

    fn entry(&self, id: i32, record: &Record) -> ContextDetail {
        let mut data = record.rest.clone();
        data.insert(names::OWNER.to_owned(), self.set.object.id.name.clone());
        data.insert(names::REVISION.to_owned(), record.revision.clone());
        let Marks { to_make, recreate, scale_in } = record.marks;
        let mark = |is_set: bool| is_set.then(|| TRUE.to_owned());
        let number = |id: Option<i32>| id.map(|id| id.to_string());
        let known = [
            (names::POD, Some(record.pod_name.clone()).filter(|name| !name.is_empty())),
            (names::JUST_CREATE, mark(to_make)),
            (names::RECREATE, mark(recreate)),
            (names::SCALE_IN, mark(scale_in)),
            (names::REPLACE_NEW, number(record.pair.new)),
            (names::REPLACE_ORIGIN, number(record.pair.origin)),
        ];
        data.extend(known.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
        ContextDetail { id, data }
    }
}

const TRUE: &str = "true";

/// What an entry says; a mark that is not `true` stays among the rest.
fn record(each: &ContextDetail) -> Record {
    let mut rest = each.data.clone();
    let mut mark = |key: &str| {
        let is_set = rest.get(key).is_some_and(|value| value == TRUE);
        if is_set {
            rest.remove(key);
        }
        is_set
    };
    let marks =
        Marks { to_make: mark(names::JUST_CREATE), recreate: mark(names::RECREATE), scale_in: mark(names::SCALE_IN) };
    let mut taken = |key: &str| rest.remove(key).unwrap_or_default();
    let pair = Pair { new: taken(names::REPLACE_NEW).parse().ok(), origin: taken(names::REPLACE_ORIGIN).parse().ok() };
    Record { pod_name: taken(names::POD), revision: taken(names::REVISION), marks, pair, rest }
}

impl Journal for Context<'_> {
    fn read(&self) -> BTreeMap<i32, Record> {
        let own = self.contexts.iter().filter(|each| self.is_own(each));
        own.map(|each| (each.id, record(each))).collect()
    }

    fn others(&self) -> BTreeSet<i32> {
        self.contexts.iter().filter(|each| !self.is_own(each)).map(|each| each.id).collect()
    }

    fn room(&self) -> usize {
        LARGEST / (ENTRY + 3 * self.set.object.id.name.len())
    }

    fn write(&self, records: &BTreeMap<i32, &Record>, _: i32) -> Option<Write> {
        let others = self.contexts.iter().filter(|each| !self.is_own(each)).cloned();
        let own = records.iter().map(|(id, record)| self.entry(*id, record));
        let mut wanted: Vec<ContextDetail> = others.chain(own).collect();
        wanted.sort_by_key(|each| each.id);
        if self.contexts == wanted {
            return None;
        }
        let contexts = json!(wanted);
        Some(match self.object {
            Some(object) => Write::patch("update-context", object, |patch| patch.add(&["spec", "contexts"], contexts)),
            None => Write::create("create-context", &RESOURCE_CONTEXT.group_kind, self.manifest(&contexts)),
        })
    }

    fn confirm(&self) -> Option<Write> {
        Some(Write::patch("confirm-context", self.object?, |patch| patch))
    }
}
