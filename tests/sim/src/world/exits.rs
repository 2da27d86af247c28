//! What does not reach its target has a named obstacle and an exit: somebody acts unasked, or something that is written has to be changed.
//! In the end all of these exits are taken, and everything has to reach its target.

use hitless_api::ObjectRef;
use hitless_rollout::round::{Explanation, Lasting, NotFetched, PodReport, WaitReason};
use hitless_rollout::snapshot::RuleView;

use super::World;
use crate::trace::Who;

impl World {
    /// Whether a workload that does not go on says whose turn it is.
    pub(super) fn exit(explained: &Explanation, workload: &ObjectRef) -> Result<(), String> {
        let is_own = |report: &&PodReport| {
            report.verdict.as_ref().is_some_and(|verdict| verdict.owner.as_ref() == Some(workload))
        };
        let waiting: Vec<&PodReport> = explained.pods.values().filter(is_own).collect();
        let text = |report: &PodReport| {
            let verdict = report.verdict.as_ref();
            verdict.map(|verdict| (verdict.pod.name.clone(), verdict.text().unwrap_or_default())).unwrap_or_default()
        };
        let mut exits = waiting.is_empty() || explained.round.wake_at.is_some();
        let mut first = None;
        for report in waiting {
            let (pod, text) = text(report);
            let reason = report.verdict.as_ref().and_then(|verdict| verdict.waiting.as_ref());
            if let Some(WaitReason::ImageNotFetched { why: NotFetched::Refused(words), .. }) = reason
                && words.contains("quota")
            {
                return Err(format!("pod {pod} waits for a helper pod that a quota refuses ({text})"));
            }
            exits |= match report.lasting {
                Some(Lasting::BySomebody | Lasting::ByChange) => true,
                Some(Lasting::ByItself) | None => reason.is_some_and(|reason| reason.unblock().is_some()),
            };
            first.get_or_insert_with(|| format!("pod {pod}: {text}"));
        }
        if exits {
            return Ok(());
        }
        let first = first.unwrap_or_default();
        Err(format!("what it waits for ends by itself, but nothing is going on ({first})"))
    }

    /// The leader's last decision, with its reasons.
    pub(super) fn explained(&self) -> Option<Explanation> {
        let now = self.ground.now;
        self.controllers.iter().find(|each| each.leads(now)).map(|leader| leader.explain(&self.ground))
    }

    /// Takes all exits: rules that let nobody go are changed, nodes mended, helper pods accepted.
    pub(super) fn take_exits(&mut self) {
        self.ground.say(Who::User, || "takes all exits".to_owned());
        let rules: Vec<RuleView> = self.ground.server.rules.values().map(|rule| RuleView::clone(rule)).collect();
        for mut rule in rules {
            rule.spec.rules.clear();
            self.ground.server.put_rule(rule);
        }
        self.user.desired.iter_mut().for_each(|wanted| wanted.hopeless = false);
        self.accept_helpers();
        self.mend_nodes();
        // What was refused is tried again at its own pace, and rest is what comes after that.
        self.ground.server.changed_at = self.ground.now;
        self.flush();
    }
}
