use super::*;

fn content(pairs: &[(&str, &str)]) -> ConfigContent {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), digest::of_bytes(value.as_bytes()))).collect()
}

/// Kind, name, and keys with values.
type Named<'a> = (ConfigKind, &'a str, &'a [(&'a str, &'a str)]);

fn objects(all: &[Named<'_>]) -> BTreeMap<ConfigRef, ConfigContent> {
    let named = |(kind, name, pairs): &Named<'_>| (ConfigRef { kind: *kind, name: (*name).to_owned() }, content(pairs));
    all.iter().map(named).collect()
}

fn look(template: &Value, all: &BTreeMap<ConfigRef, ConfigContent>) -> Result<Config, Missing> {
    ConfigUse::of(template).look(|object| all.get(object), None)
}

use ConfigKind::{ConfigMap, Secret};

fn template() -> Value {
    json!({"spec": {
        "containers": [{"name": "web",
            "envFrom": [{"configMapRef": {"name": "env"}}, {"secretRef": {"name": "extra", "optional": true}}],
            "env": [{"name": "A", "value": "1"},
                {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "login", "key": "password"}}},
                {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]}],
        "initContainers": [{"name": "init", "envFrom": [{"configMapRef": {"name": "init"}}]}],
        "volumes": [{"name": "tmp", "emptyDir": {}}, {"name": "files", "configMap": {"name": "files"}},
            {"name": "mixed", "projected": {"sources": [
                {"secret": {"name": "tls", "items": [{"key": "crt", "path": "certs/tls.crt"}]}},
                {"configMap": {"name": "ca", "optional": true}},
                {"serviceAccountToken": {"path": "token"}},
                {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}}]}}]
    }})
}

fn all() -> BTreeMap<ConfigRef, ConfigContent> {
    objects(&[
        (ConfigMap, "env", &[("LEVEL", "info")]),
        (Secret, "login", &[("password", "x"), ("other", "y")]),
        (ConfigMap, "files", &[("app.ini", "a=1")]),
        (ConfigMap, "init", &[("X", "1")]),
        (Secret, "tls", &[("crt", "---"), ("key", "---")]),
    ])
}

#[test]
fn all_that_containers_and_volumes_use_is_found_and_what_init_containers_use_last() {
    let uses = ConfigUse::of(&template());
    let names: Vec<String> = uses.objects().map(ToString::to_string).collect();
    assert_eq!(
        names,
        [
            "ConfigMap ca",
            "ConfigMap env",
            "ConfigMap files",
            "Secret extra",
            "Secret login",
            "Secret tls",
            "ConfigMap init"
        ]
    );
    assert!(ConfigUse::of(&json!({"spec": {"containers": [{"name": "web"}]}})).is_empty());
}

#[test]
fn the_hash_changes_with_every_value_that_is_used_and_with_no_other() {
    let before = look(&template(), &all()).unwrap();
    assert_eq!(look(&template(), &all()).unwrap(), before, "the same content again");
    let changed = |change: &dyn Fn(&mut BTreeMap<ConfigRef, ConfigContent>)| {
        let mut all = all();
        change(&mut all);
        look(&template(), &all).unwrap().hash != before.hash
    };
    let set = |kind: ConfigKind, name: &'static str, key: &'static str| {
        move |all: &mut BTreeMap<ConfigRef, ConfigContent>| {
            let object = ConfigRef { kind, name: name.to_owned() };
            all.entry(object).or_default().insert(key.to_owned(), digest::of_bytes(b"new"));
        }
    };
    assert!(changed(&set(ConfigMap, "env", "LEVEL")));
    assert!(changed(&set(ConfigMap, "env", "ADDED")));
    assert!(changed(&set(Secret, "login", "password")));
    assert!(!changed(&set(Secret, "login", "other")), "this key is not used");
    assert!(changed(&set(ConfigMap, "files", "app.ini")));
    assert!(changed(&set(Secret, "tls", "crt")));
    assert!(!changed(&set(Secret, "tls", "key")));
    assert!(changed(&set(Secret, "extra", "X")), "an optional one that is there now");
    assert!(!changed(&set(ConfigMap, "init", "X")));
    assert!(!changed(&set(Secret, "unrelated", "X")));
}

#[test]
fn what_no_container_starts_without_is_named() {
    let without = |kind, name: &str| {
        let mut all = all();
        all.remove(&ConfigRef { kind, name: name.to_owned() });
        look(&template(), &all).map_err(|missing| missing.to_string())
    };
    assert_eq!(without(ConfigMap, "env").unwrap_err(), "ConfigMap env is not there");
    let mut keyless = all();
    keyless.insert(ConfigRef { kind: Secret, name: "login".to_owned() }, content(&[("other", "y")]));
    assert_eq!(look(&template(), &keyless).unwrap_err().to_string(), "Secret login has no key password");
}

#[test]
fn what_is_mounted_is_what_the_kubelet_writes() {
    let mounted = look(&template(), &all()).unwrap().mounted.unwrap();
    let others = ["token", "labels"].map(ToOwned::to_owned).to_vec();
    assert_eq!(mounted.volumes, [("files".to_owned(), Vec::new()), ("mixed".to_owned(), others)].into());
    let file = |content: &str| digest::of_bytes(content.as_bytes());
    let files: Files = [
        ("files".to_owned(), [("app.ini".to_owned(), file("a=1"))].into()),
        ("mixed".to_owned(), [("certs/tls.crt".to_owned(), file("---"))].into()),
    ]
    .into();
    assert_eq!(mounted.digest, config::digest_of(&files));
    let env = json!({"spec": {"containers": [{"name": "web", "envFrom": [{"configMapRef": {"name": "env"}}]}]}});
    assert_eq!(look(&env, &all()).unwrap().mounted, None);
}

#[test]
fn what_init_containers_use_is_hashed_by_init_container() {
    let mut template = template();
    template["spec"]["initContainers"] = json!([
        {"name": "init", "envFrom": [{"configMapRef": {"name": "init"}}]},
        {"name": "render", "volumeMounts": [{"name": "files"}]},
        {"name": "wait"},
        {"name": "side", "restartPolicy": "Always", "volumeMounts": [{"name": "files"}]}]);
    let before = look(&template, &all()).unwrap();
    assert_eq!(before.init.keys().collect::<Vec<_>>(), ["init", "render"]);
    let changed = |name: &str| {
        let mut all = all();
        let object = ConfigRef { kind: ConfigMap, name: name.to_owned() };
        all.entry(object).or_default().insert("new".to_owned(), digest::of_bytes(b"new"));
        let after = look(&template, &all).unwrap();
        let recorded = InitConfig::have(&before);
        (after.hash != before.hash, recorded.changed(&after).into_iter().collect::<Vec<_>>())
    };
    assert_eq!(changed("init"), (false, vec!["init".to_owned()]), "only its environment");
    assert_eq!(changed("files"), (true, vec!["render".to_owned()]));
    assert_eq!(changed("env"), (true, vec![]));
    assert_eq!(changed("unrelated"), (false, vec![]));
    let come_with_the_template = InitConfig::have(&Config { init: BTreeMap::new(), ..before.clone() });
    assert!(come_with_the_template.changed(&before).is_empty() && !come_with_the_template.is(&before));
}
