//! Which DrainPolicies concern a pod, and what follows from them.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use hitless_api::drain_policy::DEFAULT;
use hitless_api::names::{annotations, system_namespace};
use hitless_api::pod::PodView;
use hitless_api::shared::Shared;
use hitless_api::{
    DesiredMode, DrainOverrides, DrainPolicy, DrainPolicySpec, DrainSpec, Hook, HookLayer, InvalidDrain, Lenient,
    PortTreatment, VerifySpec, crowd,
};
use hitless_gate::selector::{self, Fault, Selector};

/// A DrainPolicy.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyView {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// What it says.
    pub spec: DrainPolicySpec,
    /// Why the spec can't be read, but for whom it selects.
    pub unreadable: Option<String>,
}

impl PolicyView {
    /// The one that concerns all pods of the cluster.
    #[must_use]
    pub fn is_default(&self) -> bool {
        self.namespace == system_namespace() && self.name == DEFAULT
    }

    fn path(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

impl From<DrainPolicy> for PolicyView {
    fn from(object: DrainPolicy) -> Self {
        Lenient { object, unreadable: None }.into()
    }
}

impl From<Lenient<DrainPolicy>> for PolicyView {
    fn from(Lenient { object, unreadable }: Lenient<DrainPolicy>) -> Self {
        Self {
            namespace: object.metadata.namespace.unwrap_or_default(),
            name: object.metadata.name.unwrap_or_default(),
            uid: object.metadata.uid.unwrap_or_default(),
            spec: object.spec,
            unreadable,
        }
    }
}

/// A policy in its place.
struct ScopedPolicy<'a> {
    origin: String,
    policy: &'a PolicyView,
    /// Whom it selects, or what is wrong with that; `None`: nobody.
    selector: Option<Result<Selector<'a>, Fault>>,
    /// It stands for all policies of its namespace, because there are too many.
    crowd: Option<String>,
}

impl ScopedPolicy<'_> {
    /// Why it can't be obeyed.
    fn not_usable(&self) -> Option<InvalidDrain> {
        let fault = || self.fault().map(Fault::to_string).or_else(|| self.policy.unreadable.clone());
        let why = self.crowd.clone().or_else(fault)?;
        Some(InvalidDrain::Policy { policy: self.policy.path(), why })
    }

    fn fault(&self) -> Option<&Fault> {
        self.selector.as_ref()?.as_ref().err()
    }

    /// Whether it may be wrong for a pod that says nothing itself: a hook may not suit it.
    fn may_not_suit(&self) -> bool {
        let has_hooks = self.policy.spec.hooks.as_ref().is_some_and(|hooks| !hooks.is_empty());
        has_hooks || self.is_for_all() || self.policy.unreadable.is_some()
    }

    /// One that can't be understood may select any pod.
    fn is_for_all(&self) -> bool {
        self.fault().is_some() || self.crowd.is_some()
    }

    fn selects(&self, pod: &PodView) -> bool {
        match &self.selector {
            _ if self.crowd.is_some() => true,
            None => false,
            Some(Ok(selector)) => selector.matches(&pod.labels),
            Some(Err(_)) => true,
        }
    }
}

/// As pods share them.
type Labels = Shared<BTreeMap<String, String>>;

/// The policies of a namespace.
#[derive(Default)]
struct Here<'a> {
    /// By name.
    all: Vec<ScopedPolicy<'a>>,
    /// Those that select by a label's value, by that; their places.
    by_label: HashMap<(&'a str, &'a str), Vec<usize>>,
    /// The others.
    by_all: Vec<usize>,
    /// Which ones concern pods with these labels: most pods have the same as others.
    concerning: RefCell<HashMap<Labels, Rc<[usize]>>>,
}

impl<'a> Here<'a> {
    fn of(mut all: Vec<ScopedPolicy<'a>>) -> Self {
        all.sort_by(|a, b| a.policy.name.cmp(&b.policy.name));
        let (mut by_label, mut by_all) = (HashMap::<_, Vec<usize>>::new(), Vec::new());
        for (place, known) in all.iter().enumerate() {
            let selector = known.policy.spec.selector.as_ref().filter(|_| !known.is_for_all());
            match selector.and_then(|selector| selector.match_labels.as_ref()?.first_key_value()) {
                Some((key, value)) => by_label.entry((key.as_str(), value.as_str())).or_default().push(place),
                None => by_all.push(place),
            }
        }
        Self { all, by_label, by_all, concerning: RefCell::default() }
    }

