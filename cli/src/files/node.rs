//! A YAML value that knows its lines.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_path_to_error::{Path, Segment};
use serde_saphyr::Spanned;
use serde_saphyr::budget::BudgetBreach;

/// A value and the line on which it, or in a mapping its key, stands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    /// From 1; 0 if it is not known.
    pub(crate) line: u64,
    content: Content,
}

#[derive(Clone, Debug, PartialEq)]
enum Content {
    Scalar(Value),
    Sequence(Vec<Node>),
    Mapping(Vec<(String, Node)>),
}

impl Node {
    /// Parses one document whose first line is number `offset + 1`; `None` if it is empty. An error is a line and what is wrong.
    pub(super) fn parse(text: &str, offset: u64) -> Result<Option<Self>, (u64, String)> {
        if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
            return Ok(None);
        }
        match serde_saphyr::from_str::<Spanned<Content>>(text) {
            Ok(parsed) => {
                let mut node = node(parsed);
                node.shift(offset);
                Ok((node.content != Content::Scalar(Value::Null)).then_some(node))
            }
            Err(error) => {
                let line = error.location().map_or(0, |location| location.line());
                Err((offset + line.max(1), words(error.without_snippet())))
            }
        }
    }

    fn shift(&mut self, offset: u64) {
        if self.line > 0 {
            self.line += offset;
        }
        match &mut self.content {
            Content::Scalar(_) => {}
            Content::Sequence(items) => items.iter_mut().for_each(|item| item.shift(offset)),
            Content::Mapping(entries) => entries.iter_mut().for_each(|(_, value)| value.shift(offset)),
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        self.entries().iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    pub(crate) fn entries(&self) -> &[(String, Self)] {
        match &self.content {
            Content::Mapping(entries) => entries,
            Content::Scalar(_) | Content::Sequence(_) => &[],
        }
    }

    pub(crate) fn items(&self) -> &[Self] {
        match &self.content {
            Content::Sequence(items) => items,
            Content::Scalar(_) | Content::Mapping(_) => &[],
        }
    }

    /// The line of the deepest part of the path that is there.
    pub(crate) fn line_of(&self, path: &[&str]) -> u64 {
        match path.split_first().and_then(|(key, rest)| Some((self.get(key)?, rest))) {
            Some((value, rest)) => value.line_of(rest),
            None => self.line,
        }
    }

    /// What stands at the path, or at the deepest part of it that is there.
    pub(crate) fn at(&self, path: &Path) -> &Self {
        let mut node = self;
        for segment in path {
            let next = match segment {
                Segment::Seq { index } => node.items().get(*index),
                Segment::Map { key } => node.get(key),
                Segment::Enum { .. } | Segment::Unknown => None,
            };
            let Some(next) = next else { break };
            node = next;
        }
        node
    }

    pub(crate) fn to_json(&self) -> Value {
        match &self.content {
            Content::Scalar(value) => value.clone(),
            Content::Sequence(items) => items.iter().map(Self::to_json).collect(),
            Content::Mapping(entries) => {
                Value::Object(entries.iter().map(|(key, value)| (key.clone(), value.to_json())).collect::<Map<_, _>>())
            }
        }
    }
}

/// Why the text can't be read.
fn words(error: &serde_saphyr::Error) -> String {
    if let serde_saphyr::Error::AliasError { error, .. } = error {
        return words(error);
    }
    if let serde_saphyr::Error::Budget { breach, .. } = error {
        // The count is the one that was too many.
        let most = |count: &usize| count.saturating_sub(1);
        match breach {
            BudgetBreach::Depth { depth } => return format!("is nested deeper than {} levels", most(depth)),
            BudgetBreach::Nodes { nodes: values } | BudgetBreach::Events { events: values } => {
                return format!("has more than {} values, with what its aliases expand to", most(values));
            }
            BudgetBreach::Aliases { aliases } => return format!("has more than {} aliases", most(aliases)),
            // Whatever else a later version of the parser limits.
            _ => {}
        }
    }
    let text = error.to_string();
    let text = text.lines().next().unwrap_or_default();
    // Its own place counts from the top of the document.
    format!("is no YAML: {}", text.rsplit_once(" at line ").map_or(text, |(text, _)| text))
}

fn node(parsed: Spanned<Content>) -> Node {
    Node { line: parsed.referenced.line(), content: parsed.value }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Content, E> {
        Ok(Content::Scalar(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Content, E> {
        Ok(Content::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Content, E> {
        Ok(Content::Scalar(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Content, E> {
        Ok(Content::Scalar(Number::from_f64(value).map_or(Value::Null, Value::Number)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Content, E> {
        Ok(Content::Scalar(value.into()))
    }

    fn visit_unit<E>(self) -> Result<Content, E> {
        Ok(Content::Scalar(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Content, E> {
        Ok(Content::Scalar(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Content, D::Error> {
        Content::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Content, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = sequence.next_element::<Spanned<Content>>()? {
            items.push(node(item));
        }
        Ok(Content::Sequence(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Content, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            let value = map.next_value::<Spanned<Content>>()?;
            // A person looks for the key.
            entries.push((key.value, Node { line: key.referenced.line(), ..node(value) }));
        }
        Ok(Content::Mapping(entries))
    }
}
