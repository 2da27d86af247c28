//! The six acts, one after the other.

use hitless_e2e::app::Shape;
use hitless_e2e::measure::{self, Rollout};
use hitless_e2e::traffic::Rate;
use hitless_e2e::{App, Site, namespace};

use super::bad_tag::{self, BadTag};
use super::progress::Progress;
use super::say::Say;
use super::{Demo, NAMESPACE, summary};

/// What came of them.
pub(super) struct Told {
    pub(super) first: Rollout,
    pub(super) second: Rollout,
    pub(super) later: Rollout,
    pub(super) native: Rollout,
    pub(super) single: Rollout,
    pub(super) bad_tag: BadTag,
}

/// What all acts share.
pub(super) struct Stage<'a> {
    pub(super) site: &'a dyn Site,
    pub(super) say: &'a Say,
    pub(super) rate: Rate,
}

pub(super) fn play(options: &Demo, say: &Say, site: &dyn Site) -> anyhow::Result<Told> {
    let rate =
        Rate { fresh: options.rate / 2, keepalive: options.rate - options.rate / 2, connections: 20, delay_ms: 0 };
    let stage = Stage { site, say, rate };
    let shape = site.shape();
    say.line(&format!(
        "load: {} requests/s on fresh and {} on kept-alive connections, to a server that exits at once on SIGTERM",
        rate.fresh, rate.keepalive
    ));
    let mut app = stage.start(NAMESPACE, &shape)?;
    if options.keep {
        app.keep();
    }
    let title = "1 of 6: 3 replicas with the annotation hitless.dev/update=in-place, v1 to v2. hitless fetches v2 and learns how long a pod is away.";
    let first = stage.act(&app, "v2", title)?;
    let title = "2 of 6: the same Deployment to v3. hitless knows how long a pod is away, and has to fetch v3 only.";
    let second = stage.act(&app, "v3", title)?;
    let later = stage.act(&app, "v2", "3 of 6: the same Deployment back to v2. Its nodes have v2.")?;
    let native = {
        let app = stage.start(&format!("{NAMESPACE}-native"), &Shape { update: None, gate: false, ..shape.clone() })?;
        let title = "4 of 6: 3 replicas without the annotation, v1 to v2: Kubernetes' own rollout. Its nodes have v2.";
        stage.act(&app, "v2", title)?
    };
    let single = {
        let app = stage.start(&format!("{NAMESPACE}-single"), &Shape { replicas: 1, ..shape })?;
        let title = "5 of 6: a single replica with the annotation, v1 to v2. A companion pod of v2 serves until the pod itself has v2.";
        stage.act(&app, "v2", title)?
    };
    let sent = first.requests + second.requests + later.requests + single.requests;
    let bad_tag = bad_tag::act(&stage, &app, options.requests.saturating_sub(sent))?;
    Ok(Told { first, second, later, native, single, bad_tag })
}

impl Stage<'_> {
    fn start(&self, name: &str, shape: &Shape) -> anyhow::Result<App> {
        let kubectl = self.site.kubectl(name);
        namespace::make(&kubectl)?;
        App::start_by(kubectl, shape)
    }

    /// One rollout, with a line before it and one after it.
    fn act(&self, app: &App, version: &str, title: &str) -> anyhow::Result<Rollout> {
        self.say.line(title);
        let mut progress = Progress::start(app, version)?;
        let rollout = measure::rollout(self.site, app, version, self.rate, 0, &mut |app, report| {
            progress.look(app, report);
        })?;
        drop(progress);
        Say::more(&summary::rollout(&rollout));
        Ok(rollout)
    }
}
