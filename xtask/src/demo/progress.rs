//! How many pods are done: a bar on a terminal, elsewhere a line for each pod that is done.

use std::collections::{BTreeMap, BTreeSet};

use hitless_e2e::App;
use hitless_e2e::app::{image_of, is_ready};
use hitless_load::Report;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::Value;

use super::say::Say;

pub(super) struct Progress {
    bar: ProgressBar,
    image: String,
    version: String,
    /// Container of each pod when it began.
    before: BTreeMap<String, String>,
    done: BTreeSet<String>,
}

impl Progress {
    /// Of a change of the application's pods to that version, which has not begun.
    pub(super) fn start(app: &App, version: &str) -> anyhow::Result<Self> {
        let before: BTreeMap<String, String> =
            app.pods.objects().iter().map(|(name, pod)| (name.clone(), container(pod))).collect();
        let bar = ProgressBar::with_draw_target(Some(before.len() as u64), ProgressDrawTarget::stderr());
        bar.set_style(ProgressStyle::with_template("          {bar:24} {pos} of {len} pods · {wide_msg}")?);
        Ok(Self { bar, image: app.image(version), version: version.to_owned(), before, done: BTreeSet::new() })
    }

    /// Shows what has changed.
    pub(super) fn look(&mut self, app: &App, report: &Report) {
        for (name, pod) in &app.pods.objects() {
            let changed = self.before.get(name).is_none_or(|before| *before != container(pod));
            if changed && image_of(pod) == self.image && is_ready(pod) && self.done.insert(name.clone()) {
                self.tell(name);
            }
        }
        self.bar.set_position(self.done.len() as u64);
        self.bar.set_message(format!("{} requests, {} failed", report.requests(), report.failed()));
    }

    fn tell(&self, pod: &str) {
        if self.bar.is_hidden() {
            let (done, all) = (self.done.len(), self.before.len());
            Say::more(&format!("{pod} has {} ({done} of {all})", self.version));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn container(pod: &Value) -> String {
    pod["status"]["containerStatuses"][0]["containerID"].as_str().unwrap_or_default().to_owned()
}
