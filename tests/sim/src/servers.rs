//! How servers start and stop: late, at the second attempt, slowly. What their owners allow them stands in their templates. All of it is
//! drawn apart.

use std::collections::BTreeMap;

use hitless_api::pod::PodView;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::chance::Chance;
use crate::clock::{MS, Micros, SECOND};
use crate::faults::Fault;
use crate::kubelet::Image;

/// The longest back-off of a container that is started again.
pub(crate) const BACK_OFF: Micros = 10 * SECOND;
/// The least time that a kubelet gives a container to end.
const LEAST_GRACE: Micros = 2 * SECOND;
/// Watches are late and broken: what comes up so close to the end of its time may be seen too late.
const CLOSE: Micros = 30 * SECOND;

/// The servers of a run.
pub(crate) struct Servers {
    chance: Chance,
    /// How long startup probes let a container start, by namespace and name of the workload.
    probes: BTreeMap<(String, String), Micros>,
    /// How many containers of the image with this number end before one comes up.
    crashes: BTreeMap<String, u32>,
}

impl Servers {
    pub(crate) fn new(chance: Chance) -> Self {
        Self { chance, probes: BTreeMap::new(), crashes: BTreeMap::new() }
    }

    /// Whether the cluster's DrainPolicy says how long a start may take.
    pub(crate) fn has_policy(&mut self) -> bool {
        self.chance.happens(3_000)
    }

    /// `progressDeadlineSeconds`, if its owner writes it.
    pub(crate) fn deadline(&mut self) -> Option<i64> {
        self.chance.pick(&[None, Some(600), Some(45), Some(90), Some(120), Some(300)])
    }

    /// What an owner writes into a template.
    pub(crate) fn write(&mut self, namespace: &str, name: &str, template: &mut Value) {
        if let Some(grace) = self.chance.pick(&[None, None, Some(5), Some(10), Some(60)]) {
            template["spec"]["terminationGracePeriodSeconds"] = json!(grace);
        }
        let probe = self.chance.pick(&[None, None, Some((6, 10)), Some((30, 10)), Some((70, 10)), Some((10, 3))]);
        if let Some((failures, period)) = probe {
            template["spec"]["containers"][0]["startupProbe"] =
                json!({"httpGet": {"path": "/", "port": 80}, "failureThreshold": failures, "periodSeconds": period});
            self.probes.insert((namespace.to_owned(), name.to_owned()), failures * period * SECOND);
        }
    }

    /// How an image of a workload does whose start may take so long, and what that is to be called.
    pub(crate) fn image(&mut self, number: u32, workload: (&str, &str), allowed: Micros) -> (Image, Option<Fault>) {
        let most = self.probe(workload).map_or(allowed, |probe| probe.min(allowed));
        let quick = self.chance.delay(100 * MS, 5 * SECOND);
        match self.chance.index(20) {
            0..7 => (Image::Good(quick), None),
            7..13 => {
                let latest = (most - CLOSE).max(6 * SECOND);
                (Image::Good(self.chance.between(5 * SECOND, latest)), Some(Fault::LateStart))
            }
            13..15 => {
                let crashes = self.chance.pick(&[1, 1, 2]);
                self.crashes.insert(number.to_string(), crashes);
                (Image::Good(quick), Some(Fault::CrashedStart))
            }
            15..17 => (Image::Good(most + most / 4 + 20 * SECOND), Some(Fault::StartTooLate)),
            17 => (Image::Missing, Some(Fault::BadImage)),
            18 => (Image::Crashes, Some(Fault::BadImage)),
            _ => (Image::NeverReady, Some(Fault::BadImage)),
        }
    }

    /// How many containers of this image end before one comes up.
    pub(crate) fn crashes(&self, number: &str) -> u32 {
        self.crashes.get(number).copied().unwrap_or_default()
    }

    /// How long the startup probe of a workload's pods lets them start, if they have one.
    pub(crate) fn probe(&self, (namespace, name): (&str, &str)) -> Option<Micros> {
        self.probes.get(&(namespace.to_owned(), name.to_owned())).copied()
    }

    /// How long a container takes to end that does not at once.
    pub(crate) fn stop(&mut self, grace_seconds: u32) -> Option<(Micros, Fault)> {
        let grace = (Micros::from(grace_seconds) * SECOND).max(LEAST_GRACE);
        match self.chance.index(20) {
            0..10 => None,
            10..15 => Some((self.chance.between(SECOND, grace), Fault::SlowStop)),
            15..19 => Some((grace + self.chance.between(0, LEAST_GRACE), Fault::KilledStop)),
            _ => Some((grace + self.chance.between(15 * SECOND, 40 * SECOND), Fault::HungStop)),
        }
    }

    /// When, of that time, nobody listens any more.
    pub(crate) fn deaf_after(&mut self, stop: Micros) -> Micros {
        self.chance.between(0, stop)
    }
}

/// As a kubelet and all others read a template: how long its probes let a container start, and how long it may take to end.
pub(crate) fn spec_of(template: &Value) -> (u32, Option<u32>) {
    let spec = &template["spec"];
    let grace = spec["terminationGracePeriodSeconds"].as_u64().and_then(|grace| u32::try_from(grace).ok());
    if spec["containers"][0].get("startupProbe").is_none() {
        return (0, grace);
    }
    let pod = serde_json::from_value::<Pod>(json!({"metadata": {}, "spec": spec}));
    let view = pod.ok().map(|pod| PodView::from(&pod));
    let start = view.and_then(|view| Some(view.containers.first()?.start_seconds));
    (start.unwrap_or_default(), grace)
}
