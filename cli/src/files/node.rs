//! A YAML value that knows its lines.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::Spanned;

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
                let text = error.without_snippet().to_string();
                let text = text.lines().next().unwrap_or_default();
                // Its own place counts from the top of the document.
                let text = text.rsplit_once(" at line ").map_or(text, |(text, _)| text);
                Err((offset + line.max(1), text.to_owned()))
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
