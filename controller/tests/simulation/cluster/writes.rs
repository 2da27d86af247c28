//! What the API server makes of writes: objects that are kept as JSON as any, of the others a view.

use std::collections::BTreeMap;
use std::sync::Arc;

use hitless_api::Version;
use hitless_rollout::round::write::ledger_of;
use hitless_rollout::snapshot::{BindingView, LedgerView, NodeTransitionView};
use hitless_workloads::Write;
use hitless_world::{Refused, carry_out, review};
use serde_json::{Value, json};

use super::Cluster;

impl Cluster {
    pub(super) fn serve(&mut self, write: &Write, version: String) -> Result<(), Refused> {
        let at = |uid: String| Version { uid, resource_version: version.clone() };
        let name = &write.on.name;
        match &*write.on.group_kind.kind {
            "TransitionLedger" => {
                let known = ledger_of(write).and_then(|namespace| self.ledgers.get(namespace));
                review(write, known.map(|known| &known.version))?;
                let ledger = LedgerView::after(write, known).ok_or(Refused::Conflict)?;
                let ledger = LedgerView { version: at("uid-ledger".to_owned()), ..ledger };
                self.ledgers.insert(ledger.namespace.clone(), ledger);
            }
            "NodeTransition" => {
                let known = self.transitions.get(name);
                review(write, known.map(|known| &known.version))?;
                let node = NodeTransitionView::after(write, known).ok_or(Refused::Conflict)?;
                self.transitions
                    .insert(name.clone(), NodeTransitionView { version: at(format!("uid-t-{name}")), ..node });
            }
            "RoleBinding" => {
                let namespace = write.on.namespace.clone();
                let ledger = self.ledgers.get(&namespace).ok_or(Refused::NotFound)?;
                let ledger_uid = Some(ledger.version.uid.clone());
                let view = BindingView { namespace: namespace.clone(), ledger_uid, binds: true };
                self.bindings.insert(namespace, Arc::new(view));
            }
            "PodTransitionRule" => {
                let mut rules = self.rules.iter_mut();
                let rule = rules.find(|rule| rule.name == *name).ok_or(Refused::NotFound)?;
                review(write, Some(&rule.version))?;
                rule.status = write.content("/status");
                rule.version.resource_version = version;
            }
            "TrafficProvider" => return Err(Refused::NotFound),
            "Service" => self.stored(write, name, &version, |all| &mut all.services)?,
            "Pod" => self.pod(write, &version)?,
            "ReplicaSet" => self.stored(write, name, &version, |all| &mut all.sets)?,
            _ => {
                let known = carry_out(write, Some(&self.deployment), &version, &self.now.to_string())?;
                self.deployment = known.unwrap_or_default();
            }
        }
        Ok(())
    }

    /// Pods of ours are known by their names, those of the workload by their uids.
    fn pod(&mut self, write: &Write, version: &str) -> Result<(), Refused> {
        let (name, uid) = (&write.on.name, &write.on.uid);
        if write.verb == "prefetch" {
            return self.stored(write, name, version, |all| &mut all.prefetches);
        }
        if write.verb == "companion" || self.companions.contains_key(name) {
            self.stored(write, name, version, |all| &mut all.companions)?;
            if let Some(made) = self.companions.get_mut(name).filter(|pod| pod["status"].is_null()) {
                made["status"] = json!({"conditions": []});
            }
            return Ok(());
        }
        self.stored(write, uid, version, |all| &mut all.pods)
    }

    fn stored(
        &mut self,
        write: &Write,
        key: &str,
        version: &str,
        all: impl Fn(&mut Self) -> &mut BTreeMap<String, Value>,
    ) -> Result<(), Refused> {
        let now = self.now.to_string();
        let all = all(self);
        match carry_out(write, all.get(key), version, &now)? {
            Some(object) => _ = all.insert(key.to_owned(), object),
            None => _ = all.remove(key),
        }
        Ok(())
    }
}