    /// Places of those that select the pod, in their order.
    fn concerning(&self, pod: &PodView) -> Rc<[usize]> {
        if let Some(known) = self.concerning.borrow().get(&pod.labels) {
            return Rc::clone(known);
        }
        let by_label = pod.labels.iter().filter_map(|(key, value)| self.by_label.get(&(key.as_str(), value.as_str())));
        let mut places: Vec<usize> = by_label.flatten().chain(&self.by_all).copied().collect();
        places.sort_unstable();
        places.retain(|place| self.all.get(*place).is_some_and(|known| known.selects(pod)));
        let places: Rc<[usize]> = places.into();
        self.concerning.borrow_mut().insert(pod.labels.clone(), Rc::clone(&places));
        places
    }
}

/// All policies of a snapshot.
#[derive(Default)]
pub struct Policies<'a> {
    by_namespace: HashMap<&'a str, Here<'a>>,
    default: Option<ScopedPolicy<'a>>,
    /// What was learned, for what nobody says.
    learned: DrainOverrides,
}

/// What holds for one pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolved {
    /// How it is drained.
    pub drain: DrainSpec,
    /// How the result is judged.
    pub verify: VerifySpec,
    /// What it is told or asked meanwhile.
    pub hooks: Vec<Hook>,
    /// Leave, Hold, or what is best.
    pub mode: DesiredMode,
    /// Who says so.
    pub mode_origin: String,
}

impl<'a> Policies<'a> {
    /// Those of a snapshot. A pod of which nobody says how long it stays out of service at least does so for `least_seconds`.
    #[must_use]
    pub fn of(all: &'a [Arc<PolicyView>], least_seconds: u32) -> Self {
        // The built-in least time is what the kubelet needs.
        let min_seconds = Some(least_seconds).filter(|least| *least > DrainSpec::default().min_seconds);
        let learned = DrainOverrides { min_seconds, ..DrainOverrides::default() };
        let mut policies = Self { learned, ..Self::default() };
        let crowded = crowd::crowded(all.iter().filter(|each| !each.is_default()).map(|each| each.namespace.as_str()));
        let mut by_namespace: HashMap<&str, Vec<ScopedPolicy<'_>>> = HashMap::new();
        for policy in all {
            let count = crowded.get(policy.namespace.as_str()).filter(|_| !policy.is_default());
            // Of too many, the first one by name says no for all of them.
            if count.is_some()
                && by_namespace
                    .get(policy.namespace.as_str())
                    .and_then(|known| known.first())
                    .is_some_and(|first| first.policy.name <= policy.name)
            {
                continue;
            }
            // The cluster's default concerns everybody, whatever it selects.
            let selector = policy.spec.selector.as_ref().filter(|_| !policy.is_default()).map(selector::read);
            let crowd = count.map(|count| crowd::text("DrainPolicies", &policy.namespace, *count));
            let is_alone = crowd.is_some();
            let known = ScopedPolicy { origin: format!("DrainPolicy {}", policy.path()), policy, selector, crowd };
            if policy.is_default() {
                policies.default = Some(known);
                continue;
            }
            let here = by_namespace.entry(policy.namespace.as_str()).or_default();
            if is_alone {
                here.clear();
            }
            here.push(known);
        }
        policies.by_namespace = by_namespace.into_iter().map(|(name, all)| (name, Here::of(all))).collect();
        policies
    }

