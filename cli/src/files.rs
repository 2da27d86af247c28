//! Objects from files: documents with the lines that they stand on. What can't be read is named and loses nothing else.

mod node;

use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::Value;

pub(crate) use node::Node;

/// An object of the API as it stands in a file.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub(crate) file: String,
    pub(crate) node: Node,
    /// The same without lines.
    pub(crate) value: Value,
}

/// What can't be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unreadable {
    pub(crate) file: String,
    /// From 1; 0 if it is about the whole file.
    pub(crate) line: u64,
    pub(crate) text: String,
}

impl Object {
    /// `kind`, empty if there is none.
    pub(crate) fn kind(&self) -> &str {
        self.value["kind"].as_str().unwrap_or_default()
    }

    /// Group of the `apiVersion`; empty for the core.
    pub(crate) fn group(&self) -> &str {
        let version = self.value["apiVersion"].as_str().unwrap_or_default();
        version.split_once('/').map_or("", |(group, _)| group)
    }

    pub(crate) fn name(&self) -> &str {
        self.value["metadata"]["name"].as_str().unwrap_or_default()
    }

    pub(crate) fn namespace(&self) -> &str {
        self.value["metadata"]["namespace"].as_str().unwrap_or_default()
    }

    /// Whether an owner reference means this object, or a ReplicaSet that it has made. Who wrote the files may have left the ReplicaSets
    /// out, and another workload's selector may match the same pods.
    pub(crate) fn is_owner(&self, reference: &Value) -> bool {
        let (kind, name) = (&reference["kind"], reference["name"].as_str().unwrap_or_default());
        let of_part =
            name.rsplit_once('-').map(|(of, _)| of).filter(|_| *kind == "ReplicaSet" && self.kind() == "Deployment");
        (*kind == self.kind() && name == self.name()) || of_part == Some(self.name())
    }

    /// The object as one of that kind.
    pub(crate) fn read<K: DeserializeOwned>(&self) -> Result<K, Misread> {
        serde_path_to_error::deserialize(&self.value).map_err(|error| Misread::of(&self.node, &error))
    }
}

/// Why an object is none of its kind: a line, and words that begin with the field where there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Misread {
    pub(crate) line: u64,
    pub(crate) text: String,
}

impl Misread {
    pub(crate) fn of(object: &Node, error: &serde_path_to_error::Error<serde_json::Error>) -> Self {
        let (path, at) = (error.path().to_string(), object.at(error.path()));
        let inner = error.inner().to_string();
        let text = match path.as_str() {
            "." => format!("can't be understood: {inner}"),
            _ if inner.contains("expected a string") => format!("{path}: {inner}{}", quoting(&at.to_json())),
            _ => format!("{path}: {inner}"),
        };
        Self { line: at.line, text }
    }
}

/// Advice where a value is meant to be text and YAML reads something else.
pub(crate) fn quoting(value: &Value) -> &'static str {
    match value {
        Value::Bool(_) => "; quote it (YAML reads y, yes and on as true, n, no and off as false)",
        Value::Number(_) => "; quote it",
        Value::Null | Value::String(_) | Value::Array(_) | Value::Object(_) => "",
    }
}

/// All objects of the files and directories (with their subdirectories; `-` is standard input).
pub(crate) fn read(paths: &[PathBuf], default_namespace: &str) -> (Vec<Object>, Vec<Unreadable>) {
    let (mut objects, mut unreadable) = (Vec::new(), Vec::new());
    let mut fault = |path: &Path, error: &std::io::Error| {
        let text = match error.kind() {
            ErrorKind::InvalidData => "is no text in UTF-8".to_owned(),
            _ => format!("can't be read: {error}; is the path right?"),
        };
        unreadable.push(Unreadable { file: path.display().to_string(), line: 0, text });
    };
    let mut texts: Vec<(String, String)> = Vec::new();
    for path in paths {
        if path.as_os_str() == "-" {
            let mut bytes = Vec::new();
            match std::io::stdin().read_to_end(&mut bytes).and_then(|_| text_of(bytes)) {
                Ok(text) => texts.push(("-".to_owned(), text)),
                Err(error) => fault(path, &error),
            }
            continue;
        }
        for file in files_of(path, &mut fault) {
            match fs::read(&file).and_then(text_of) {
                Ok(text) => texts.push((file.display().to_string(), text)),
                Err(error) => fault(&file, &error),
            }
        }
    }
    for (file, text) in texts {
        parse(&file, &text, default_namespace, &mut objects, &mut unreadable);
    }
    (objects, unreadable)
}

