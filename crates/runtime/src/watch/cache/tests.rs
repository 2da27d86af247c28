use super::*;
use k8s_openapi::api::core::v1::ConfigMap;
use proptest::prelude::*;
use serde_json::json;

fn object(name: &str, version: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name, "namespace": "n", "resourceVersion": version}})).unwrap()
}

fn cache() -> Cache<ConfigMap, String> {
    let view = |object: ConfigMap| object.metadata.resource_version.filter(|version| version != "13");
    let cache = Cache::new("ConfigMap", view, Arc::default(), Metrics::default());
    cache.begin_list();
    cache.end_list();
    cache
}

fn versions(cache: &Cache<ConfigMap, String>) -> Vec<(String, String)> {
    let mut all: Vec<_> = cache.snapshot().iter().map(|(key, value)| (key.to_string(), (**value).clone())).collect();
    all.sort();
    all
}

#[test]
fn an_older_event_does_not_overwrite_an_own_write() {
    let cache = cache();
    cache.apply(object("a", "5"));
    cache.put(object("a", "9"));
    cache.apply(object("a", "7"));
    assert_eq!(*cache.get("n", "a").unwrap(), "9");
    cache.apply(object("a", "10"));
    assert_eq!(*cache.get("n", "a").unwrap(), "10");
}

#[test]
fn an_own_write_that_is_answered_after_the_deletion_was_seen_does_not_revive_the_object() {
    let cache = cache();
    cache.apply(object("a", "5"));
    cache.delete(&Key { namespace: "n".into(), name: "a".into() }, Some("8"));
    cache.put(object("a", "7"));
    assert!(cache.is_empty());
    cache.put(object("a", "9"));
    assert_eq!(cache.len(), 1, "but a new object of that name is one");
}

#[test]
fn what_is_loaded_later_is_neither_older_than_what_the_watch_has_told_nor_deleted_since() {
    let cache = cache();
    cache.apply(object("a", "5"));
    assert!(cache.begin_load());
    cache.apply(object("a", "9"));
    cache.delete(&Key { namespace: "n".into(), name: "b".into() }, Some("8"));
    for (name, version) in [("a", "5"), ("b", "6"), ("c", "2")] {
        cache.load(object(name, version));
    }
    assert!(cache.end_load());
    let all =
        |cache: &Cache<ConfigMap, String>| versions(cache).into_iter().map(|(_, version)| version).collect::<Vec<_>>();
    assert_eq!(all(&cache), ["9", "2"]);
    cache.load(object("d", "9"));
    assert_eq!(all(&cache), ["9", "2"], "nobody notes any more what is deleted");
}

#[test]
fn nothing_is_loaded_beside_a_list() {
    let cache = cache();
    assert!(cache.begin_load());
    cache.load(object("a", "5"));
    cache.begin_list();
    cache.load(object("b", "6"));
    assert!(!cache.begin_load(), "the list may have left some out");
    cache.end_list();
    assert!(!cache.end_load() && cache.is_empty());
    assert!(cache.begin_load());
}

#[test]
fn a_kind_that_is_not_served_has_no_objects_and_an_own_write_that_is_answered_late_does_not_make_one() {
    let cache = cache();
    cache.apply(object("a", "5"));
    cache.begin_list();
    cache.set_unserved();
    assert!(cache.synced() && cache.is_empty());
    cache.put(object("a", "9"));
    assert!(cache.is_empty(), "nobody would ever delete it");
    cache.expect_list();
    assert!(!cache.synced());
    cache.begin_list();
    cache.list(object("b", "10"));
    cache.end_list();
    cache.put(object("b", "11"));
    assert_eq!(versions(&cache), [("n/b".into(), "11".into())]);
}

#[test]
fn what_is_not_in_a_new_list_is_gone_and_until_its_end_the_old_content_stands() {
    let cache = cache();
    cache.apply(object("a", "5"));
    cache.apply(object("b", "6"));
    cache.begin_list();
    cache.list(object("b", "8"));
    cache.list(object("c", "7"));
    assert_eq!(versions(&cache), [("n/a".into(), "5".into()), ("n/b".into(), "6".into())]);
    cache.end_list();
    assert_eq!(versions(&cache), [("n/b".into(), "8".into()), ("n/c".into(), "7".into())]);
}

#[test]
fn a_broken_off_list_leaves_no_trace() {
    let cache = cache();
    cache.begin_list();
    cache.list(object("a", "5"));
    cache.begin_list();
    cache.end_list();
    assert!(cache.is_empty());
}

#[test]
fn an_object_of_no_interest_is_dropped() {
    let cache = cache();
    cache.apply(object("a", "5"));
    cache.apply(object("a", "13"));
    assert!(cache.is_empty());
}

#[test]
fn a_version_that_is_no_number_lets_the_later_message_win() {
    let cache = cache();
    cache.put(object("a", "z"));
    cache.apply(object("a", "b"));
    assert_eq!(*cache.get("n", "a").unwrap(), "b");
}

proptest! {
    /// Own writes may be answered at any time between the watch's events; in the end only the events count.
    #[test]
    fn the_end_state_does_not_depend_on_when_writes_are_answered(
        history in proptest::collection::vec((0..3_u8, any::<bool>()), 1..20),
        delays in proptest::collection::vec(0..20_usize, 20),
    ) {
        let (cache, mut truth) = (cache(), std::collections::BTreeMap::new());
        let mut answers: Vec<(usize, ConfigMap)> = Vec::new();
        for (index, (name, deleted)) in history.iter().enumerate() {
            let (name, version) = (name.to_string(), (index + 14).to_string());
            if *deleted {
                truth.remove(&name);
                cache.delete(&Key { namespace: "n".into(), name }, Some(&version));
            } else {
                truth.insert(name.clone(), version.clone());
                answers.push((index + delays[index], object(&name, &version)));
                cache.apply(object(&name, &version));
            }
            answers.retain(|(due, object)| {
                if *due <= index { cache.put(object.clone()); }
                *due > index
            });
        }
        for (_, object) in answers { cache.put(object); }
        let truth: Vec<_> = truth.into_iter().map(|(name, version)| (format!("n/{name}"), version)).collect();
        prop_assert_eq!(versions(&cache), truth);
    }
}
