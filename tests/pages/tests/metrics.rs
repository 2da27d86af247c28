//! The page of the metrics has all that the programs register and nothing else, and so have the alerts.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use hitless_pages::root;

/// Where metrics are registered.
const PROGRAMS: [&str; 3] = ["agent/src", "controller/src", "crates/runtime/src"];

/// What Prometheus appends to names.
const SUFFIXES: [&str; 5] = ["_total", "_info", "_bucket", "_count", "_sum"];

fn all_source(folder: &Path, text: &mut String) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            all_source(&path, text)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&fs::read_to_string(&path)?);
        }
    }
    Ok(())
}

/// Names of metrics, without what Prometheus appends.
fn names(text: &str) -> BTreeSet<String> {
    let words = text.split(|character: char| !(character.is_ascii_alphanumeric() || character == '_'));
    let ours = words.filter(|word| word.starts_with("hitless_"));
    let bare = |word: &str| SUFFIXES.iter().find_map(|suffix| word.strip_suffix(suffix)).unwrap_or(word).to_owned();
    ours.map(bare).collect()
}

fn registered() -> io::Result<BTreeSet<String>> {
    let mut text = String::new();
    for program in PROGRAMS {
        all_source(&root().join(program), &mut text)?;
    }
    let arguments = text.split(".register(").skip(1).filter_map(|rest| rest.trim_start().strip_prefix('"'));
    Ok(names(&arguments.filter_map(|rest| rest.split_once('"')).map(|(name, _)| name).collect::<Vec<_>>().join(" ")))
}

#[test]
fn the_page_has_every_metric_and_nothing_else() {
    let page = fs::read_to_string(root().join("docs/metrics.md")).unwrap();
    assert_eq!(names(&page), registered().unwrap());
}

#[test]
fn alerts_speak_of_metrics_that_exist_and_the_page_of_every_alert() {
    let page = fs::read_to_string(root().join("docs/metrics.md")).unwrap();
    let alerts = fs::read_to_string(root().join("docs/examples/alerts.yaml")).unwrap();
    let unknown: Vec<String> = names(&alerts).difference(&registered().unwrap()).cloned().collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `Hitless")?.split_once('`')).map(|(name, _)| name);
    let rules = alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: Hitless"));
    assert_eq!(rules.collect::<Vec<_>>(), rows.collect::<Vec<_>>());
}
