//! A controller's writes, each carried out only on the version that it was decided on.

use std::sync::Arc;

use hitless_api::pod_transition_rule::PodTransitionRuleStatus;
use hitless_api::{NodeTransition, TransitionLedgerSpec};
use hitless_rollout::round::write::ledger_of;
use hitless_rollout::snapshot::{BindingView, LedgerView, NodeTransitionView, RuleView, Version};
use hitless_workloads::Write;
use hitless_world::review;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{Object, Refusal, Server, key};
use crate::checks::{Checks, Seen};
use crate::watch::Key;

impl Server {
    pub(super) fn lead(
        &mut self,
        write: &Write,
        seen: Option<&Seen>,
        decided: Timestamp,
        checks: &mut Checks,
    ) -> Result<Option<Object>, Refusal> {
        let at = key(&write.on.namespace, &write.on.name);
        match &*write.on.group_kind.kind {
            "TransitionLedger" => self.ledger(write, seen, checks),
            "NodeTransition" => self.transition(write, checks),
            "RoleBinding" => self.binding(write),
            "Service" => self.service(&at, write, checks),
            "PodTransitionRule" => {
                let known = self.rules.get(&at).ok_or(Refusal::Gone)?;
                review(write, Some(&known.version))?;
                // Written are whole seconds. Seeds mean what they do with all of it.
                let update_time = Some(Time(decided));
                let status = write.content("/status").map(|status| PodTransitionRuleStatus { update_time, ..status });
                let rule = RuleView { status, ..(**known).clone() };
                Ok(Some(self.put_rule(rule)))
            }
            "TrafficProvider" => {
                let version = self.bump().to_string();
                self.balancer.as_mut().ok_or(Refusal::Gone)?.report(write, version).map(|()| None)
            }
            "Pod" if write.verb == "prefetch" => self.prefetch(&at, write),
            "Pod" => self.own_pod(write, checks),
            _ => self.workload(write, checks),
        }
    }

    fn binding(&mut self, write: &Write) -> Result<Option<Object>, Refusal> {
        let namespace = &write.on.namespace;
        let ledger = self.ledgers.get(namespace.as_str()).ok_or(Refusal::Gone)?;
        let ledger_uid = ledger.version.uid.clone();
        let owner: String = write.content("/metadata/ownerReferences/0/uid").unwrap_or_default();
        // The garbage collector removes at once what is owned by a ledger that is not there.
        if !owner.is_empty() && owner != ledger_uid {
            return Err(Refusal::Gone);
        }
        // One that is there is read by the controller then, and found to be good.
        if !self.bindings.contains_key(namespace) {
            self.admission.bind(namespace);
            let view = BindingView { namespace: namespace.clone(), ledger_uid: Some(ledger_uid), binds: true };
            self.bindings.insert(namespace.clone(), Arc::new(view));
        }
        Ok(None)
    }

    /// Somebody deletes the RoleBinding by which agents may operate in the namespace.
    pub(crate) fn remove_binding(&mut self, namespace: &str) {
        if self.bindings.remove(namespace).is_some() {
            self.admission.unbind(namespace);
        }
    }

    fn ledger(&mut self, write: &Write, seen: Option<&Seen>, checks: &mut Checks) -> Result<Option<Object>, Refusal> {
        let key: Key = ledger_of(write).ok_or(Refusal::Denied("not a ledger"))?.into();
        let known = self.ledgers.get(&key).cloned();
        review(write, known.as_ref().map(|known| &known.version))?;
        let ledger = LedgerView::after(write, known.as_deref()).ok_or(Refusal::Denied("not a ledger"))?;
        let empty = TransitionLedgerSpec::default();
        let before = known.as_ref().map_or(&empty, |known| &known.spec);
        checks.ledger(self, &ledger.namespace, before, &ledger.spec, seen);
        let uid = known.as_ref().map_or_else(|| format!("uid-ledger-{key}"), |known| known.version.uid.clone());
        let version = Version { uid, resource_version: self.bump().to_string() };
        Ok(Some(self.put_ledger(key, LedgerView { version, ..ledger })))
    }

    fn transition(&mut self, write: &Write, checks: &mut Checks) -> Result<Option<Object>, Refusal> {
        let key: Key = write.on.name.as_str().into();
        let known = self.transitions.get(&key).cloned();
        review(write, known.as_ref().map(|known| &known.view.version))?;
        let next = NodeTransitionView::after(write, known.as_ref().map(|known| &*known.view));
        let next = next.ok_or(Refusal::Denied("not a NodeTransition"))?;
        let node_uid = &next.spec.node_uid;
        // The garbage collector removes at once what is owned by a Node that is not there.
        if known.is_none() && self.nodes.get(&key).is_none_or(|node| node.uid != *node_uid) {
            return Err(Refusal::Gone);
        }
        let made = || format!("uid-transition-{key}-{node_uid}");
        let uid = known.as_ref().map_or_else(made, |known| known.view.version.uid.clone());
        checks.grants(self, &next.node, next.spec.epoch, &next.spec.grants);
        let version = self.bump();
        let mut object = NodeTransition::new(&next.node, next.spec.clone());
        object.metadata.uid = Some(uid.clone());
        object.metadata.resource_version = Some(version.to_string());
        object.status = known.as_ref().and_then(|known| known.object.status.clone());
        let view = NodeTransitionView { version: Version { uid, resource_version: version.to_string() }, ..next };
        Ok(Some(self.put_transition(key, object, view, version)))
    }
}
