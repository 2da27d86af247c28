//! What the admission policies of `manifests/policies` deny and allow, row by row, on a real API server.
//!
//! All accounts get far wider RBAC than the manifests give them, so every denial is a policy's. Every row is a dry run: it goes
//! through the same admission as a real write and leaves nothing behind. Only the policies, definitions and roles need to be
//! installed; a controller that runs is stopped meanwhile, because it would tidy the fixture up.

mod fixture;
mod pod_spec;
mod pod_status;
mod request;
mod rights;
mod rows;
mod template_fields;

use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use fixture::Fixture;
use request::{Api, Call, Outcome};

/// One line of the table.
struct Row {
    /// The rule, as a sentence.
    says: &'static str,
    /// Who asks.
    who: request::Who,
    /// For what.
    call: Call,
    /// And what is answered.
    expect: Expect,
}

enum Expect {
    /// Admitted, with these values (by JSON pointer; Null stands for "absent") in the object that would be stored.
    Allowed(Vec<(&'static str, Value)>),
    /// Refused, in these words.
    Denied(&'static str),
    /// Admitted, and its author is warned in these words.
    Warned(&'static str),
}

/// Kubernetes 1.37 writes a StatefulSet's `maxUnavailable` where nobody has, and the guard remembers what is there.
fn without_defaults(mut object: Value) -> Value {
    if object["kind"] == "StatefulSet"
        && let Some(Value::String(wanted)) = object.pointer_mut("/metadata/annotations/hitless.dev~1update-strategy")
    {
        *wanted = wanted.replace(r#","maxUnavailable":1}"#, "}");
    }
    object
}

impl Row {
    /// Why the answer is not the one that the row expects.
    async fn judge(&self, api: &Api) -> Option<String> {
        let outcome = match api.send(self.who, &self.call).await {
            Ok(outcome) => outcome,
            Err(error) => return Some(format!("{}: no answer: {error:#}", self.says)),
        };
        let wrong = match (&self.expect, outcome) {
            (Expect::Denied(words), Outcome::Refused(message)) if message.contains(words) => return None,
            (Expect::Denied(words), Outcome::Refused(message)) => format!("refused without {words:?}: {message}"),
            (Expect::Denied(_), Outcome::Admitted(..)) => "admitted".to_owned(),
            (Expect::Allowed(_) | Expect::Warned(_), Outcome::Refused(message)) => format!("refused: {message}"),
            (Expect::Warned(words), Outcome::Admitted(_, warnings)) => {
                if warnings.iter().any(|warning| warning.contains(words)) {
                    return None;
                }
                format!("not warned of {words:?} but of {warnings:?}")
            }
            (Expect::Allowed(values), Outcome::Admitted(object, _)) => {
                let object = without_defaults(object);
                let differs = |(at, value): &&(&str, Value)| object.pointer(at).cloned().unwrap_or_default() != *value;
                let (at, value) = values.iter().find(differs)?;
                format!("{at} is {} instead of {value}", object.pointer(at).cloned().unwrap_or_default())
            }
        };
        Some(format!("{} [{:?}, {}]: {wrong}", self.says, self.who, self.call.path))
    }
}

/// How long an API server may take until new policies, roles and parameters are in force.
const SETTLE: Duration = Duration::from_mins(2);

#[tokio::test]
async fn every_row_of_the_table_is_answered_as_it_says() -> anyhow::Result<()> {
    let Some(api) = Api::connect().await? else { return Ok(()) };
    let fixture = Fixture::create(&api).await.context("cannot create the fixture")?;
    let judged = judge(&api, &fixture).await;
    fixture.remove(&api).await.context("cannot remove the fixture")?;
    let (count, wrong) = judged?;
    ensure!(wrong.is_empty(), "{} of {count} rows:\n{}", wrong.len(), wrong.join("\n"));
    Ok(())
}

async fn judge(api: &Api, fixture: &Fixture) -> anyhow::Result<(usize, Vec<String>)> {
    let api = api.with_agents(fixture).await?;
    let rows = rows::all();
    // Policies come into force one after another and say so nowhere, so first every row has to hold once, and then the whole
    // table again: what was allowed only because a policy was not in force yet shows then.
    let wait = async {
        let mut tick = tokio::time::interval(Duration::from_millis(200));
        for row in &rows {
            while row.judge(&api).await.is_some() {
                tick.tick().await;
            }
        }
    };
    // Whether it settled or not: the table that follows names the rows.
    let _settled = tokio::time::timeout(SETTLE, wait).await;
    let mut wrong = Vec::new();
    for row in &rows {
        wrong.extend(row.judge(&api).await);
    }
    wrong.extend(pod_spec::judge(&api).await?);
    wrong.extend(pod_status::judge(&api).await?);
    wrong.extend(template_fields::judge(&api).await?);
    wrong.extend(rights::judge(&api).await?);
    Ok((rows.len(), wrong))
}

#[tokio::test]
async fn the_api_server_finds_no_type_error_in_any_policy() -> anyhow::Result<()> {
    let Some(api) = Api::connect().await? else { return Ok(()) };
    fixture::install()?;
    let path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    let checked = async {
        let mut tick = tokio::time::interval(Duration::from_millis(200));
        loop {
            let list = api.admin(&Call::get(path)).await?;
            let ours: Vec<Value> = list["items"]
                .as_array()
                .into_iter()
                .flatten()
                .filter(|policy| policy["metadata"]["name"].as_str().is_some_and(|name| name.starts_with("hitless-")))
                .cloned()
                .collect();
            if !ours.is_empty()
                && ours.iter().all(|policy| policy["status"]["observedGeneration"] == policy["metadata"]["generation"])
            {
                return anyhow::Ok(ours);
            }
            tick.tick().await;
        }
    };
    for policy in tokio::time::timeout(SETTLE, checked).await.context("policies are not checked")?? {
        let warnings = &policy["status"]["typeChecking"]["expressionWarnings"];
        ensure!(warnings.is_null(), "{}: {warnings}", policy["metadata"]["name"]);
    }
    Ok(())
}

/// Kruise has a StatefulSet and a DaemonSet too, in a group of its own.
#[test]
fn the_guards_are_for_kubernetes_own_kinds_only() -> anyhow::Result<()> {
    for (file, resource) in
        [("guard", "deployments"), ("guard-statefulset", "statefulsets"), ("guard-daemonset", "daemonsets")]
    {
        let path = format!("{}/../../manifests/policies/{file}.yaml", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).context(path)?;
        let mut rules = text.lines().map(str::trim).filter(|line| line.starts_with("- {apiGroups:"));
        let own =
            |rule: &str| rule.contains("apiGroups: [apps],") && rule.contains(&format!("resources: [{resource}]"));
        ensure!(rules.clone().count() > 0 && rules.all(own), "{file}.yaml matches other kinds");
    }
    Ok(())
}
