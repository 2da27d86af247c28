//! The hooks of a pod: those of its annotation, else those of the first policy that has any (docs/hooks.md).

use std::collections::BTreeSet;

use super::{Hook, HookCall};
use crate::InvalidDrain;
use crate::names::annotations;
use crate::pod::PodView;

/// A DrainPolicy's hooks, and its name.
#[derive(Clone, Copy, Debug)]
pub struct HookLayer<'a> {
    /// `DrainPolicy <namespace>/<name>`.
    pub origin: &'a str,
    /// What it says; an empty list means: none. `None`: it says nothing.
    pub hooks: Option<&'a [Hook]>,
}

impl Hook {
    /// The hooks of a pod that no policy concerns.
    ///
    /// # Errors
    /// As [`Self::resolve`].
    pub fn of(pod: &PodView) -> Result<Vec<Self>, InvalidDrain> {
        Self::resolve(pod, &[])
    }

    /// The hooks of a pod: its annotation, or the first of `layers` that has some. They are not merged, so that everything that is
    /// called stands in one place.
    ///
    /// # Errors
    /// If something of it makes no sense: the pod is not operated before that is mended.
    pub fn resolve(pod: &PodView, layers: &[HookLayer<'_>]) -> Result<Vec<Self>, InvalidDrain> {
        let own = format!("annotation {}", annotations::HOOKS);
        let invalid = |origin: &str, why| InvalidDrain::Hooks { origin: origin.to_owned(), why };
        let (origin, hooks) = if let Some(text) = pod.annotations.get(annotations::HOOKS) {
            let hooks = serde_json::from_str(text).map_err(|error| invalid(&own, error.to_string()))?;
            (own.as_str(), hooks)
        } else {
            let said = layers.iter().find_map(|layer| Some((layer.origin, layer.hooks?)));
            let Some((origin, hooks)) = said else { return Ok(Vec::new()) };
            (origin, hooks.to_vec())
        };
        if let Some(why) = fault(&hooks) {
            return Err(invalid(origin, why));
        }
        let commands = hooks.iter().filter_map(|hook| Some((hook, hook.exec.as_ref()?)));
        let missing = commands.into_iter().find(|(_, exec)| pod.container(&exec.container).is_none());
        let missing = missing.map(|(hook, exec)| InvalidDrain::NoContainer {
            origin: origin.to_owned(),
            hook: hook.name.clone(),
            container: exec.container.clone(),
        });
        missing.map_or(Ok(hooks), Err)
    }

    /// What is not as the schema of [`crate::DrainPolicy`] wants it; an annotation has no schema.
    fn fault(&self) -> Option<String> {
        let within = |name: &str, value: u32, least: u32, most: u32| {
            (!(least..=most).contains(&value)).then(|| format!("{name} is {value}; use {least} to {most}"))
        };
        within("timeoutSeconds", self.timeout_seconds, 1, 300)
            .or_else(|| within("retries", self.retries, 0, 10))
            .or_else(|| within("deadlineSeconds", self.deadline_seconds, 1, 86_400))
            .or_else(|| match self.call() {
                None => Some("it has to have exactly one of http and exec".to_owned()),
                Some(HookCall::Http(http)) => {
                    let is_path = http.path.starts_with('/') && http.path.bytes().all(|byte| byte.is_ascii_graphic());
                    within("port", http.port.into(), 1, 65_535)
                        .or_else(|| (!is_path).then(|| "path has to begin with / and be of visible ASCII".to_owned()))
                        .or_else(|| (http.path.len() > 256).then(|| "path has more than 256 characters".to_owned()))
                }
                Some(HookCall::Exec(exec)) => {
                    let words = || exec.command.iter();
                    let is_empty = exec.command.first().is_none_or(String::is_empty);
                    is_empty
                        .then(|| "command is empty".to_owned())
                        .or_else(|| (words().len() > 16).then(|| "command has more than 16 words".to_owned()))
                        .or_else(|| {
                            let is_long = words().any(|word| word.chars().count() > 1024);
                            is_long.then(|| "a word of command has more than 1024 characters".to_owned())
                        })
                        .or_else(|| {
                            words().any(|word| word.contains('\0')).then(|| "command has a zero byte".to_owned())
                        })
                }
            })
    }
}

fn is_name(name: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = name.as_bytes();
    (1..=63).contains(&bytes.len())
        && bytes.iter().all(|byte| is_inner(*byte) || *byte == b'-')
        && bytes.first().is_some_and(|byte| is_inner(*byte))
        && bytes.last().is_some_and(|byte| is_inner(*byte))
}

/// The first thing that is wrong with these hooks, whoever has them.
fn fault(hooks: &[Hook]) -> Option<String> {
    if hooks.len() > Hook::MAX {
        return Some(format!("there are {}, and at most {}", hooks.len(), Hook::MAX));
    }
    let mut names = BTreeSet::new();
    for hook in hooks {
        let name = &hook.name;
        if !is_name(name) {
            return Some(format!("the name {name:?} is none; use 1 to 63 of a-z, 0-9 and -, not - at either end"));
        }
        if !names.insert(name) {
            return Some(format!("two have the name {name}; rename one"));
        }
        if let Some(why) = hook.fault() {
            return Some(format!("{name}: {why}"));
        }
    }
    let bytes = serde_json::to_string(hooks).map_or(usize::MAX, |text| text.len());
    (bytes > Hook::LARGEST_TOGETHER)
        .then(|| format!("together they have {bytes} bytes as JSON, and at most {}", Hook::LARGEST_TOGETHER))
}

#[cfg(test)]
mod tests {
    use super::super::{HookFailurePolicy, HookMethod, HookScheme, HookTime};
    use super::*;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

