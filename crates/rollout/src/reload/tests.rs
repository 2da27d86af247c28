use super::*;
use hitless_workloads::{ConfigKind, registry};
use jiff::SignedDuration;
use serde_json::{Value, json};

fn workload(annotations: &Value) -> Arc<Object> {
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [
        {"name": "web", "image": "web:v1", "envFrom": [{"configMapRef": {"name": "env"}}]}]}});
    let object = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "uid": "u", "annotations": annotations},
        "spec": {"template": template}});
    Arc::new(registry::read(object).unwrap().unwrap())
}

fn reloading(recorded: Option<&str>) -> Arc<Object> {
    let mut annotations = json!({"hitless.dev/update": "in-place", "hitless.dev/reload": "auto"});
    if let Some(recorded) = recorded {
        annotations["hitless.dev/config"] = recorded.into();
    }
    workload(&annotations)
}

fn read(value: &str) -> BTreeMap<String, NamespaceConfig> {
    let object = ConfigRef { kind: ConfigKind::ConfigMap, name: "env".to_owned() };
    let content = Arc::new([("LEVEL".to_owned(), value.to_owned())].into());
    [("shop".to_owned(), NamespaceConfig::Read([(object, content)].into()))].into()
}

fn at(second: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second)
}

fn content(finds: &Finds) -> Content {
    let Some(Found::There(content)) = finds.get("u") else { panic!("{finds:?}") };
    content.clone()
}

#[test]
fn only_namespaces_with_a_workload_that_reloads_are_read() {
    let off = workload(&json!({"hitless.dev/update": "in-place"}));
    let not_opted_in = workload(&json!({"hitless.dev/reload": "auto"}));
    assert!(Uses::of(&[off, not_opted_in]).by_namespace().is_empty());
    let objects = [reloading(None)];
    let env = ConfigRef { kind: ConfigKind::ConfigMap, name: "env".to_owned() };
    assert_eq!(Uses::of(&objects).by_namespace(), [("shop", [&env].into())].into());
}

#[test]
fn a_time_is_kept_as_long_as_the_content_stays_and_the_difference_lasts() {
    let objects = [reloading(None)];
    let first = Uses::of(&objects).find(&read("1"), &Finds::new(), at(0));
    let hash = content(&first).config.hash;
    let objects = [reloading(Some(hash.value()))];
    let same = Uses::of(&objects).find(&read("1"), &first, at(10));
    assert_eq!(content(&same).since, at(0));
    let changed = Uses::of(&objects).find(&read("2"), &same, at(20));
    assert_eq!((content(&changed).since, content(&changed).differs_since), (at(20), at(20)));
    let again = Uses::of(&objects).find(&read("3"), &changed, at(21));
    assert_eq!((content(&again).since, content(&again).differs_since), (at(21), at(20)), "it goes on changing");
    let back = Uses::of(&objects).find(&read("1"), &again, at(22));
    assert_eq!(content(&back).differs_since, at(22));
}

#[test]
fn with_a_key_another_hash_is_recorded_and_the_one_without_counts_too() {
    let objects = [reloading(None)];
    let hash = |key: Option<&Key>, value: &str| {
        content(&Uses::of(&objects).keyed(key).find(&read(value), &Finds::new(), at(0))).config.hash
    };
    let (key, other) = (Key::of("a"), Key::of("b"));
    let (plain, keyed) = (hash(None, "1"), hash(Some(&key), "1"));
    assert!(keyed.value() != plain.value() && keyed.value() != hash(Some(&other), "1").value());
    assert!(keyed.is(plain.value()) && keyed.is(keyed.value()) && !plain.is(keyed.value()));
    assert!(!hash(Some(&key), "2").is(plain.value()));
    // Nothing has changed since a controller without a key has recorded it.
    let recorded = [reloading(Some(plain.value()))];
    let first = Uses::of(&recorded).keyed(Some(&key)).find(&read("1"), &Finds::new(), at(0));
    let later = Uses::of(&recorded).keyed(Some(&key)).find(&read("1"), &first, at(10));
    assert_eq!((content(&later).since, content(&later).differs_since), (at(0), at(0)));
}

#[test]
fn what_was_not_read_or_may_not_be_is_told_apart_from_what_is_not_there() {
    let objects = [reloading(None)];
    let found = |namespaces: &BTreeMap<String, NamespaceConfig>| {
        Uses::of(&objects).find(namespaces, &Finds::new(), at(0)).remove("u").unwrap()
    };
    assert_eq!(found(&BTreeMap::new()), Found::Unread);
    assert_eq!(found(&[("shop".to_owned(), NamespaceConfig::Denied)].into()), Found::Denied);
    let nothing = found(&[("shop".to_owned(), NamespaceConfig::Read(BTreeMap::new()))].into());
    assert!(matches!(nothing, Found::Missing(missing) if missing.to_string() == "ConfigMap env is not there"));
}
