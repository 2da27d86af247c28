//! What stands in the cluster when a soak has failed: it is taken down afterwards.

use std::process::Output;

use hitless_e2e::Stack;

/// How much of each log.
const LINES: &str = "--tail=200";

/// What a person would ask for, each with its answer.
pub(super) fn print(stack: &Stack) {
    let kubectl = stack.system();
    let status = ["status", "--all-namespaces", "--output=wide"];
    tell("hitless status", kubectl.plugin(&stack.programs.cli, &status));
    let asked: [&[&str]; 5] = [
        &["get", "pods", "--all-namespaces", "--output=wide"],
        &["get", "transitionledgers,nodetransitions", "--all-namespaces", "--output=yaml"],
        &["events", "--all-namespaces"],
        &["logs", "--selector=app.kubernetes.io/name=hitless-controller", "--prefix", LINES],
        &["logs", "--selector=app.kubernetes.io/name=hitless-agent", "--prefix", LINES],
    ];
    for question in asked {
        tell(&question.join(" "), kubectl.output(question));
    }
}

fn tell(question: &str, answer: anyhow::Result<Output>) {
    let text = answer.map_or_else(
        |error| error.to_string(),
        |answer| String::from_utf8_lossy(&[answer.stdout, answer.stderr].concat()).into_owned(),
    );
    eprintln!("== kubectl {question}\n{text}");
}
