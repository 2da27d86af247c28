//! What the API server's answers mean for the next decision.

use hitless_agent::decision::Action;
use hitless_agent::view::Missing;
use hitless_api::{Grant, NodeTransitionStatus, PodRef};

use super::{Agent, LONGEST_SLEEP, RETRY, Sent};
use crate::clock::{MS, Micros, passed};
use crate::ground::{Ground, ReplyTo, text};
use crate::server::{Answer, Object, Refusal, Request};
use crate::trace::Who;
use crate::watch::Key;

impl Agent {
    /// The API server's answer.
    pub(crate) fn answer(&mut self, ground: &mut Ground, to: ReplyTo, answer: Answer) {
        if to.life != self.life || self.down_until.is_some() {
            return;
        }
        let Some(doing) = &mut self.doing else { return };
        let Some(sent) = doing.sent.take() else { return };
        let transition = doing.transition.clone();
        if let Answer::Refused(why) = &answer {
            let why = *why;
            ground.say(Who::Agent(self.index), || format!("  {why:?}"));
        }
        match sent {
            Sent::Act(index, action) => {
                let grant = transition.as_deref().and_then(|each| each.spec.grants.get(index));
                if let Some(grant) = grant {
                    self.acted(grant, &action, &answer, ground);
                    if self.learn(&grant.pod, answer, ground) {
                        return;
                    }
                }
            }
            Sent::Raise(pod) => {
                if self.learn(&pod, answer, ground) {
                    return;
                }
            }
            Sent::Refresh => {
                if matches!(answer, Answer::Refused(_)) {
                    doing.wake = doing.wake.min(ground.now + LONGEST_SLEEP);
                }
                self.put(answer);
            }
            Sent::Look(index, asked) => {
                let grant = transition.as_deref().and_then(|each| each.spec.grants.get(index));
                if let Some(grant) = grant {
                    self.looked(grant, asked, answer, ground);
                }
            }
            Sent::Report(status) => return self.reported(&status, answer, ground),
            Sent::ReadTransition => {
                let pause = if matches!(answer, Answer::Stored(_)) { 20 * MS } else { RETRY };
                self.put(answer);
                self.report_after = ground.now + pause;
                return self.end_turn(ground.now);
            }
        }
        self.go_on(ground);
    }

    fn acted(&mut self, grant: &Grant, action: &Action, answer: &Answer, ground: &Ground) {
        let now = ground.wall(self.skew);
        let Some(memory) = self.memories.get_mut(&grant.id) else { return };
        match answer {
            Answer::Stored(_) => memory.done(action, now),
            Answer::Refused(Refusal::Denied(words)) => {
                memory.not_done(action);
                memory.refused(action, "AdmissionDenied", words, now);
            }
            Answer::Absent | Answer::Refused(Refusal::Conflict | Refusal::Gone) => {
                memory.not_done(action);
                if matches!(action, Action::Patch(_)) {
                    memory.refused(action, "PatchConflict", "changed", now);
                }
            }
            Answer::Refused(Refusal::Transient) => {}
        }
    }

    /// What an answer to a write of a pod means for the next one; true if the pod is read again first.
    fn learn(&mut self, pod: &PodRef, answer: Answer, ground: &mut Ground) -> bool {
        match answer {
            Answer::Stored(_) => {
                self.pauses.succeeded(&pod.uid);
                self.put(answer);
            }
            Answer::Absent => return self.refused(pod, Refusal::Gone, ground),
            Answer::Refused(why) => return self.refused(pod, why, ground),
        }
        false
    }

    fn refused(&mut self, pod: &PodRef, why: Refusal, ground: &mut Ground) -> bool {
        let error = why.error();
        self.pauses.failed(&pod.uid, &error, passed(ground.now));
        error.is_stale() && {
            ground.send(Request::Read(pod.clone()), self.reply());
            self.sending(Sent::Refresh)
        }
    }

    /// A pod was asked for that is not in the cache; or one that is, to see how quickly the API server answers.
    fn looked(&mut self, grant: &Grant, asked: Micros, answer: Answer, ground: &mut Ground) {
        let uid = grant.pod.uid.as_str();
        let is_known = self.by_uid.contains_key(uid);
        let now = ground.wall(self.skew);
        if !matches!(answer, Answer::Refused(_))
            && let Some(memory) = self.memories.get_mut(&grant.id)
        {
            memory.answered(u32::try_from((ground.now - asked) / MS).unwrap_or(u32::MAX), now);
        }
        let missing = match &answer {
            Answer::Refused(_) => return self.pauses.unread(uid, passed(ground.now)),
            Answer::Stored(_) if is_known => {
                self.put(answer);
                None
            }
            // Its deletion will be seen.
            Answer::Absent if is_known => None,
            Answer::Absent => Some(Missing::Gone),
            Answer::Stored(Some(Object::Pod(pod))) if pod.view.node.as_deref() != Some(self.node.name.as_str()) => {
                Some(Missing::OtherNode)
            }
            Answer::Stored(_) => {
                self.put(answer);
                return self.pauses.read_anew(uid, passed(ground.now));
            }
        };
        self.pauses.succeeded(uid);
        if let (Some(missing), Some(memory)) = (missing, self.memories.get_mut(&grant.id)) {
            memory.missing = Some(missing);
        }
        if let Some(doing) = &mut self.doing {
            doing.wake = ground.now;
        }
    }

    fn reported(&mut self, status: &NodeTransitionStatus, answer: Answer, ground: &mut Ground) {
        match &answer {
            Answer::Stored(_) => {
                let now = self.doing.as_ref().map_or_else(|| ground.wall(self.skew), |doing| doing.now);
                self.pace.wrote(now);
                self.report_after = 0;
                for entry in &status.transitions {
                    if let Some(memory) = self.memories.get_mut(&entry.id) {
                        memory.reported(entry);
                    }
                }
                self.put(answer);
                // The report may have been waited for.
                if let Some(doing) = &mut self.doing {
                    doing.wake = doing.wake.min(ground.now);
                }
            }
            Answer::Absent | Answer::Refused(Refusal::Conflict | Refusal::Gone) => {
                ground.send(Request::ReadTransition(self.node.name.as_str().into()), self.reply());
                self.sending(Sent::ReadTransition);
                return;
            }
            Answer::Refused(_) => self.report_after = ground.now + RETRY,
        }
        ground.say(self.who(), || format!("  report: {}", text(&Answer::Stored(None))));
        self.end_turn(ground.now);
    }

    fn put(&mut self, answer: Answer) {
        let number = |version: &str| version.parse().unwrap_or_default();
        match answer {
            Answer::Stored(Some(Object::Pod(pod))) => {
                let key: Key = pod.view.id.uid.as_str().into();
                self.pods.put(&key, number(&pod.view.resource_version), pod);
            }
            Answer::Stored(Some(Object::NodeTransition(each))) => {
                let key: Key = each.view.node.as_str().into();
                self.transitions.put(&key, number(&each.view.version.resource_version), each);
            }
            _ => {}
        }
    }
}
