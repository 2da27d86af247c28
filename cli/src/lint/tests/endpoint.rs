//! The annotation `hitless.dev/endpoint`.

use super::*;

pub(super) fn web(own: &str, pod: &str, spec: &str) -> String {
    format!(
        "apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  annotations: {{{own}}}
spec:
  template:
    metadata:
      annotations: {{{pod}}}
    spec: {{containers: [{{name: web, ports: [{{containerPort: 8080}}, {{containerPort: 53, protocol: UDP}}]}}]{spec}}}
"
    )
}

pub(super) fn said(text: &str) -> Vec<(u64, String)> {
    lint(text).findings.into_iter().map(|found| (found.line, found.text)).collect()
}

#[test]
fn an_endpoint_that_nobody_would_listen_at_is_named() {
    let port = |port: &str| format!("hitless.dev/endpoint: {port}");
    assert_eq!(said(&web("", &port("'9754'"), "")), []);
    assert_eq!(said(&web("", &port("'53'"), "")), [], "UDP has ports of its own");
    for wrong in ["'http'", "'0'", "'65536'", "'-1'", "''"] {
        let found = said(&web("", &port(wrong), ""));
        assert_eq!((found.len(), found[0].0), (1, 9), "{wrong}: {found:?}");
        assert!(found[0].1.contains("no port; write a number from 1 to 65535 in quotes"), "{found:?}");
    }
    let number = said(&web("", &port("9754"), ""));
    assert!(number.len() == 1 && number[0].1.ends_with("quote it"), "{number:?}");
    let found = said(&web(&port("'9754'"), "", ""));
    assert_eq!((found.len(), found[0].0), (1, 5), "{found:?}");
    assert!(found[0].1.ends_with("move it to spec.template.metadata.annotations"), "{found:?}");
    assert_eq!(said(&web(&port("'9754'"), &port("'9754'"), "")), [], "it stands where it counts, too");
    let found = said(&web("", &port("'8080'"), ""));
    assert!(found[0].1.contains("names port 8080, which container web listens at"), "{found:?}");
    let found = lint(&web("", &port("'9754'"), ", hostNetwork: true"));
    assert_eq!((found.errors, found.warnings), (0, 1), "{}", found.text());
}

#[test]
fn pods_are_looked_at_as_well() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, annotations: {hitless.dev/endpoint: x}}\nspec: {containers: [{name: a}]}\n";
    assert_eq!(lint(pod).errors, 1);
    let service =
        "apiVersion: v1\nkind: Service\nmetadata: {name: a, annotations: {hitless.dev/endpoint: x}}\nspec: {}\n";
    assert_eq!(lint(service).errors, 0, "it has no pods");
}
