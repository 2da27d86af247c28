//! What does not reach its target has a named obstacle and an exit: somebody acts unasked, or something that is written has to be changed.
//! In the end all of these exits are taken, and everything has to reach its target.

use hitless_api::ObjectRef;
use hitless_rollout::round::{Explanation, Lasting, NotFetched, PodReport, WaitReason};
use hitless_rollout::snapshot::RuleView;

use super::World;
use crate::trace::Who;

impl World {
    /// Whether a workload that does not go on says whose turn it is.
    pub(super) fn exit(&self, explained: &Explanation, workload: &ObjectRef) -> Result<(), String> {
        let is_own = |report: &&PodReport| {
            report.verdict.as_ref().is_some_and(|verdict| verdict.owner.as_ref() == Some(workload))
        };
        let waiting: Vec<&PodReport> = explained.pods.values().filter(is_own).collect();
        let text = |report: &PodReport| {
            let verdict = report.verdict.as_ref();
            verdict.map(|verdict| (verdict.pod.name.clone(), verdict.text().unwrap_or_default())).unwrap_or_default()
        };
        for report in &waiting {
            let (pod, text) = text(report);
            match report.lasting {
                Some(Lasting::BySomebody | Lasting::ByChange) => {}
                Some(Lasting::ByItself) if explained.round.wake_at.is_some() => {}
                Some(Lasting::ByItself) | None => {
                    return Err(format!("pod {pod} waits for what ends by itself, and nothing is going on ({text})"));
                }
            }
            let waiting = report.verdict.as_ref().and_then(|verdict| verdict.waiting.as_ref());
            if let Some(WaitReason::ImageNotFetched { why: NotFetched::Refused(words), .. }) = waiting
                && words.contains("quota")
            {
                return Err(format!("pod {pod} waits for a helper pod that a quota refuses ({text})"));
            }
            if text.is_empty() {
                return Err(format!("pod {pod} waits, and nothing says what for"));
            }
        }
        Ok(())
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
        self.user.wishes.iter_mut().for_each(|wish| wish.hopeless = false);
        self.accept_helpers();
        self.mend_nodes();
        self.flush();
    }
}