    /// The policies that select the pod, the one that counts first. A selector that can't be understood may select it.
    fn concerning(&self, pod: &PodView) -> impl Iterator<Item = &ScopedPolicy<'a>> {
        let here = self.by_namespace.get(pod.id.namespace.as_str());
        here.into_iter().flat_map(|here| {
            let places = here.concerning(pod);
            (0..places.len()).filter_map(move |index| here.all.get(*places.get(index)?))
        })
    }

    /// What holds for `pod`. `told` is what Services say of a port, `start_seconds` how long a start may take where no policy says it.
    ///
    /// # Errors
    /// If something of it makes no sense: the pod is not operated before that is mended.
    pub fn resolve(
        &self,
        pod: &PodView,
        told: impl Fn(u16) -> Option<PortTreatment>,
        start_seconds: u32,
    ) -> Result<Resolved, InvalidDrain> {
        let chain: Vec<&ScopedPolicy<'_>> = self.concerning(pod).next().into_iter().chain(&self.default).collect();
        if let Some(error) = chain.iter().find_map(|known| known.not_usable()) {
            return Err(error);
        }
        let said = chain.iter().map(|known| &known.policy.spec.drain);
        let overrides: Vec<&DrainOverrides> = said.chain([&self.learned]).collect();
        let drain = DrainSpec::resolve(pod, &overrides, told)?;
        let hooks: Vec<HookLayer<'_>> = chain
            .iter()
            .map(|known| HookLayer { origin: &known.origin, hooks: known.policy.spec.hooks.as_deref() })
            .collect();
        let hooks = Hook::resolve(pod, &hooks)?;
        let verifies = || chain.iter().map(|known| &known.policy.spec.verify);
        let verify = VerifySpec {
            progress_seconds: verifies().find_map(|verify| verify.progress_seconds).unwrap_or(start_seconds),
            soak_seconds: verifies().find_map(|verify| verify.soak_seconds).unwrap_or_default(),
            alone: false,
            crashes: None,
        };
        let by_policy = || chain.iter().find_map(|known| Some((known.policy.spec.mode?, known.origin.clone())));
        let by_pod = DesiredMode::of(pod)?.map(|mode| (mode, format!("annotation {}", annotations::MODE)));
        let (mode, mode_origin) =
            by_pod.or_else(by_policy).unwrap_or_else(|| (DesiredMode::Auto, "default".to_owned()));
        Ok(Resolved { drain, verify, hooks, mode, mode_origin })
    }

    /// Why [`Self::resolve`] would refuse the pod, if it would.
    #[must_use]
    pub fn refusal(&self, pod: &PodView) -> Option<InvalidDrain> {
        // Most pods say nothing, and most policies suit everybody: this is asked of every workload in every round.
        let says = InvalidDrain::ANNOTATIONS.iter().any(|key| pod.annotations.contains_key(*key));
        let here = self.by_namespace.get(pod.id.namespace.as_str()).into_iter().flat_map(|here| &here.all);
        if !says && !here.chain(&self.default).any(ScopedPolicy::may_not_suit) {
            return None;
        }
        self.resolve(pod, |_| None, 0).err()
    }

    /// Those that can't be obeyed, and why.
    pub fn not_usable(&self) -> impl Iterator<Item = (&'a PolicyView, InvalidDrain)> {
        let all = self.by_namespace.values().flat_map(|here| &here.all).chain(&self.default);
        all.filter_map(|known| Some((known.policy, known.not_usable()?)))
    }

    /// Of several that select the pod: the one that counts, and the first that does not.
    #[must_use]
    pub fn conflict(&self, pod: &PodView) -> Option<(&'a PolicyView, &'a PolicyView)> {
        let mut concerning = self.concerning(pod);
        Some((concerning.next()?.policy, concerning.next()?.policy))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

    fn policy(namespace: &str, name: &str, spec: Value) -> Arc<PolicyView> {
        let spec = serde_json::from_value(spec).unwrap();
        Arc::new(PolicyView {
            namespace: namespace.into(),
            name: name.into(),
            uid: name.into(),
            spec,
            unreadable: None,
        })
    }

    fn pod(annotations: Value) -> PodView {
        let mut metadata = json!({"namespace": "shop", "name": "p", "labels": {"app": "web"}});
        metadata["annotations"] = annotations;
        PodView::from(&serde_json::from_value::<Pod>(json!({"metadata": metadata})).unwrap())
    }

    fn resolve(all: &[Arc<PolicyView>], annotations: Value) -> Result<Resolved, InvalidDrain> {
        Policies::of(all, 0).resolve(&pod(annotations), |_| None, 77)
    }

    #[test]
    fn the_pod_comes_before_the_policy_before_the_clusters_default_before_what_is_built_in() {
        let web = json!({"matchLabels": {"app": "web"}});
        let mut all = vec![
            policy("shop", "b", json!({"selector": web, "drain": {"minSeconds": 5}, "mode": "Leave"})),
            policy("other", "a", json!({"selector": {}, "drain": {"minSeconds": 99}})),
            policy("shop", "nobody", json!({"drain": {"minSeconds": 98}})),
            policy(
                system_namespace(),
                DEFAULT,
                json!({"mode": "Hold", "drain": {"minSeconds": 6, "deadlineSeconds": 9}, "verify": {"soakSeconds": 4}}),
            ),
        ];
        let resolved = resolve(&all, json!({})).unwrap();
        assert_eq!((resolved.drain.min_seconds, resolved.drain.deadline_seconds), (5, 9));
        assert_eq!((resolved.verify.progress_seconds, resolved.verify.soak_seconds), (77, 4));
        assert_eq!((resolved.mode, resolved.mode_origin.as_str()), (DesiredMode::Leave, "DrainPolicy shop/b"));
        let own =
            resolve(&all, json!({"hitless.dev/mode": "Auto", "hitless.dev/drain": "{\"minSeconds\": 2}"})).unwrap();
        assert_eq!((own.mode, own.drain.min_seconds), (DesiredMode::Auto, 2));
        all.remove(0);
        let resolved = resolve(&all, json!({})).unwrap();
        assert_eq!((resolved.mode, resolved.drain.min_seconds), (DesiredMode::Hold, 6));
        assert_eq!(resolve(&[], json!({})).unwrap().mode_origin, "default");
    }

    #[test]
    fn hooks_are_those_of_the_strongest_that_has_some() {
        let hook = |name: &str| json!([{"name": name, "when": "BeforeDrain", "http": {"port": 80, "path": "/"}}]);
        let mut all = vec![
            policy("shop", "a", json!({"selector": {}, "drain": {"minSeconds": 5}, "hooks": hook("policy")})),
            policy(system_namespace(), DEFAULT, json!({"hooks": hook("default")})),
        ];
        let names = |all: &[Arc<PolicyView>], own: Option<Value>| {
            let annotations = own.map_or(json!({}), |own| json!({"hitless.dev/hooks": own.to_string()}));
            let hooks = resolve(all, annotations).unwrap().hooks;
            hooks.into_iter().map(|hook| hook.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&all, None), ["policy"]);
        assert_eq!(names(&all, Some(hook("own"))), ["own"]);
        assert_eq!(names(&all, Some(json!([]))), [""; 0]);
        all[0] = policy("shop", "a", json!({"selector": {}, "drain": {"minSeconds": 5}}));
        assert_eq!(names(&all, None), ["default"], "a policy that says nothing of hooks takes none away");
        let exec = json!([{"name": "x", "when": "AfterStart", "exec": {"container": "db", "command": ["true"]}}]);
        all[0] = policy("shop", "a", json!({"selector": {}, "hooks": exec}));
        let error = resolve(&all, json!({})).unwrap_err().to_string();
        assert!(error.starts_with("DrainPolicy shop/a is not usable: x: "), "{error}");
    }

    /// Nothing that is refused is looked at less closely to save time.
    #[test]
    fn what_is_refused_without_a_wish_is_what_is_refused_with_one() {
        let hook = json!([{"name": "x", "when": "AfterStart", "exec": {"container": "db", "command": ["true"]}}]);
        let like = json!({"matchExpressions": [{"key": "app", "operator": "Like", "values": ["web"]}]});
        let policies = [
            json!({"selector": {}, "drain": {"minSeconds": 5}}),
            json!({"selector": {}, "hooks": hook}),
            json!({"selector": {}, "hooks": []}),
            json!({"selector": like}),
        ];
        let annotations = [
            json!({}),
            json!({"hitless.dev/mode": "Stay"}),
            json!({"hitless.dev/drain": "{\"soon\": true}"}),
            json!({"hitless.dev/hooks": "{}"}),
            json!({"hitless.dev/hooks": "[]"}),
        ];
        let mut refused = 0;
        for spec in &policies {
            let all = [policy("shop", "a", spec.clone())];
            for own in &annotations {
                let error = resolve(&all, own.clone()).err();
                refused += usize::from(error.is_some());
                assert_eq!(Policies::of(&all, 0).refusal(&pod(own.clone())), error, "{spec} {own}");
            }
        }
        assert_eq!(refused, 3 + 4 + 3 + 5);
    }

    #[test]
    fn a_policy_that_cannot_be_read_is_not_left_out() {
        let later = |namespace: &str, name: &str, labels: Value| {
            let metadata = json!({"name": name, "namespace": namespace, "uid": name});
            let spec = json!({"selector": {"matchLabels": labels}, "drain": {"minSeconds": "soon"}});
            let object = json!({"apiVersion": "x/v1", "kind": "DrainPolicy", "metadata": metadata, "spec": spec});
            Arc::new(PolicyView::from(serde_json::from_value::<Lenient<DrainPolicy>>(object).unwrap()))
        };
        let all = [later("shop", "a", json!({"app": "web"}))];
        let error = resolve(&all, json!({})).unwrap_err().to_string();
        assert!(error.contains("shop/a") && error.contains("spec.drain.minSeconds can't be read"), "{error}");
        assert_eq!(Policies::of(&all, 0).not_usable().count(), 1);
        assert!(resolve(&[later("shop", "a", json!({"app": "db"}))], json!({})).is_ok());
        assert!(resolve(&[later(system_namespace(), DEFAULT, json!({"app": "db"}))], json!({})).is_err());
    }

    #[test]
    fn what_was_learned_counts_where_nobody_says_anything() {
        let all = [policy("shop", "a", json!({"selector": {}, "drain": {"minSeconds": 1}}))];
        let min_seconds = |all: &[_], least| {
            Policies::of(all, least).resolve(&pod(json!({})), |_| None, 600).unwrap().drain.min_seconds
        };
        assert_eq!((min_seconds(&[], 3), min_seconds(&[], 0)), (3, 1));
        assert_eq!(min_seconds(&all, 3), 1);
    }

    #[test]
    fn of_two_the_first_by_name_counts_and_the_other_is_named() {
        let all = [
            policy("shop", "b", json!({"selector": {}, "drain": {"minSeconds": 5}})),
            policy("shop", "a", json!({"selector": {}, "drain": {"minSeconds": 4}})),
        ];
        assert_eq!(resolve(&all, json!({})).unwrap().drain.min_seconds, 4);
        let policies = Policies::of(&all, 0);
        let (counts, ignored) = policies.conflict(&pod(json!({}))).unwrap();
        assert_eq!((counts.name.as_str(), ignored.name.as_str()), ("a", "b"));
        assert!(Policies::of(&all[..1], 0).conflict(&pod(json!({}))).is_none());
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        let faulty = json!({"selector": {"matchExpressions": [{"key": "app", "operator": "Like", "values": ["web"]}]}});
        let error = resolve(&[policy("shop", "a", faulty)], json!({})).unwrap_err();
        assert!(error.to_string().starts_with("DrainPolicy shop/a is not usable: the requirement"), "{error}");
        let error = resolve(&[], json!({"hitless.dev/mode": "Stay"})).unwrap_err();
        assert!(error.to_string().contains("use Auto, Leave or Hold"), "{error}");
    }

    #[test]
    fn of_more_policies_than_are_looked_at_one_says_no_for_all_and_no_other_namespace_is_concerned() {
        let one = |namespace: &str, number: usize| {
            policy(
                namespace,
                &format!("p{number:04}"),
                json!({"selector": {"matchLabels": {"app": number.to_string()}}}),
            )
        };
        let many: Vec<_> = (0..=crowd::MOST).rev().map(|number| one("shop", number)).collect();
        let error = resolve(&many, json!({})).unwrap_err().to_string();
        assert!(error.contains("DrainPolicy shop/p0000") && error.contains("501 DrainPolicies"), "{error}");
        assert!(resolve(&many[1..], json!({})).is_ok(), "none of them selects it");
        let mut elsewhere: Vec<_> = (0..=crowd::MOST).map(|number| one("other", number)).collect();
        elsewhere.push(policy(system_namespace(), DEFAULT, json!({"mode": "Hold"})));
        assert_eq!(resolve(&elsewhere, json!({})).unwrap().mode, DesiredMode::Hold);
        assert_eq!(Policies::of(&elsewhere, 0).not_usable().count(), 1, "it is told once");
    }

    /// An index leaves nobody out, and pods with the same labels get the same.
    #[test]
    fn who_is_concerned_is_whom_a_selector_selects() {
        let equal = [json!({}), json!({"app": "web"}), json!({"app": "db"}), json!({"app": "web", "tier": "x"})];
        let more = [
            json!([]),
            json!([{"key": "app", "operator": "In", "values": ["web"]}]),
            json!([{"key": "tier", "operator": "Exists"}]),
            json!([{"key": "tier", "operator": "Like"}]),
        ];
        let selectors = equal.iter().flat_map(|equal| {
            more.iter().map(move |more| json!({"selector": {"matchLabels": equal, "matchExpressions": more}}))
        });
        let named = |(number, spec): (usize, Value)| policy("shop", &format!("p{number:02}"), spec);
        let all: Vec<_> = selectors.chain([json!({})]).enumerate().map(named).collect();
        let policies = Policies::of(&all, 0);
        let labels =
            [json!({}), json!({"app": "web"}), json!({"app": "web", "tier": "x"}), json!({"tier": "x", "a": "b"})];
        for labels in labels.iter().chain(&labels) {
            let labels: BTreeMap<String, String> = serde_json::from_value(labels.clone()).unwrap();
            let mut pod = pod(json!({}));
            BTreeMap::clone_from(&mut pod.labels, &labels);
            let found: Vec<&str> = policies.concerning(&pod).map(|known| known.policy.name.as_str()).collect();
            let selects = |each: &&Arc<PolicyView>| {
                let selector = each.spec.selector.as_ref();
                selector.is_some_and(|own| selector::limits(own, &labels))
            };
            let wanted: Vec<&str> = all.iter().filter(selects).map(|each| each.name.as_str()).collect();
            assert_eq!(found, wanted, "{labels:?}");
        }
    }
}