fn text_of(bytes: Vec<u8>) -> std::io::Result<String> {
    String::from_utf8(bytes).map_err(|error| std::io::Error::new(ErrorKind::InvalidData, error))
}

/// The file itself, or the YAML and JSON files of a directory, sorted.
fn files_of(path: &Path, fault: &mut impl FnMut(&Path, &std::io::Error)) -> Vec<PathBuf> {
    if !path.is_dir() {
        return vec![path.to_owned()];
    }
    let mut entries: Vec<PathBuf> = match fs::read_dir(path) {
        Ok(entries) => entries.filter_map(|entry| Some(entry.ok()?.path())).collect(),
        Err(error) => {
            fault(path, &error);
            return Vec::new();
        }
    };
    entries.sort();
    let mut files = Vec::new();
    for entry in entries {
        let known = |extension: &str| matches!(extension, "yaml" | "yml" | "json");
        // A link may lead back up.
        if entry.is_dir() && !entry.is_symlink() {
            files.extend(files_of(&entry, fault));
        } else if entry.extension().and_then(|extension| extension.to_str()).is_some_and(known) {
            files.push(entry);
        }
    }
    files
}

/// The documents of one file, each parsed on its own, so that a mistake in one does not hide the others.
pub(crate) fn parse(
    file: &str,
    text: &str,
    default_namespace: &str,
    objects: &mut Vec<Object>,
    unreadable: &mut Vec<Unreadable>,
) {
    for (offset, document) in documents(text) {
        match Node::parse(&document, offset) {
            Ok(None) => {}
            Ok(Some(node)) => add(file, node, default_namespace, objects, unreadable),
            Err((line, text)) => unreadable.push(Unreadable { file: file.to_owned(), line, text }),
        }
    }
}

/// A line that begins with `---` ends a document wherever it stands, even within a literal text (YAML 1.2, 9.1.2).
fn documents(text: &str) -> Vec<(u64, String)> {
    let mut all: Vec<(u64, String)> = vec![(0, String::new())];
    for (number, line) in (0..).zip(text.split_inclusive('\n')) {
        let rest = line.strip_prefix("---").filter(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace));
        if let Some(rest) = rest {
            // What stands behind the marker belongs to the document.
            all.push((number, format!("   {rest}")));
        } else if let Some((_, document)) = all.last_mut() {
            document.push_str(line);
        }
    }
    all
}

