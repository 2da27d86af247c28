//! A version that goes natively although it had begun in place.

use std::collections::BTreeSet;

use hitless_api::event::Severity;
use hitless_api::pod::PodView;

use super::Subject;
use crate::because::Because;
use crate::intent::{DesiredOperation, PodIntent};
use crate::opt_in::OptIn;
use crate::plan::{Plan, Stage};
use crate::removal::{MayGo, Removal, serves};
use crate::world::World;
use crate::write::Write;

/// The kubelet's reason of a container that has ended again and again.
const CRASHES: &str = "CrashLoopBackOff";

impl Subject<'_> {
    /// Its native controller rolls it. A StatefulSet's waits for every pod that is not Ready, for ever for one that does not start in the
    /// same pod again: those are made anew first, one at a time, as the rules allow.
    pub(super) fn let_go(&self, because: Because, world: &World<'_>) -> Plan {
        let dead: Vec<&PodView> = self.in_order.iter().copied().filter(|pod| self.is_dead(pod)).collect();
        if dead.is_empty() || self.object.opt_in() != OptIn::InPlace {
            return self.step_aside(because);
        }
        let removal = Some(Removal::Anew { room: 1 });
        let wanted =
            |pod: &&PodView| DesiredOperation { removal, ..DesiredOperation::new(pod, Ok(PodIntent::drain(pod))) };
        let idle = dead.iter().filter(|pod| !serves(pod, world));
        let behind: BTreeSet<String> = dead.iter().map(|pod| pod.id.uid.clone()).collect();
        let writes = dead.iter().filter_map(|pod| Some(self.made_anew(MayGo::reserved(pod, world)?))).collect();
        let (desired, total) = (idle.map(wanted).collect(), self.in_order.len());
        Plan { writes, desired, behind, total, ..self.idle(Stage::SteppingAside(because), None) }
    }

    /// Between two crashes its container runs for a moment. At the target only one that was operated is: its owner went back while the way
    /// back was failing. A new pod would find the same there if it were made anew again.
    fn is_dead(&self, pod: &PodView) -> bool {
        let mut states = pod.containers.iter().filter_map(|container| container.status.as_ref());
        let crashes = states.any(|state| state.last_ended.is_some() || state.waiting.as_deref() == Some(CRASHES));
        self.at_a_time.is_some() && crashes && !pod.ready() && (pod.is_operated() || !self.is_at_target(pod))
    }

    fn made_anew(&self, may_go: MayGo<'_>) -> Write {
        let text = format!("deletes pod {}, which does not start again, so that it is made anew", may_go.pod().id.name);
        Write::delete_pod("delete-pod", may_go).telling(Some(self.note(Severity::Normal, "PodMadeAnew", text)))
    }
}
