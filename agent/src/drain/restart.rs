//! The replacement of containers as the kernel shows it: the end of the old processes, and the listeners of the new ones.

use std::collections::BTreeSet;
use std::path::Path;

use hitless_api::{DrainSpec, PortTreatment};
use hitless_kernel::{KernelError, ListenWatch, PodNetns, ProcessExit, Within};
use jiff::Timestamp;

use crate::view::Listening;

/// Whose replacement is waited for.
pub(super) struct Restart {
    /// Where the containers listen, or did.
    ports: Vec<u16>,
    /// Those of them that the pod declares or a Service leads to; all of them where there are none such.
    named: BTreeSet<u16>,
    /// Where only others listen, who stay: sidecars, and processes of other pods such as an ambient mesh's, or this one.
    staying: BTreeSet<u16>,
    within: Within,
    watch: ListenWatch,
    exits: Vec<ProcessExit>,
    killed: Option<Timestamp>,
    listening: Option<Listening>,
}

impl Restart {
    /// Notes which processes of these containers run and where they listen: ask before anything is done to them. `former`
    /// are ports that they are known to have listened on.
    pub(super) fn note(
        proc_root: &Path,
        pod_uid: &str,
        netns: &PodNetns,
        containers: &[String],
        former: &BTreeSet<u16>,
        drain: &DrainSpec,
    ) -> Result<Self, KernelError> {
        let mut ports = former.clone();
        let mut exits = Vec::with_capacity(containers.len());
        for container in containers {
            ports.extend(netns.listeners_of(container)?.iter().map(|listener| listener.addr.port()));
            match ProcessExit::of_container(proc_root, pod_uid, container) {
                Ok(exit) => exits.push(exit),
                Err(KernelError::ContainerNotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        // The agent itself, whose clients there wait for the others. Whose listeners are not seen may have those of others, for all
        // anybody knows.
        let others = if ports.is_empty() { netns.own_listeners()? } else { netns.listeners()? };
        let mut staying: BTreeSet<u16> = others.iter().map(|listener| listener.addr.port()).collect();
        staying.retain(|port| !ports.contains(port));
        ports.retain(|port| !matches!(drain.treatment(*port), PortTreatment::Ignore | PortTreatment::Udp));
        let named = named(&ports, drain);
        let ports: Vec<u16> = ports.into_iter().collect();
        let watch = ListenWatch::note(netns, &ports)?;
        let within = Within::new(containers, &ports);
        Ok(Self { ports, named, staying, within, watch, exits, killed: None, listening: None })
    }

    /// Where only others listen than the containers: their connections outlive the restart.
    pub(super) fn staying(&self) -> &BTreeSet<u16> {
        &self.staying
    }

    /// Which connections of other containers of the pod count.
    pub(super) fn within(&self) -> Within {
        self.within.clone()
    }

    /// Ports that clients connect to.
    pub(super) fn ports(&self) -> &[u16] {
        &self.ports
    }

    /// Those of them that are known to have clients; all of them where none is.
    pub(super) fn named(&self) -> &BTreeSet<u16> {
        &self.named
    }

    /// Whether an old process has ended, as far as anybody has seen.
    pub(super) fn is_under_way(&self) -> bool {
        self.exits.is_empty() || self.killed.is_some()
    }

    /// When the new processes listened, if they do. A port that nobody has named counts only while clients wait on it: they are on
    /// `parked`. The new version may not open it any more, and would have all others wait. Costs some 15 µs.
    pub(super) fn look(&mut self, netns: &PodNetns, parked: &BTreeSet<u16>) -> Result<Option<Listening>, KernelError> {
        if self.listening.is_some() || self.ports.is_empty() {
            return Ok(self.listening);
        }
        if self.killed.is_none() {
            for exit in &self.exits {
                if exit.has_exited()? {
                    self.killed = Some(Timestamp::now());
                    break;
                }
            }
        }
        let missing = self.watch.missing(netns)?;
        if missing.is_disjoint(&self.named) && missing.is_disjoint(parked) {
            self.listening = Some(Listening { killed: self.killed, at: Timestamp::now() });
        }
        Ok(self.listening)
    }
}

/// Those ports that are known to have clients, as the grant lists them; all where it lists none.
fn named(ports: &BTreeSet<u16>, drain: &DrainSpec) -> BTreeSet<u16> {
    let listed: BTreeSet<u16> = drain.ports.iter().map(|port| port.port).filter(|port| ports.contains(port)).collect();
    if listed.is_empty() { ports.clone() } else { listed }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hitless_api::PortDrain;

    #[test]
    fn a_port_that_nobody_has_named_is_waited_for_only_where_there_is_no_other() {
        let drain = |ports: &[u16]| {
            let ports = ports.iter().map(|port| PortDrain { port: *port, treat: PortTreatment::Http1 }).collect();
            DrainSpec { ports, ..DrainSpec::default() }
        };
        let listened = BTreeSet::from([8080, 9100]);
        assert_eq!(
            named(&listened, &drain(&[8080, 9999])),
            BTreeSet::from([8080]),
            "9100 may be gone in the next version"
        );
        assert_eq!(named(&listened, &drain(&[9999])), listened);
        assert_eq!(named(&listened, &drain(&[])), listened);
    }
}
