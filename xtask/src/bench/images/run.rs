//! One change of one Deployment under load.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hitless_e2e::app::{PATIENCE, Shape, is_held, patience_for};
use hitless_e2e::traffic::Rate;
use hitless_e2e::{App, Departures, Stack, Traffic, Watch, measure};
use serde_json::Value;

use super::case::Case;

/// The Event of a pull may be written this much later than what follows from it.
const LATE: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Hitless,
    Native,
}

pub(super) struct Measured {
    /// See `Figure`.
    pub(super) pods_out: usize,
    pub(super) failed: u64,
    pub(super) requests: u64,
    /// Seconds from the change, and the Event's note.
    pub(super) reason: Option<(f64, String)>,
    /// None if the rollout has not ended.
    pub(super) seconds: Option<f64>,
}

/// In a namespace and a repository of its own: the image is on no node, and the fault is nobody else's.
pub(super) fn measure(stack: &Stack, case: Case, replicas: u32, way: Way, seconds: u64) -> anyhow::Result<Measured> {
    let suffix = match way {
        Way::Hitless => "hitless",
        Way::Native => "native",
    };
    let name = format!("{}-{replicas}-{suffix}", case.name());
    let repository = format!("bench/{name}");
    let version = push(stack, case, &repository)?;
    let update = (way == Way::Hitless).then_some("in-place");
    let shape = Shape {
        replicas,
        repository: repository.clone(),
        mode: None,
        update,
        gate: update.is_some(),
        patch: case.patch(),
        ..Shape::default()
    };
    let app = App::start(&stack.cluster, &format!("bench-{name}"), &shape)?;
    // Only now: the first version was to come at once.
    let fault = case.fault().map(|fault| stack.cluster.fault(&repository, &fault)).transpose()?;
    let measured = change(stack, &app, case, &version, replicas as usize, seconds);
    drop(fault);
    // Its pods must not be in the way of the next one's.
    let deleted = app.kubectl.run(&["delete", "namespace", app.kubectl.namespace(), "--wait=true", "--timeout=180s"]);
    let measured = measured?;
    deleted?;
    Ok(measured)
}

/// Pushes v1 and what follows it; the name of that, which no node has seen yet.
fn push(stack: &Stack, case: Case, repository: &str) -> anyhow::Result<String> {
    let now = jiff::Timestamp::now().as_millisecond();
    let version = format!("{}-{now}", case.name());
    stack.push_echo(repository, "v1", &[], None)?;
    if case.is_pushed() {
        stack.push_echo(repository, &version, case.environment(), case.ballast(u64::try_from(now)?))?;
    }
    Ok(version)
}

fn change(
    stack: &Stack,
    app: &App,
    case: Case,
    version: &str,
    replicas: usize,
    seconds: u64,
) -> anyhow::Result<Measured> {
    let departures = Departures::start(app, replicas)?;
    let said = Arc::new(Mutex::new(Said::default()));
    let hears = Arc::clone(&said);
    let image = app.image(version);
    let events = Watch::start_seeing(&app.kubectl, &["events.events.k8s.io"], move |event| {
        hears.lock().unwrap_or_else(PoisonError::into_inner).hear(&event["object"], case, &image);
    })?;
    let traffic = Traffic::start(&stack.cluster, &stack.programs, app.address, Rate::default())?;
    traffic.wait_for_requests(200, PATIENCE)?;
    let begin = Instant::now();
    app.set_version(version)?;
    let limit = if case.is_good() { patience_for(replicas * 3) } else { Duration::from_secs(seconds) };
    while !has_ended(app, version, replicas) && begin.elapsed() < limit {
        app.pods.next_change(Duration::from_millis(250));
    }
    let ended = has_ended(app, version, replicas).then(|| begin.elapsed());
    // What follows the last pod's return belongs to the change.
    traffic.wait_for_more(400, PATIENCE)?;
    let report = traffic.stop()?;
    drop(events);
    let said = said.lock().unwrap_or_else(PoisonError::into_inner);
    let out = departures.left();
    let out = out.values().filter(|left| case != Case::SlowPull || said.was_away(&left.node, left.at));
    Ok(Measured {
        pods_out: out.count(),
        failed: report.failed(),
        requests: report.requests(),
        reason: said
            .reason
            .as_ref()
            .map(|(at, text)| (at.saturating_duration_since(begin).as_secs_f64(), text.clone())),
        seconds: ended.map(|ended| ended.as_secs_f64()),
    })
}

/// A pod whose image has just changed may still be called Ready, but then its Deployment is held.
fn has_ended(app: &App, version: &str, replicas: usize) -> bool {
    let workloads = app.workloads.objects();
    let lifted = workloads.get("web").is_some_and(|web| !is_held(web) && web["spec"]["paused"] != true);
    lifted && measure::finished(app, version, replicas)
}

/// What Events have said.
#[derive(Default)]
struct Said {
    /// When the Deployment's Events said first what is wrong, and how.
    reason: Option<(Instant, String)>,
    /// When each node's kubelet said first that the image was there.
    pulled: BTreeMap<String, Instant>,
}

impl Said {
    fn hear(&mut self, event: &Value, case: Case, image: &str) {
        let text = event["note"].as_str().unwrap_or_default();
        let regarding = &event["regarding"];
        let of_web = regarding["kind"] == "Deployment" && regarding["name"] == "web";
        if self.reason.is_none() && of_web && case.is_said_by(text) {
            self.reason = Some((Instant::now(), text.to_owned()));
        }
        // The kubelet still writes Events of the old API, in which the node is the source's host.
        let node = event["deprecatedSource"]["host"].as_str().or(event["reportingInstance"].as_str());
        let pulled = event["reason"] == "Pulled" && text.contains(image);
        if let Some(node) = node.filter(|node| !node.is_empty() && pulled) {
            self.pulled.entry(node.to_owned()).or_insert_with(Instant::now);
        }
    }

    /// Whether the image was not on that node at that moment.
    fn was_away(&self, node: &str, at: Instant) -> bool {
        self.pulled.get(node).is_none_or(|there| at + LATE < *there)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_reason_is_the_first_event_on_the_deployment_in_the_registrys_words() {
        let mut said = Said::default();
        let event = |kind: &str, note: &str| json!({"regarding": {"kind": kind, "name": "web"}, "note": note});
        for event in [
            event("Deployment", "waits"),
            event("Pod", "x: not found"),
            event("Deployment", "x: Not Found"),
            event("Deployment", "y: not found"),
        ] {
            said.hear(&event, Case::BadTag, "x");
        }
        assert_eq!(said.reason.unwrap().1, "x: Not Found");
    }

    #[test]
    fn a_pod_that_leaves_when_the_image_is_there_does_not_count() {
        let mut said = Said::default();
        let before = Instant::now();
        assert!(said.was_away("n1", before));
        let pulled = json!({"reason": "Pulled", "note": "Successfully pulled image \"r/x:2\"", "deprecatedSource": {"host": "n1"}});
        said.hear(&pulled, Case::SlowPull, "r/x:2");
        assert!(!said.was_away("n1", before), "Events may be late");
        assert!(!said.was_away("n1", Instant::now()));
        assert!(said.was_away("n2", Instant::now()));
    }
}
