//! What is wrong with PodTransitionRules and TransitionBudgets, as Events on them: whoever wrote them looks there.

use std::collections::BTreeMap;
use std::sync::Arc;

use hitless_api::event::{EventNote, Severity};
use hitless_api::{GroupKind, ObjectRef};
use hitless_gate::{Budget, Gate, RuleSet};
use k8s_openapi::api::core::v1::ObjectReference;

use super::Key;

/// The objects with something to mend. What is wrong is looked for when they change.
#[derive(Default)]
pub(super) struct SpecFaults {
    rules: BTreeMap<Key, EventNote>,
    budgets: BTreeMap<Key, EventNote>,
}

impl SpecFaults {
    pub(super) fn set_rule(&mut self, key: &Key, uid: &str, set: &RuleSet) {
        let regarding = reference("apps.kusionstack.io", "PodTransitionRule", key, uid);
        put(&mut self.rules, key, regarding, &set.faults());
    }

    pub(super) fn remove_rule(&mut self, key: &Key) {
        self.rules.remove(key);
    }

    pub(super) fn set_budget(&mut self, key: &Key, budget: &Budget) {
        put(&mut self.budgets, key, of_budget(key, budget), &budget.faults());
    }

    pub(super) fn remove_budget(&mut self, key: &Key) {
        self.budgets.remove(key);
    }

    /// One note for each object. Whether a node has the label that one of these budgets counts by is not the budget's to say.
    pub(super) fn notes(&self, gate: &Gate, budgets: &BTreeMap<Key, Arc<Budget>>) -> Vec<EventNote> {
        let no_node = budgets.iter().filter(|(key, _)| !self.budgets.contains_key(*key)).filter_map(|(key, budget)| {
            let label = &budget.spec.topology.as_ref()?.key;
            let text = || format!("topology.key: no node has the label {label}; nobody passes until one has it");
            gate.is_unknown_node_label(label).then(|| note(of_budget(key, budget), text()))
        });
        self.rules.values().chain(self.budgets.values()).cloned().chain(no_node).collect()
    }
}

fn put(notes: &mut BTreeMap<Key, EventNote>, key: &Key, regarding: ObjectReference, faults: &[String]) {
    if faults.is_empty() {
        notes.remove(key);
    } else {
        notes.insert(key.clone(), note(regarding, faults.join("; ")));
    }
}

fn note(regarding: ObjectReference, text: String) -> EventNote {
    EventNote { regarding, severity: Severity::Warning, reason: "InvalidSpec", action: "Read", text }
}

fn of_budget(key: &Key, budget: &Budget) -> ObjectReference {
    reference("hitless.dev", "TransitionBudget", key, &budget.uid)
}

fn reference(group: &'static str, kind: &'static str, (namespace, name): &Key, uid: &str) -> ObjectReference {
    let group_kind = GroupKind::new(group, kind);
    ObjectRef { group_kind, namespace: namespace.clone(), name: name.clone(), uid: uid.to_owned() }
        .reference("v1alpha1")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::RuleView;
    use hitless_api::{Lenient, PodTransitionRule, TransitionBudget};
    use hitless_gate::Settings;
    use serde_json::{Value, json};

    fn key() -> Key {
        ("shop".to_owned(), "a".to_owned())
    }

    fn budget(spec: &Value) -> Budget {
        let metadata = json!({"name": "a", "namespace": "shop", "uid": "u"});
        let object = json!({"apiVersion": "x/v1", "kind": "TransitionBudget", "metadata": metadata, "spec": spec});
        serde_json::from_value::<Lenient<TransitionBudget>>(object).unwrap().into()
    }

    /// The faults of a single budget.
    fn of(budget: &Budget) -> SpecFaults {
        let mut faults = SpecFaults::default();
        faults.set_budget(&key(), budget);
        faults
    }

    #[test]
    fn a_fault_is_said_on_its_object_until_it_is_mended() {
        let gate = Gate::new(Settings::default());
        let mut faults = of(&budget(&json!({"selector": {}, "soakSeconds": "long"})));
        let notes = faults.notes(&gate, &BTreeMap::new());
        let [note] = &notes[..] else { panic!("{notes:?}") };
        assert_eq!((note.reason, note.regarding.uid.as_deref()), ("InvalidSpec", Some("u")));
        assert_eq!(note.regarding.api_version.as_deref(), Some("hitless.dev/v1alpha1"));
        assert!(note.text.contains("spec.soakSeconds can't be read"), "{}", note.text);
        faults.set_budget(&key(), &budget(&json!({"selector": {}, "soakSeconds": 3})));
        assert!(faults.notes(&gate, &BTreeMap::new()).is_empty());
    }

    #[test]
    fn who_governs_nobody_and_who_governs_all_by_mistake_is_told_so() {
        let gate = Gate::new(Settings::default());
        for (spec, words) in [
            (json!({}), "spec.selector is absent"),
            (
                json!({"selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}),
                "spec.selector: the requirement on label \"a\" has operator \"Near\"; use In, NotIn, Exists or DoesNotExist; no pod \
                 that it might mean passes until then",
            ),
        ] {
            let notes = of(&budget(&spec)).notes(&gate, &BTreeMap::new());
            assert!(notes.len() == 1 && notes[0].text.starts_with(words), "{notes:?}");
            let object =
                json!({"apiVersion": "x/v1", "kind": "PodTransitionRule", "metadata": {"name": "a"}, "spec": spec});
            let rule = serde_json::from_value::<Lenient<PodTransitionRule>>(object).unwrap();
            let mut faults = SpecFaults::default();
            faults.set_rule(&key(), "u", &RuleSet::from(&RuleView::from(rule)));
            let notes = faults.notes(&gate, &BTreeMap::new());
            assert!(notes.len() == 1 && notes[0].text.starts_with(words), "{notes:?}");
        }
    }

    #[test]
    fn a_label_that_no_node_has_is_said_as_long_as_none_has_it() {
        let by_zone = budget(&json!({"selector": {}, "topology": {"key": "zonee"}}));
        let (faults, mut gate) = (of(&by_zone), Gate::new(Settings::default()));
        let budgets = BTreeMap::from([(key(), Arc::new(by_zone))]);
        let texts = |gate: &Gate, budgets: &BTreeMap<Key, Arc<Budget>>| -> Vec<String> {
            faults.notes(gate, budgets).into_iter().map(|note| note.text).collect()
        };
        assert!(texts(&gate, &budgets).is_empty(), "no node is known yet");
        gate.set_node("n1", [("zone", "a")]);
        assert_eq!(
            texts(&gate, &budgets),
            ["topology.key: no node has the label zonee; nobody passes until one has it"]
        );
        gate.set_node("n2", [("zonee", "b")]);
        assert!(texts(&gate, &budgets).is_empty());
        gate.remove_node("n2");
        assert!(texts(&gate, &BTreeMap::new()).is_empty(), "the budget is gone");
    }
}
