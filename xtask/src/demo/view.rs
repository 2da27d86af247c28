//! The live view and the comparison at the end.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use hitless_e2e::app::{condition, image_of, is_ready};
use hitless_e2e::measure::Rollout;
use hitless_e2e::{App, Watch};
use hitless_load::Report;

/// A block of lines that is redrawn in place on a terminal, or printed when it changes elsewhere.
pub(super) struct View {
    live: bool,
    lines: usize,
    last: String,
}

impl View {
    pub(super) fn new(live: bool) -> Self {
        Self { live, lines: 0, last: String::new() }
    }

    pub(super) fn show(&mut self, app: &App, transitions: Option<&Watch>, report: &Report) {
        let phases = transitions.map(phases).unwrap_or_default();
        let mut pods = String::new();
        for (name, pod) in &app.pods.objects() {
            let image = image_of(pod);
            let version = image.rsplit(':').next().unwrap_or("?");
            let ready = if is_ready(pod) { "ready" } else { "not ready" };
            let service = match condition(pod, "hitless.dev/InService") {
                Some("True") => "in service",
                Some(_) => "out of service",
                None => "",
            };
            let phase = phases.get(name).map_or("", String::as_str);
            let _ = writeln!(pods, "  {name:<24} {version:<4} {ready:<10} {service:<15} {phase}");
        }
        let versions: Vec<&str> = report.versions.keys().map(String::as_str).collect();
        let load = format!(
            "  requests {} · failed {} (unretried {}) · answering so far: {}\n",
            report.requests(),
            report.failed(),
            report.failed_unretried(),
            versions.join(", ")
        );
        if self.live {
            if self.lines > 0 {
                eprint!("\x1b[{}A\x1b[J", self.lines);
            }
            eprint!("{pods}{load}");
            self.lines = pods.lines().count() + 1;
        } else if pods != self.last {
            eprint!("{pods}{load}");
        }
        self.last = pods;
    }

    pub(super) fn end(&mut self) {
        self.lines = 0;
        eprintln!();
    }
}

/// Phase of each pod with a grant, from the NodeTransitions.
fn phases(transitions: &Watch) -> BTreeMap<String, String> {
    let mut phases = BTreeMap::new();
    for object in transitions.objects().values() {
        let entries = object["status"]["transitions"].as_array().cloned().unwrap_or_default();
        for grant in object["spec"]["grants"].as_array().into_iter().flatten() {
            let phase =
                entries.iter().find(|entry| entry["id"] == grant["id"]).and_then(|entry| entry["phase"].as_str());
            if let Some(pod) = grant["pod"]["name"].as_str() {
                phases.insert(pod.to_owned(), phase.unwrap_or("Granted").to_owned());
            }
        }
    }
    phases
}

/// Both rollouts side by side.
pub(super) fn summary(in_place: &Rollout, native: &Rollout) -> String {
    let mut text = format!("{:<46} {:>12} {:>12}\n", "", "hitless", "native");
    let mut row = |name: &str, ours: String, theirs: String| {
        let _ = writeln!(text, "{name:<46} {ours:>12} {theirs:>12}");
    };
    row("requests", in_place.requests.to_string(), native.requests.to_string());
    row("failed requests", in_place.failed.to_string(), native.failed.to_string());
    row("  on fresh connections", in_place.failed_fresh.to_string(), native.failed_fresh.to_string());
    row("  on kept-alive connections", in_place.failed_keepalive.to_string(), native.failed_keepalive.to_string());
    row(
        "  kept-alive, by a client that never retries",
        in_place.failed_keepalive_unretried.to_string(),
        native.failed_keepalive_unretried.to_string(),
    );
    row(
        "longest time without an answer, ms",
        in_place.longest_pause_ms.to_string(),
        native.longest_pause_ms.to_string(),
    );
    row("seconds", format!("{:.1}", in_place.seconds), format!("{:.1}", native.seconds));
    row("pods made anew", in_place.pods_recreated.to_string(), native.pods_recreated.to_string());
    let mut components: Vec<&String> = in_place.writes_per_pod.keys().chain(native.writes_per_pod.keys()).collect();
    components.sort();
    components.dedup();
    for component in components {
        let count = |rollout: &Rollout| {
            rollout.writes_per_pod.get(component).map_or("–".to_owned(), |count| format!("{count:.1}"))
        };
        row(&format!("API writes per pod: {component}"), count(in_place), count(native));
    }
    text
}