/// The first of these fields that is there and is no map.
pub(crate) fn no_map<'p>(value: &Value, paths: &[&'p [&'p str]]) -> Option<&'p [&'p str]> {
    paths.iter().copied().find(|path| {
        let field = path.iter().try_fold(value, |value, key| value.get(*key));
        field.is_some_and(|field| !(field.is_object() || field.is_null()))
    })
}

fn add(file: &str, node: Node, default_namespace: &str, objects: &mut Vec<Object>, unreadable: &mut Vec<Unreadable>) {
    let mut value = node.to_json();
    if value["kind"].as_str().is_some_and(|kind| kind.ends_with("List")) && value["items"].is_array() {
        for item in node.get("items").into_iter().flat_map(Node::items) {
            add(file, item.clone(), default_namespace, objects, unreadable);
        }
        return;
    }
    if value["kind"].as_str().is_none() || value["apiVersion"].as_str().is_none() {
        let text = "has no apiVersion and kind, so it is no object of Kubernetes; add them".to_owned();
        unreadable.push(Unreadable { file: file.to_owned(), line: node.line, text });
        return;
    }
    if let Some(path) =
        no_map(&value, &[&["metadata"], &["metadata", "labels"], &["metadata", "annotations"], &["spec"], &["status"]])
    {
        let text = format!("{} is no map of fields, so it is no object of Kubernetes; mend it", path.join("."));
        unreadable.push(Unreadable { file: file.to_owned(), line: node.line_of(path), text });
        return;
    }
    if let Some(meta) = value["metadata"].as_object_mut()
        && meta.get("namespace").is_none_or(|namespace| namespace.as_str().is_none_or(str::is_empty))
    {
        meta.insert("namespace".to_owned(), default_namespace.into());
    }
    objects.push(Object { file: file.to_owned(), node, value });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (Vec<Object>, Vec<Unreadable>) {
        let (mut objects, mut unreadable) = (Vec::new(), Vec::new());
        parse("f.yaml", text, "team", &mut objects, &mut unreadable);
        (objects, unreadable)
    }

    #[test]
    fn a_broken_document_hides_no_other_and_lines_count_from_the_top_of_the_file() {
        let text = "# head\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\nkind: [\n---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: b\n  namespace: other\n";
        let (objects, unreadable) = parsed(text);
        let names: Vec<_> =
            objects.iter().map(|object| (object.name(), object.namespace(), object.node.line)).collect();
        assert_eq!(names, [("a", "team", 2), ("b", "other", 8)]);
        assert_eq!(objects[1].node.get("metadata").unwrap().get("name").unwrap().line, 11);
        assert_eq!(unreadable.len(), 1);
        assert!(
            (6..=7).contains(&unreadable[0].line) && unreadable[0].text.starts_with("is no YAML: "),
            "{unreadable:?}"
        );
    }

    #[test]
    fn lists_json_and_empty_documents() {
        let list = r#"{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}]}"#;
        assert_eq!(parsed(list).0[0].name(), "a");
        let (objects, unreadable) = parsed("---\n# nothing\n---\n");
        assert!(objects.is_empty() && unreadable.is_empty(), "{unreadable:?}");
        assert!(parsed("a: 1\n").1[0].text.contains("no apiVersion and kind"));
        for (field, text) in
            [("metadata", "metadata: hello"), ("spec", "spec: [1]"), ("metadata.labels", "metadata: {labels: x}")]
        {
            let (objects, unreadable) = parsed(&format!("apiVersion: v1\nkind: Pod\n{text}\n"));
            assert!(objects.is_empty(), "{text}");
            assert_eq!(unreadable[0].line, 3);
            assert!(unreadable[0].text.starts_with(&format!("{field} is no map of fields")), "{unreadable:?}");
        }
    }

    #[test]
    fn what_is_no_text_is_named_as_that() {
        let file = std::env::temp_dir().join(format!("hitless-lint-{}.yaml", std::process::id()));
        fs::write(&file, b"a: \xff\xfe").unwrap();
        let (objects, unreadable) = read(std::slice::from_ref(&file), "team");
        fs::remove_file(&file).unwrap();
        assert!(objects.is_empty());
        assert_eq!(unreadable[0].text, "is no text in UTF-8");
        let (_, unreadable) = read(&[file], "team");
        assert!(unreadable[0].text.ends_with("is the path right?"), "{unreadable:?}");
    }

    #[test]
    fn bad_input_is_named_and_never_fatal() {
        for bad in ["\t- x", "a: b: c", "{{ .Values.x }}", "a: *nobody", "a: &x [*x]", "\u{0}", "- - - ]", "'"] {
            let (objects, unreadable) = parsed(bad);
            assert!(objects.is_empty() && unreadable.len() == 1, "{bad:?}: {unreadable:?}");
        }
    }
}
