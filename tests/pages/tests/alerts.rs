//! The alerts fire, end, and are explained.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use hitless_cluster::program_of;
use hitless_pages::root;
use serde_json::Value;

const RULES: &str = "docs/examples/alerts.yaml";
const TESTS: &str = "docs/examples/alerts.test.yaml";
const RUNBOOKS: &str = "docs/runbooks";
/// What `runbook_url` begins with; the chart replaces it.
const URL: &str = "https://hitless.dev/runbooks/";

fn read(path: &str) -> Value {
    serde_saphyr::from_str(&fs::read_to_string(root().join(path)).unwrap()).unwrap()
}

fn alerts() -> Vec<Value> {
    read(RULES)["groups"][0]["rules"].as_array().unwrap().clone()
}

fn names() -> BTreeSet<String> {
    alerts().iter().map(|alert| alert["alert"].as_str().unwrap().to_owned()).collect()
}

/// By promtool itself, which is in Debian's package of Prometheus.
#[test]
fn each_alert_fires_at_its_first_event_and_ends() {
    let promtool = match program_of("prometheus", "usr/bin/promtool", &|line| eprintln!("{line}")) {
        Ok(promtool) => promtool,
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "CI is set, so no test may be left out: {error}");
            eprintln!("left out: {error}");
            return;
        }
    };
    for arguments in [["check", "rules", RULES], ["test", "rules", TESTS]] {
        let done = Command::new(&promtool).args(arguments).current_dir(root()).output().unwrap();
        let said = format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        assert!(done.status.success(), "promtool {}:\n{said}", arguments.join(" "));
    }
}

#[test]
fn each_alert_is_tested_both_ways() {
    let tests = read(TESTS);
    let (mut fires, mut is_quiet) = (BTreeSet::new(), BTreeSet::new());
    for case in tests["tests"].as_array().unwrap().iter().flat_map(|test| test["alert_rule_test"].as_array().unwrap()) {
        let expected = case["exp_alerts"].as_array().unwrap();
        let into = if expected.is_empty() { &mut is_quiet } else { &mut fires };
        into.insert(case["alertname"].as_str().unwrap().to_owned());
    }
    assert_eq!(fires, names());
    assert_eq!(is_quiet, names());
}

#[test]
fn each_alert_has_a_runbook_with_its_three_parts_and_each_runbook_an_alert() {
    for alert in alerts() {
        let name = alert["alert"].as_str().unwrap();
        assert_eq!(alert["annotations"]["runbook_url"], format!("{URL}{name}"));
        assert!(alert["labels"]["severity"].is_string(), "{name} has no severity");
        let page = fs::read_to_string(root().join(format!("{RUNBOOKS}/{name}.md"))).unwrap();
        assert!(page.starts_with(&format!("# {name}\n")), "{name}");
        for part in ["## What it means", "## Look", "## Do"] {
            assert_eq!(page.lines().filter(|line| *line == part).count(), 1, "{name}: {part}");
        }
    }
    let pages = fs::read_dir(root().join(RUNBOOKS)).unwrap().map(|entry| entry.unwrap().path());
    let pages: BTreeSet<String> = pages.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect();
    assert_eq!(pages, names());
}
