//! The table of reasons (`hitless_api::reasons`) has all that the code gives.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use hitless_api::reasons::{Topic, all};

fn source(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.split("#[cfg(test)]").next().unwrap_or_default().to_owned()
}

fn is_camel_case(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_uppercase()) && word.chars().all(|each| each.is_ascii_alphanumeric())
}

/// What stands in quotes behind each of these words.
fn behind(text: &str, words: &str) -> BTreeSet<String> {
    let quoted = text.split(words).skip(1).filter_map(|rest| rest.split('"').next());
    quoted.filter(|word| is_camel_case(word)).map(str::to_owned).collect()
}

fn named(topic: impl Fn(Topic) -> bool) -> BTreeSet<String> {
    all().filter(|(each, _)| topic(*each)).map(|(_, reason)| reason.name.to_owned()).collect()
}

#[test]
fn it_has_all_that_pods_wait_for() {
    let files = [
        "src/round/wait_reason.rs",
        "src/round/pool_wait.rs",
        "src/snapshot/left_out.rs",
        "../workloads/src/intent.rs",
    ];
    let mut given: BTreeSet<String> = files.iter().flat_map(|file| behind(&source(file), "=> \"")).collect();
    assert!(given.len() > 50, "{given:?}");
    given.extend(["Paused", "TooLarge", "NoAgentPossible", "LossExpected"].map(str::to_owned));
    given.extend(behind(&source("../workloads/src/component.rs"), "left: \""));
    assert_eq!(named(|topic| topic == Topic::Wait), given);
}

#[test]
fn it_has_all_why_a_change_is_not_made_in_place() {
    let given = behind(&source("../workloads/src/because.rs"), "=> \"");
    assert_eq!(named(|topic| topic == Topic::Change), given);
}

fn files(folder: &Path, all: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, all);
        } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("tests.rs") {
            all.push(path);
        }
    }
}

#[test]
fn it_has_every_event_whose_reason_stands_beside_its_severity() {
    let mut all = Vec::new();
    for folder in ["src", "../workloads/src", "../../controller/src"] {
        files(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut all);
    }
    let known = named(|topic| topic == Topic::Event);
    for file in all {
        let text = source(&file.to_string_lossy());
        for severity in ["Severity::Warning, \"", "Severity::Normal, \""] {
            let missing: Vec<_> = behind(&text, severity).difference(&known).cloned().collect();
            assert!(missing.is_empty(), "{}: {missing:?} is not in hitless_api::reasons", file.display());
        }
    }
}
