//! Before an installation.

use super::super::facts::Seen;
use super::super::pre::{Admission, Before, findings};
use super::*;

fn fresh() -> Facts {
    Facts {
        controller: Seen::Known(None),
        agent: Seen::Known(None),
        definitions: names(&[]),
        guards: guards(&[], &[]),
        agents: Seen::Known(Vec::new()),
        reports: Seen::NotServed,
        ..healthy()
    }
}

fn before() -> Before {
    Before { admission: Seen::Known(Admission::V1), forbidden: Seen::Known(Vec::new()), enforced: None }
}

fn only(facts: &Facts, before: &Before, level: Level) -> Finding {
    let mut found: Vec<Finding> =
        findings(facts, before).into_iter().filter(|finding| finding.level == level).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

#[test]
fn a_cluster_that_has_all_that_is_needed_has_neither_errors_nor_warnings() {
    let all = findings(&fresh(), &before());
    assert!(all.iter().all(|finding| finding.level == Level::Ok), "{all:?}");
    let text = text(&all);
    for words in ["hitless is not installed", "install manifests", "Linux runs on 2 nodes", "you may install it"] {
        assert!(text.contains(words), "{words} in {text}");
    }
}

#[test]
fn what_the_api_server_can_do_decides_what_is_installed() {
    let with = |admission| Before { admission: Seen::Known(admission), ..before() };
    let beta = text(&findings(&fresh(), &with(Admission::V1beta1)));
    assert!(beta.contains("install overlays/v1beta1"), "{beta}");
    let refusing = only(&fresh(), &with(Admission::Refusing), Level::Warning);
    assert!(refusing.why.contains("GitOps can't change their images") && refusing.to_do.contains("overlays/refusing"));
    let old = Facts { server: Seen::Known((1, 29, "v1.29.1".to_owned())), ..fresh() };
    assert!(only(&old, &with(Admission::Refusing), Level::Error).what.contains("v1.29.1"));
}

#[test]
fn what_would_stop_an_installation_in_its_middle_is_said_before() {
    let forbidden = Before { forbidden: Seen::Known(vec!["create clusterroles".to_owned()]), ..before() };
    assert_eq!(only(&fresh(), &forbidden, Level::Error).what, "you may not create clusterroles");
    let enforced = Before { enforced: Some("restricted".to_owned()), ..before() };
    assert!(only(&fresh(), &enforced, Level::Error).to_do.contains("enforce=privileged --overwrite"));
    let privileged = Before { enforced: Some("privileged".to_owned()), ..before() };
    assert!(findings(&fresh(), &privileged).iter().all(|finding| finding.level == Level::Ok));
    let windows = NodeFacts { os: "windows".to_owned(), ..node("w") };
    let mixed = Facts { nodes: Seen::Known(vec![node("n1"), windows.clone()]), ..fresh() };
    assert!(only(&mixed, &before(), Level::Warning).what.contains("Linux runs on 1 node, and windows on others"));
    let none = Facts { nodes: Seen::Known(vec![windows]), ..fresh() };
    assert_eq!(only(&none, &before(), Level::Error).what, "no node runs Linux");
}

#[test]
fn an_installation_that_is_there_or_was_there_is_named() {
    let there = only(&healthy(), &before(), Level::Warning);
    assert!(there.what.contains("installed already") && there.to_do.ends_with("kubectl hitless doctor"), "{there:?}");
    let left = Facts { definitions: names(&["transitionbudgets.hitless.dev"]), ..fresh() };
    assert!(text(&findings(&left, &before())).contains("1 definition of an earlier installation"));
}
