//! A controller's writes, each carried out only on the version that it was decided on.

use std::sync::Arc;

use hitless_api::names::IN_SERVICE;
use hitless_api::pod::ConditionView;
use hitless_api::{NodeTransition, TransitionLedgerSpec};
use hitless_rollout::round::{LedgerWrite, NodeTransitionWrite, Write};
use hitless_rollout::snapshot::{BindingView, LedgerView, NodeTransitionView, Version};

use super::{Object, Refusal, Server, fits, key};
use crate::checks::{Checks, Seen};
use crate::watch::Key;

impl Server {
    pub(super) fn lead(
        &mut self,
        write: Write,
        seen: Option<&Seen>,
        checks: &mut Checks,
    ) -> Result<Option<Object>, Refusal> {
        match write {
            Write::Ledger(write) => self.ledger(write, seen, checks),
            Write::NodeTransition(write) => self.transition(write, checks),
            Write::RoleBinding(write) => {
                let ledger = self.ledgers.get(write.namespace.as_str()).ok_or(Refusal::Gone)?;
                // The garbage collector removes at once what is owned by a ledger that is not there.
                if write.ledger_uid.is_some_and(|uid| uid != ledger.version.uid) {
                    return Err(Refusal::Gone);
                }
                if self.bindings.contains_key(&write.namespace) {
                    // The controller reads it then, and finds that it is good.
                    return Ok(None);
                }
                let ledger_uid = Some(ledger.version.uid.clone());
                self.admission.bind(&write.namespace);
                let view = BindingView { namespace: write.namespace.clone(), ledger_uid, binds: true };
                self.bindings.insert(write.namespace, Arc::new(view));
                Ok(None)
            }
            Write::Workload(write) if write.on.group_kind.is("", "Pod") => self.own_pod(&write, checks),
            Write::Workload(write) => self.workload(&write, checks),
            Write::Service(write) => self.service(&write, checks),
            Write::Prefetch(write) => self.prefetch(write),
            Write::Companion(write) => self.companion(write, checks),
            Write::InServiceFallback(write) => {
                let pod = self.pods.get(write.pod.uid.as_str()).ok_or(Refusal::Gone)?;
                if pod.view.resource_version != write.resource_version {
                    return Err(Refusal::Conflict);
                }
                let mut pod = hitless_agent::view::NodePod::clone(&pod.node_pod);
                let since = Some(hitless_agent::instant::whole_seconds(self.stamp()));
                let condition = ConditionView::new(true, write.because.reason(), "", since);
                pod.view.conditions.insert(IN_SERVICE, condition);
                Ok(Some(Object::Pod(self.put_pod(checks, pod))))
            }
            Write::ProviderStatus(write) => {
                let version = Version { resource_version: self.bump().to_string(), ..write.version.clone() };
                let balancer = self.balancer.as_mut().ok_or(Refusal::Gone)?;
                balancer.report(write, version).map(|()| None)
            }
            Write::RuleStatus(write) => {
                let known = self.rules.get(&key(&write.namespace, &write.name)).ok_or(Refusal::Gone)?;
                if !fits(&known.version, &write.version) {
                    return Err(Refusal::Conflict);
                }
                let rule = hitless_rollout::snapshot::RuleView { status: Some(write.status), ..(**known).clone() };
                Ok(Some(self.put_rule(rule)))
            }
        }
    }

    /// Somebody deletes the RoleBinding by which agents may operate in the namespace.
    pub(crate) fn remove_binding(&mut self, namespace: &str) {
        if self.bindings.remove(namespace).is_some() {
            self.admission.unbind(namespace);
        }
    }

    fn ledger(
        &mut self,
        write: LedgerWrite,
        seen: Option<&Seen>,
        checks: &mut Checks,
    ) -> Result<Option<Object>, Refusal> {
        let key: Key = write.namespace.as_str().into();
        let empty = TransitionLedgerSpec::default();
        let known = self.ledgers.get(&key).cloned();
        let uid = match (&known, &write.version) {
            (None, None) => format!("uid-ledger-{}", write.namespace),
            (Some(known), Some(wanted)) if fits(&known.version, wanted) => known.version.uid.clone(),
            (None, Some(_)) => return Err(Refusal::Gone),
            (Some(_), _) => return Err(Refusal::Conflict),
        };
        let before = known.as_ref().map_or(&empty, |known| &known.spec);
        checks.ledger(self, &write.namespace, before, &write.spec, seen);
        let version = Version { uid, resource_version: self.bump().to_string() };
        let ledger = LedgerView { namespace: write.namespace, version, spec: write.spec };
        Ok(Some(self.put_ledger(key, ledger)))
    }

    fn transition(&mut self, write: NodeTransitionWrite, checks: &mut Checks) -> Result<Option<Object>, Refusal> {
        let key: Key = write.node.as_str().into();
        let known = self.transitions.get(&key).cloned();
        let uid = match (&known, &write.version) {
            // The garbage collector removes at once what is owned by a Node that is not there.
            (None, None) if self.nodes.get(&key).is_none_or(|node| node.uid != write.spec.node_uid) => {
                return Err(Refusal::Gone);
            }
            (None, None) => format!("uid-transition-{}-{}", write.node, write.spec.node_uid),
            (Some(known), Some(wanted)) if fits(&known.view.version, wanted) => known.view.version.uid.clone(),
            (None, Some(_)) => return Err(Refusal::Gone),
            (Some(_), _) => return Err(Refusal::Conflict),
        };
        checks.grants(self, &write.node, write.spec.epoch, &write.spec.grants);
        let version = self.bump();
        let status = known.as_ref().and_then(|known| known.object.status.clone());
        let view = NodeTransitionView {
            node: write.node,
            version: Version { uid: uid.clone(), resource_version: version.to_string() },
            fence: write.fence.or_else(|| known.as_ref().and_then(|known| known.view.fence.clone())),
            spec: write.spec,
            agent: status.as_ref().and_then(|status| status.agent.clone()),
            transitions: status.as_ref().map(|status| status.transitions.clone()).unwrap_or_default(),
        };
        let mut object = NodeTransition::new(&view.node, view.spec.clone());
        object.metadata.uid = Some(uid);
        object.metadata.resource_version = Some(version.to_string());
        object.status = status;
        Ok(Some(self.put_transition(key, object, view, version)))
    }
}
