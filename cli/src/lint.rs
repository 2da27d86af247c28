//! `kubectl hitless lint`: rules, budgets and annotations of workloads in files that can't do what they are meant to.

mod claims;
mod drain;
mod endpoint;
mod finding;
mod nearest;
mod never;
mod object;
mod ours;
mod pods;
mod schema;
mod single;
mod task;
mod together;
mod topology;
mod traffic;
mod unlimited;
mod workload;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::args::{ClusterArgs, LintArgs};
use crate::connect;
use crate::failure::Failure;
use crate::files::{self, Misread, Object, Unreadable};
use crate::output::show;
use crate::source::{self, Scope};
use finding::{Finding, Report};
pub(crate) use nearest::nearest;
use object::LimitObject;
use pods::Pods;

/// Namespace of objects that name none.
const DEFAULT_NAMESPACE: &str = "default";

pub(crate) async fn run(cluster: &ClusterArgs, arguments: &LintArgs) -> Result<(), Failure> {
    let namespace = cluster.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
    let (objects, unreadable) = files::read(&arguments.files, namespace);
    let mut live = None;
    let (mut changed, mut nodes) = (Vec::new(), BTreeMap::new());
    if arguments.live {
        let live = live.get_or_insert_with(Vec::new);
        let client = connect(cluster).await?;
        let of_files = pods::of_files(&objects);
        let namespaces: BTreeSet<&str> = objects.iter().map(Object::namespace).collect();
        for namespace in namespaces.into_iter().filter(|namespace| !namespace.is_empty()) {
            let snapshot = source::read(&client, &Scope::Namespace(namespace.to_owned())).await?;
            live.extend(pods::of_cluster(&snapshot, &of_files));
            nodes.extend(snapshot.cluster.nodes.clone());
            let there = || snapshot.cluster.objects.iter().map(|known| &**known);
            changed.extend(objects.iter().filter_map(|object| claims::changed(object, there())));
        }
    }
    let report = check(&objects, unreadable, live.as_deref(), Timestamp::now()).with(changed);
    let report = report.with(topology::check(&objects, nodes.values().map(|node| &**node)));
    show(&report, arguments.output, || report.text())?;
    match report.errors {
        0 => Ok(()),
        1 => Err(Failure::Failed("1 error was found".to_owned())),
        errors => Err(Failure::Failed(format!("{errors} errors were found"))),
    }
}

/// Checks all objects, alone and together with the pods of the files and `live` ones; `None`: no cluster was asked.
fn check(objects: &[Object], unreadable: Vec<Unreadable>, live: Option<&[Pods]>, now: Timestamp) -> Report {
    let mut findings: Vec<Finding> = unreadable.into_iter().map(Finding::unreadable).collect();
    let mut known: Vec<LimitObject<'_>> = Vec::new();
    let mut pods = pods::of_files(objects);
    for object in objects {
        findings.extend(ours::check(object));
        let schema = schema::check(object);
        findings.extend(workload::check(object, schema.is_empty()));
        findings.extend(claims::check(object));
        findings.extend(endpoint::check(object));
        findings.extend(task::check(object));
        match LimitObject::read(object) {
            Ok(read) => known.extend(read),
            // The schema has said so already, and better.
            Err(_) if !schema.is_empty() => {}
            Err(Misread { line, text }) => findings.push(Finding::error(object, line, text)),
        }
        findings.extend(schema);
    }
    pods.extend(live.iter().copied().flatten().cloned());
    let single: Vec<Finding> = known.iter().flat_map(|each| single::check(each, &findings)).collect();
    findings.extend(single);
    findings.extend(together::duplicates(objects));
    findings.extend(traffic::check(objects));
    findings.extend(drain::check(objects));
    let never = never::check(&known, &pods, live.is_some(), &findings, now);
    findings.extend(never);
    findings.extend(unlimited::check(&known, &pods));
    findings.extend(together::check(&known, &pods, now));
    Report::new(findings, objects.len())
}

/// What the API server would refuse or drop of an object that limits operations, with its place: `plan` takes what it can read.
pub(crate) fn refused(object: &Object) -> Vec<String> {
    let found = ours::check(object).into_iter().chain(schema::check(object));
    found.map(|each| format!("{}:{}: {}: {}", each.file, each.line, each.object, each.text)).collect()
}

/// What is wrong with an object, better said than by who could not read it.
pub(crate) fn better(object: &Object, misread: Misread) -> Misread {
    let first = schema::check(object).into_iter().next();
    first.map_or(misread, |found| Misread { line: found.line, text: found.text })
}

#[cfg(test)]
mod tests;
