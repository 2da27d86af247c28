//! For people.

use std::fmt::Write;

use super::Adoption;
use crate::why::render;

pub(super) fn render_all(adoption: &Adoption) -> String {
    let Adoption { workload, namespace, opted_in, replicas, in_the_way, notes, helpers, answer, is_wanted, .. } =
        adoption;
    let mut out = String::new();
    // Writing to a String does not fail.
    let state = if *opted_in { "has opted in" } else { "has not opted in" };
    let _ = writeln!(out, "{workload} in namespace {namespace}, {replicas} replicas, {state}");
    let _ = writeln!(out, "in place: images, restarts, and annotations of the template that only mean a restart");
    let _ = writeln!(out, "natively, with an Event that names the field: every other change of its template");
    let _ = writeln!(out, "if it were to change now:");
    for line in render(answer).lines() {
        let _ = writeln!(out, "  {line}");
    }
    if !helpers.is_empty() {
        let _ = writeln!(out, "pods that the controller makes for it, tried by a dry run as you:");
    }
    for each in helpers {
        let _ = writeln!(out, "  {}", each.text());
    }
    for why in in_the_way {
        let _ = writeln!(out, "in the way: {why}");
    }
    for note in notes {
        let _ = writeln!(out, "note: {note}");
    }
    if !opted_in && !is_wanted && in_the_way.is_empty() {
        let _ = writeln!(out, "opt it in: kubectl hitless adopt -n {namespace} {workload} --yes");
    }
    out
}
