//! Ending connections: kindly between two requests, by a reset where that has not helped.

use std::path::Path;
use std::time::Instant;

use hitless_kernel::{ClosedReport, Connection, KernelError, NodeSockets, PodNetns, close_unused_if};

use super::tally::Ends;
use super::{Observed, Stage};
use crate::drain::ambiguous::ambiguous_unused;
use crate::drain::asked::Asked;
use crate::drain::stragglers;

impl Observed {
    /// Once: what is opened then, or can't be closed, is ended by the restart.
    pub(super) fn close_siblings(&mut self, netns: &PodNetns, now: Instant) {
        let siblings = std::mem::take(&mut self.ends.siblings);
        if !siblings.is_empty()
            && let Err(error) = self.close(netns, &siblings, now)
        {
            tracing::debug!(pod_uid = self.uid, %error, "can't close the connections of other containers");
        }
    }

    /// Asks those to end that are between two requests.
    pub(super) fn ask(
        &mut self,
        netns: &PodNetns,
        connections: &[Connection],
        now: Instant,
    ) -> Result<ClosedReport, KernelError> {
        let mut asked = std::mem::take(&mut self.answers.asked);
        let report = asked.ask(connections, |some| self.close(netns, some, now));
        self.answers.asked = asked;
        report
    }

    fn close(
        &mut self,
        netns: &PodNetns,
        connections: &[Connection],
        now: Instant,
    ) -> Result<ClosedReport, KernelError> {
        let is_over = |connection: &Connection| self.answers.is_over(connection, now);
        let report = close_unused_if(netns, connections, ambiguous_unused(self.longest_busy), is_over)?;
        self.count.closed = self.count.closed.saturating_add(u32::try_from(report.closed).unwrap_or(u32::MAX));
        Ok(report)
    }

    /// After connections have been ended. Those of a crowd that did end are worth another list soon.
    pub(super) fn list_after(
        &mut self,
        any_ended: bool,
        proc_root: &Path,
        netns: &PodNetns,
        node: &mut Option<NodeSockets>,
        now: Instant,
    ) -> Result<(), KernelError> {
        if any_ended {
            self.watch.hurry();
        }
        self.list(proc_root, netns, node, now)
    }

    /// Resets who was asked to end and has not; says whether there was anybody.
    pub(super) fn reset_overdue(&mut self, netns: &PodNetns) -> Result<bool, KernelError> {
        let overdue = std::mem::take(&mut self.ends.overdue);
        let reset = stragglers::destroy(netns, &self.uid, &overdue)?;
        // It was not an end of file that ended them.
        self.count.closed = self.count.closed.saturating_sub(reset);
        self.count.destroyed = self.count.destroyed.saturating_add(reset);
        Ok(reset > 0)
    }

    /// Nobody will look any more, or the server is about to be stopped, which may take long: who was asked to end has no more time.
    pub(super) fn end_asked(
        &mut self,
        proc_root: &Path,
        netns: &PodNetns,
        node: &mut Option<NodeSockets>,
        now: Instant,
    ) -> Result<(), KernelError> {
        if self.answers.asked.is_empty() {
            return Ok(());
        }
        // What was counted when the pod was drained stands.
        let counted = self.count;
        self.watch.forget();
        let listed = self.list(proc_root, netns, node, now);
        self.count = counted;
        listed?;
        self.reset_overdue(netns)?;
        (self.ends, self.answers.asked) = (Ends::default(), Asked::default());
        Ok(())
    }

    /// Nobody looks at the pod any more. It may go on serving: nobody is left there who will never be answered.
    pub(in crate::drain) fn end(mut self, proc_root: &Path, node: &mut Option<NodeSockets>, now: Instant) {
        self.target.stage = Stage::Replacing;
        if let Some(netns) = self.netns.take()
            && let Err(error) = self.end_asked(proc_root, &netns, node, now)
        {
            tracing::debug!(pod_uid = self.uid, %error, "can't reset connections that were asked to end");
        }
    }
}