    fn pod(hooks: Option<&str>) -> PodView {
        let mut pod: Pod =
            serde_json::from_value(json!({"metadata": {}, "spec": {"containers": [{"name": "web"}]}})).unwrap();
        pod.metadata.annotations = hooks.map(|text| [(annotations::HOOKS.to_owned(), text.to_owned())].into());
        PodView::from(&pod)
    }

    fn hook(name: &str) -> Value {
        json!({"name": name, "when": "BeforeDrain", "http": {"port": 80, "path": "/hook"}})
    }

    #[test]
    fn a_hook_that_says_little_has_the_defaults() {
        let hooks = Hook::of(&pod(Some(&json!([hook("ask")]).to_string()))).unwrap();
        let [ask] = hooks.as_slice() else { panic!("one hook: {hooks:?}") };
        assert_eq!((ask.timeout_seconds, ask.retries, ask.deadline_seconds), (5, 2, 600));
        assert_eq!((ask.when, ask.failure_policy), (HookTime::BeforeDrain, HookFailurePolicy::Fail));
        let http = ask.http.as_ref().unwrap();
        assert_eq!((http.method, http.scheme), (HookMethod::Post, HookScheme::Http));
        assert_eq!(Hook::features(&hooks).collect::<Vec<_>>(), ["hooks"]);
        assert_eq!(Hook::of(&pod(None)), Ok(vec![]));
    }

    #[test]
    fn the_strongest_that_has_hooks_has_all_of_them() {
        let parse = |hooks: Value| serde_json::from_value::<Vec<Hook>>(hooks).unwrap();
        let (policy, default) = (parse(json!([hook("policy")])), parse(json!([hook("default")])));
        let layer = |origin, hooks| HookLayer { origin, hooks };
        let layers = [layer("policy", Some(policy.as_slice())), layer("default", Some(default.as_slice()))];
        let names = |pod: &PodView, layers: &[HookLayer<'_>]| {
            let hooks = Hook::resolve(pod, layers).unwrap();
            hooks.into_iter().map(|hook| hook.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&pod(None), &layers), ["policy"]);
        assert_eq!(names(&pod(None), &[layer("policy", None), layers[1]]), ["default"]);
        assert_eq!(names(&pod(None), &[layer("policy", Some(&[])), layers[1]]), [""; 0], "none is said too");
        assert_eq!(names(&pod(Some(&json!([hook("own")]).to_string())), &layers), ["own"]);
        assert_eq!(names(&pod(Some("[]")), &layers), [""; 0]);
    }

    #[test]
    fn what_makes_no_sense_is_refused_in_words() {
        let with = |key: &str, value: Value| {
            let mut hook = hook("ask");
            hook[key] = value;
            json!([hook])
        };
        let exec = |container: &str, command: Value| json!([{"name": "ask", "when": "AfterDrain", "exec": {"container": container, "command": command}}]);
        let many: Vec<Value> = (0..9).map(|number| hook(&format!("h{number}"))).collect();
        let long = "x".repeat(1024);
        let table = [
            (json!({}), "invalid type"),
            (with("after", json!(3)), "unknown field `after`"),
            (with("when", json!("AtNoon")), "unknown variant `AtNoon`"),
            (with("name", json!("Ask")), "the name \"Ask\" is none"),
            (with("name", json!("ask-")), "is none"),
            (json!([hook("ask"), hook("ask")]), "two have the name ask"),
            (json!(many), "there are 9, and at most 8"),
            (with("http", json!({"port": 0, "path": "/"})), "ask: port is 0; use 1 to 65535"),
            (with("http", json!({"port": 70_000, "path": "/"})), "invalid value"),
            (with("http", json!({"port": 80, "path": "hook"})), "begin with /"),
            (with("http", json!({"port": 80, "path": "/a b"})), "visible ASCII"),
            (with("http", json!({"port": 80, "path": "/", "method": "PUT"})), "unknown variant `PUT`"),
            (with("http", Value::Null), "exactly one of http and exec"),
            (with("exec", json!({"container": "web", "command": ["a"]})), "exactly one of http and exec"),
            (with("timeoutSeconds", json!(0)), "timeoutSeconds is 0; use 1 to 300"),
            (with("retries", json!(11)), "retries is 11"),
            (with("deadlineSeconds", json!(90_000)), "use 1 to 86400"),
            (exec("db", json!(["a"])), "no container \"db\""),
            (exec("web", json!([])), "command is empty"),
            (exec("web", json!(["a\0"])), "zero byte"),
            (exec("web", json!(["a", "x".repeat(1025)])), "more than 1024"),
            (exec("web", json!(vec!["a"; 17])), "more than 16 words"),
            (exec("web", json!([long, long, long, long])), "at most 4096"),
        ];
        for (text, words) in table {
            let error = Hook::of(&pod(Some(&text.to_string()))).unwrap_err().to_string();
            assert!(error.starts_with("annotation hitless.dev/hooks is not usable: "), "{error}");
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn a_policys_hook_that_a_pod_can_not_have_names_the_policy() {
        let hooks = json!([{"name": "a", "when": "AfterStart", "exec": {"container": "db", "command": ["true"]}}]);
        let hooks: Vec<Hook> = serde_json::from_value(hooks).unwrap();
        assert_eq!(Hook::features(&hooks).collect::<Vec<_>>(), ["hooks", "exec-hooks"]);
        let layer = HookLayer { origin: "DrainPolicy shop/a", hooks: Some(&hooks) };
        let error = Hook::resolve(&pod(None), &[layer]).unwrap_err().to_string();
        assert!(error.starts_with("DrainPolicy shop/a is not usable: a: the pod has no container"), "{error}");
    }
}
