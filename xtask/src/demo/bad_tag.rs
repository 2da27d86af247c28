//! The act with an image that does not exist.

use std::time::{Duration, Instant};

use anyhow::ensure;
use hitless_e2e::app::PATIENCE;
use hitless_e2e::{App, Departures, Watch};
use serde::Serialize;

use super::acts::Stage;
use super::progress::Progress;
use super::say::Say;
use super::summary;

/// Nobody has pushed it.
const TAG: &str = "no-such-tag";
/// What the Deployment has before and after.
const GOOD: &str = "v2";

#[derive(Serialize)]
pub(super) struct BadTag {
    pub(super) requests: u64,
    pub(super) failed: u64,
    pub(super) longest_pause_ms: u64,
    /// Pods that left service, also for a moment.
    pub(super) pods_out_of_service: usize,
    pub(super) pods_recreated: usize,
    /// From the change until an Event on the Deployment said what is wrong.
    pub(super) seconds_to_reason: f64,
    /// That Event's note: the registry's words.
    pub(super) reason: String,
    /// From the good image until the rollout had ended.
    pub(super) seconds_to_end: f64,
}

/// Sets an image that does not exist, waits for the reason, shows it and sets the good image again, all under load.
pub(super) fn act(stage: &Stage<'_>, app: &App, requests: u64) -> anyhow::Result<BadTag> {
    stage.say.line(&format!("6 of 6: the first Deployment to {TAG}, which nobody has pushed."));
    let before = app.identities();
    let traffic = stage.site.load(app, stage.rate)?;
    traffic.wait_for_requests(stage.rate.per_second(), PATIENCE)?;
    let departures = Departures::start(app, before.len())?;
    let events = Watch::start(&app.kubectl, &["events.events.k8s.io"])?;
    let mut progress = Progress::start(app, TAG)?;
    let begin = Instant::now();
    app.set_version(TAG)?;
    let reason = loop {
        if let Some(reason) = blocked(&events) {
            break reason;
        }
        ensure!(begin.elapsed() < PATIENCE, "no Event said in {PATIENCE:?} that {TAG} cannot be pulled");
        events.next_change(Duration::from_millis(250));
        progress.look(app, &traffic.report());
    };
    let seconds_to_reason = begin.elapsed().as_secs_f64();
    drop(progress);
    Say::more("$ kubectl hitless why deployment/web");
    let why = stage.site.plugin(app, &["why", "deployment/web"])?;
    for line in String::from_utf8_lossy(&why.stdout).lines() {
        Say::more(&format!("  {line}"));
    }
    Say::more(&format!("$ kubectl set image deployment/web web={}", app.image(GOOD)));
    let mut progress = Progress::start(app, GOOD)?;
    let begin = Instant::now();
    app.set_version(GOOD)?;
    app.wait_unheld()?;
    app.rollout_status()?;
    let seconds_to_end = begin.elapsed().as_secs_f64();
    let enough = requests.max(traffic.report().requests() + 2 * stage.rate.per_second());
    traffic.wait_for_requests_looking(enough, PATIENCE * 3, &mut |report| progress.look(app, report))?;
    drop(progress);
    let report = traffic.stop()?;
    let told = BadTag {
        requests: report.requests(),
        failed: report.failed(),
        longest_pause_ms: report.longest_pause.length_ms,
        pods_out_of_service: departures.left().len(),
        pods_recreated: before.iter().filter(|pod| !app.identities().contains(pod)).count(),
        seconds_to_reason,
        reason,
        seconds_to_end,
    };
    Say::more(&summary::bad_tag(&told));
    Ok(told)
}

/// The note of the Event that names the tag, if it is there.
fn blocked(events: &Watch) -> Option<String> {
    let events = events.objects();
    let notes =
        events.values().filter(|event| event["reason"] == "RolloutBlocked").filter_map(|event| event["note"].as_str());
    notes.into_iter().find(|note| note.contains(TAG)).map(str::to_owned)
}
