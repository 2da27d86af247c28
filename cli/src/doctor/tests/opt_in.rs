//! Namespaces that opt their workloads in.

use super::super::facts::{Labelled, Seen};
use super::*;

fn labelled(namespace: &str, value: &str, left_out: &[&str]) -> Labelled {
    let left_out = left_out.iter().map(|name| (*name).to_owned()).collect();
    Labelled { namespace: namespace.to_owned(), value: value.to_owned(), left_out }
}

fn with(all: Vec<Labelled>) -> Facts {
    let mut facts = healthy();
    if let Seen::Known(guards) = &mut facts.guards {
        guards.policies.insert("hitless-adopt".to_owned());
        guards.bindings.extend(["hitless-adopt", "hitless-gate-opted-in"].map(str::to_owned));
    }
    facts.labelled = Seen::Known(all);
    facts
}

#[test]
fn a_namespace_that_opts_in_is_fine_where_the_policy_is_there() {
    let facts = with(vec![labelled("team", "in-place", &[]), labelled("shop", "in-place-only", &[])]);
    let all = findings(&facts);
    assert!(all.iter().all(|finding| finding.level == Level::Ok), "{all:?}");
    assert!(text(&all).contains("workloads of 2 namespaces opt in by the label hitless.dev/update"));
    let quiet = findings(&with(vec![labelled("team", "native", &[])]));
    assert!(!text(&quiet).contains("hitless.dev/update"), "native asks for nothing");
}

#[test]
fn a_label_that_does_nothing_is_told_with_what_to_do() {
    let warnings =
        of(&with(vec![labelled("team", "inplace", &[]), labelled("kube-system", "in-place", &[])]), Level::Warning);
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].what.contains("namespace kube-system has the label"), "{warnings:?}");
    assert!(warnings[1].what.contains("of namespace team is \"inplace\", which means nothing"), "{warnings:?}");
    assert!(warnings[1].to_do.starts_with("kubectl label namespace team hitless.dev/update=in-place --overwrite"));

    let mut facts = with(vec![labelled("team", "in-place", &[])]);
    facts.guards = healthy().guards;
    let missing = error(&facts);
    assert!(missing.what.contains("namespace team has the label") && missing.why.contains("hitless-adopt is missing"));
    assert!(missing.to_do.contains("kubectl hitless adopt -n team --yes"), "{missing:?}");

    facts.guards = guards(&REFUSES, &REFUSES);
    let refusing = of(&facts, Level::Warning);
    assert!(refusing.iter().any(|finding| finding.why.contains("nothing writes the annotation")), "{refusing:?}");
}

#[test]
fn what_was_there_before_the_label_is_named() {
    let facts =
        with(vec![labelled("team", "in-place", &["deployment/a", "deployment/b", "statefulset/c", "statefulset/d"])]);
    let warnings = of(&facts, Level::Warning);
    let said = "4 workloads of namespace team did not opt in: deployment/a, deployment/b, statefulset/c and 1 more";
    assert!(warnings.len() == 1 && warnings[0].what == said, "{warnings:?}");
    assert!(
        warnings[0].to_do.contains("kubectl annotate -n team deployment/a hitless.dev/update=native"),
        "{warnings:?}"
    );
}
