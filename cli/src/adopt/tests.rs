use super::*;
use crate::scene::{pod, rollout, with_annotation, with_object, with_rule};
use crate::trial::Answer as Answered;
use serde_json::json;

/// Not opted in, all pods of the template.
fn plain(pods: &[Value]) -> Snapshot {
    let snapshot = with_object(rollout(pods), 0, |deployment| {
        deployment["spec"]["paused"] = false.into();
        deployment["metadata"]["annotations"] = json!({});
    });
    let template = snapshot.objects[0].raw["spec"]["template"].clone();
    with_object(snapshot, 1, |set| {
        set["spec"]["template"] = template;
        set["metadata"]["labels"] = json!({});
    })
}

fn gate(value: Option<&str>) -> Seen<Space> {
    Seen::Known(Space { uid: "u".to_owned(), gate: value.map(str::to_owned), update: None })
}

fn considered(snapshot: &Snapshot, label: bool) -> Adoption {
    let gate = gate(label.then_some("enabled"));
    consider(snapshot, &"deployment/web".parse().unwrap(), &gate, false, Timestamp::UNIX_EPOCH).unwrap()
}

fn new(name: &str) -> Value {
    pod(name, "web:v2")
}

#[test]
fn it_says_mode_budget_and_what_goes_natively_and_decides_nothing_itself() {
    let adoption = considered(&plain(&[new("a"), new("b"), new("c"), new("d")]), true);
    assert!(adoption.in_the_way.is_empty() && !adoption.opted_in, "{adoption:?}");
    let text = text::render_all(&adoption);
    for words in ["pod/a", "Leave — UnknownGap", "implicit", "natively", "--yes", "readiness or startup probe: web"] {
        assert!(text.contains(words), "{words} in {text}");
    }
    let never = considered(&with_rule(plain(&[new("a"), new("b")]), 0), true);
    assert!(text::render_all(&never).contains("never/budget"), "a rule that never lets a pod go is named");
}

#[test]
fn the_opt_in_fails_if_the_workload_was_changed_meanwhile() {
    let snapshot = plain(&[new("a")]);
    let patch = opt_in(&snapshot.cluster.objects[0], "in-place").operations();
    let mut same = snapshot.objects[0].raw.clone();
    same["metadata"]["generation"] = 0.into();
    same["metadata"]["annotations"] = Value::Null;
    json_patch::patch(&mut same, &patch).unwrap();
    assert_eq!(same["metadata"]["annotations"]["hitless.dev/update"], "in-place");
    same["metadata"]["annotations"] = Value::Null;
    same["metadata"]["generation"] = 1.into();
    assert!(json_patch::patch(&mut same, &patch).is_err());
    // An annotation raises no generation.
    for known in ["sometimes", "in_place"] {
        let snapshot = with_annotation(plain(&[new("a")]), "hitless.dev/update", known);
        let patch = opt_in(&snapshot.cluster.objects[0], "in-place").operations();
        let mut same = snapshot.objects[0].raw.clone();
        same["metadata"]["generation"] = 0.into();
        let mut other = same.clone();
        json_patch::patch(&mut same, &patch).unwrap();
        assert_eq!(same["metadata"]["annotations"]["hitless.dev/update"], "in-place");
        other["metadata"]["annotations"]["hitless.dev/update"] = "in-place-only".into();
        assert!(json_patch::patch(&mut other, &patch).is_err(), "somebody has opted it in otherwise");
    }
    let bare = with_annotation(plain(&[new("a")]), "team/x", "1");
    let patch = opt_in(&bare.cluster.objects[0], "in-place").operations();
    let mut opted_in = bare.objects[0].raw.clone();
    opted_in["metadata"]["generation"] = 0.into();
    opted_in["metadata"]["annotations"]["hitless.dev/update"] = "in-place-only".into();
    assert!(json_patch::patch(&mut opted_in, &patch).is_err());
}

#[test]
fn pods_without_the_gate_are_safe_at_once_and_it_says_what_is_not_reached() {
    let mut ungated = new("b");
    ungated["spec"]["readinessGates"] = json!([]);
    let adoption = considered(&plain(&[new("a"), ungated]), false);
    assert_eq!((adoption.gated, adoption.pods, adoption.in_the_way.len()), (1, 2, 0));
    let note = &adoption.notes[0];
    assert!(
        note.contains("1 of 2 pods") && note.contains("open connections are cut") && note.contains("is labelled"),
        "{note}"
    );
    let off = consider(&plain(&[new("a")]), &"web".parse().unwrap(), &gate(Some("off")), false, Timestamp::UNIX_EPOCH)
        .unwrap();
    assert!(off.notes[0].contains("says that pods get none") && !off.notes[0].contains("--yes"), "{}", off.notes[0]);
    let unread = Seen::Unread("forbidden".to_owned());
    let unread = consider(&plain(&[new("a")]), &"web".parse().unwrap(), &unread, false, Timestamp::UNIX_EPOCH).unwrap();
    assert!(unread.gate_label.is_none() && unread.notes[0].contains("may not be read"), "{}", unread.notes[0]);
    let held = adoption.answer.pods.iter().find(|pod| pod.pod == "b").and_then(|pod| pod.expected.as_ref());
    assert!(held.is_none_or(|held| held.mode_reason.starts_with("NoReadinessGate")), "{held:?}");
}

#[test]
fn what_is_in_the_way_for_good_or_for_now_is_named() {
    let mut host = new("a");
    host["spec"]["hostNetwork"] = true.into();
    let adoption = considered(&plain(&[host]), true);
    assert!(adoption.in_the_way[0].contains("hostNetwork"), "{:?}", adoption.in_the_way);
    let native = with_object(plain(&[new("a")]), 0, |deployment| {
        deployment["spec"]["template"]["spec"]["containers"][0]["image"] = "web:v3".into();
    });
    assert!(
        considered(&native, true).in_the_way[0].contains("kubectl rollout status -n team"),
        "its rollout is under way"
    );
    let single =
        with_object(plain(&[new("a")]), 0, |deployment| deployment["spec"]["strategy"] = json!({"type": "Recreate"}));
    let notes = considered(&single, true).notes.join("; ");
    assert!(notes.contains("single pod, and no companion pod may run"), "{notes}");
    assert!(!notes.contains("no two versions"), "{notes}");
    let two = with_object(plain(&[new("a"), new("b")]), 0, |deployment| {
        deployment["spec"]["strategy"] = json!({"type": "Recreate"});
        deployment["spec"]["replicas"] = 2.into();
    });
    let notes = considered(&two, true).notes.join("; ");
    assert!(
        notes.contains("its strategy is Recreate, under which natively no two versions run at the same time"),
        "{notes}"
    );
    let pod = consider(&single, &"pod/a".parse().unwrap(), &gate(None), false, Timestamp::UNIX_EPOCH);
    assert_eq!(pod.unwrap_err().code(), 2);
}

#[test]
fn how_all_pods_get_the_gate_is_said_as_long_as_it_is_possible() {
    let mut ungated = new("b");
    ungated["spec"]["readinessGates"] = json!([]);
    let mut leaving = new("c");
    leaving["spec"]["readinessGates"] = json!([]);
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let snapshot = plain(&[new("a"), ungated, leaving]);
    let said = |label: Option<&str>, yes: bool| {
        consider(&snapshot, &"web".parse().unwrap(), &gate(label), yes, Timestamp::UNIX_EPOCH).unwrap()
    };
    let looked_at = said(None, false);
    assert_eq!((looked_at.gated, looked_at.pods), (1, 2), "one that is being deleted does not count");
    let restart = "kubectl rollout restart -n team deployment/web && kubectl rollout status -n team deployment/web";
    let labelled = format!("before --yes: kubectl label namespace team hitless.dev/gate=enabled && {restart};");
    assert!(looked_at.notes[0].contains(&labelled), "{}", looked_at.notes[0]);
    let has_label = said(Some("enabled"), false);
    assert!(has_label.notes[0].contains(&format!("before --yes: {restart};")), "{}", has_label.notes[0]);
    assert!(text::render_all(&has_label).contains("opt it in: kubectl hitless adopt -n team deployment/web --yes"));
    for label in [None, Some("enabled")] {
        let adopted = said(label, true);
        let text = text::render_all(&adopted);
        assert!(!text.contains("--yes") && !text.contains("rollout restart"), "{text}");
        assert!(adopted.notes[0].contains("a restart is in place from the opt-in on"), "{}", adopted.notes[0]);
    }
}

#[test]
fn what_would_not_be_brought_in_place_is_named_before_anything_is_changed() {
    let mut meshed = new("a");
    meshed["spec"]["containers"].as_array_mut().unwrap().push(json!({"name": "proxy", "image": "proxy:v1"}));
    let snapshot = with_object(plain(&[meshed]), 0, |deployment| {
        let spec = &mut deployment["spec"]["template"]["spec"];
        spec["volumes"] = json!([{"name": "keys", "csi": {"driver": "x"}}, {"name": "run", "emptyDir": {}}]);
        spec["initContainers"] = json!([{"name": "render", "envFrom": [{"configMapRef": {"name": "conf"}}]}]);
        spec["containers"][0]["volumeMounts"] = json!([{"name": "run"}]);
        let reads = json!({"fieldRef": {"fieldPath": "metadata.annotations['a']"}});
        spec["containers"][0]["env"] = json!([{"name": "A", "valueFrom": reads}]);
    });
    let notes = considered(&snapshot, true).notes.join("\n");
    for words in [
        "init container render is not run again, and it reads ConfigMap conf",
        "volume keys is not mounted again",
        "volume run is not emptied",
        "container proxy is left as it is",
        "kubectl hitless restart --new-pods -n team deployment/web",
        "spec.template.spec.containers[web].env[A] reads",
    ] {
        assert!(notes.contains(words), "{words} in {notes}");
    }
}

#[test]
fn last_rollouts_that_would_not_have_been_in_place_are_named_and_so_are_labels() {
    let snapshot = plain(&[new("a")]);
    let set = |number: u32, image: &str, chart: &str| {
        let mut set = snapshot.objects[1].raw.clone();
        set["metadata"]["name"] = format!("web-{number}").into();
        set["metadata"]["uid"] = format!("rs-{number}").into();
        set["metadata"]["annotations"] = json!({"deployment.kubernetes.io/revision": number.to_string()});
        set["spec"]["template"] = json!({"metadata": {"labels": {"app": "web", "helm.sh/chart": chart}},
            "spec": {"containers": [{"name": "web", "image": image}]}});
        Arc::new(WorkloadObject::of(set).unwrap())
    };
    let with = |sets: [Arc<WorkloadObject>; 3]| {
        let objects = snapshot.objects[..1].iter().cloned().chain(sets).collect();
        considered(&snapshot.clone().with_objects(objects), true).notes.join("\n")
    };
    let all = || [set(1, "web:v1", "web-1"), set(2, "web:v2", "web-2"), set(3, "web:v3", "web-3")];
    let text = with(all());
    let words = "its last rollouts changed labels, too, which are changed in place: helm.sh/chart";
    assert!(text.contains(words) && !text.contains("would not"), "{text}");
    let service =
        json!({"metadata": {"name": "web", "namespace": "team"}, "spec": {"selector": {"helm.sh/chart": "web-3"}}});
    let service: k8s_openapi::api::core::v1::Service = serde_json::from_value(service).unwrap();
    let mut selected = snapshot.clone();
    selected.cluster.services = vec![Arc::new((&service).into())];
    let objects = selected.objects[..1].iter().cloned().chain(all()).collect();
    let text = considered(&selected.with_objects(objects), true).notes.join("\n");
    let words = "1 of its last 2 rollouts would not have been in place: a change of spec.template.metadata.labels[helm.sh/chart] can't be \
                 made to running pods, because Service web selects pods by it";
    assert!(text.contains(words), "{text}");
    let text = with([set(1, "web:v1", "web-1"), set(2, "web:v2", "web-1"), set(3, "web:v3", "web-1")]);
    assert!(!text.contains("last"), "{text}");
}

#[test]
fn what_a_dry_run_refuses_is_said_with_what_follows_and_is_not_in_the_way() {
    let mut adoption = considered(&plain(&[new("a")]), true);
    assert!(adoption.notes.iter().any(|note| note == BESIDE_SINGLE), "{:?}", adoption.notes);
    let tried = |pod: Helper, answer: Answered, instead: Option<&str>| Tried {
        pod: pod.label(),
        image: (pod == Helper::Prefetch).then(|| "web:v2".to_owned()),
        answer,
        instead: instead.map(str::to_owned),
    };
    let quota = || Answered::Refused("exceeded quota: q".to_owned());
    adoption.tried(vec![
        tried(Helper::Prefetch, Answered::NotTried("you may not create pods in team".to_owned()), None),
        tried(Helper::Companion, quota(), Some("its pods are operated without one")),
    ]);
    let text = text::render_all(&adoption);
    for words in [
        "pod that fetches images (web:v2): not tried: you may not create pods in team",
        "companion pod: would be refused: exceeded quota: q; then its pods are operated without one",
    ] {
        assert!(text.contains(words), "{words} in {text}");
    }
    assert!(!text.contains("tries each version beside it"), "{text}");
    assert!(adoption.permit().is_ok(), "it is adopted all the same");
    let json = serde_json::to_value(&adoption).unwrap();
    assert_eq!(json["helpers"][1]["words"], "exceeded quota: q");
}

/// What the namespace says of its workloads.
fn labelled(update: &str) -> Seen<Space> {
    Seen::Known(Space { uid: "u".to_owned(), gate: None, update: Some(update.to_owned()) })
}

#[test]
fn a_workload_opts_in_as_its_namespace_says_and_its_pods_get_the_gate_by_that() {
    let snapshot = plain(&[new("a")]);
    for (label, word, gives) in
        [("in-place-only", "in-place-only", true), ("in-place", "in-place", true), ("native", "in-place", false)]
    {
        let space = labelled(label);
        assert_eq!(space::word(&space), word);
        let adoption = consider(&snapshot, &"web".parse().unwrap(), &space, false, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(adoption.gate_label, Some(gives), "{label}");
    }
    let both = Space { uid: String::new(), gate: Some("off".to_owned()), update: Some("in-place".to_owned()) };
    assert!(!both.gives_gate(), "the label for the gate wins");
}

#[test]
fn each_workload_of_a_namespace_is_shown_with_what_is_in_the_way() {
    let with = |name: &str, uid: &str, change: fn(&mut Value)| {
        let base = plain(&[new("a")]);
        let mut next = base.objects[0].raw.clone();
        next["metadata"]["name"] = name.into();
        next["metadata"]["uid"] = uid.into();
        next["spec"]["replicas"] = 0.into();
        change(&mut next);
        Arc::new(WorkloadObject::of(next).unwrap())
    };
    let base = plain(&[new("a")]);
    let mut objects = base.objects.clone();
    objects.push(with("kept", "u1", |it| it["metadata"]["annotations"] = json!({"hitless.dev/update": "native"})));
    objects
        .push(with("there", "u2", |it| it["metadata"]["annotations"] = json!({"hitless.dev/update": "in-place-only"})));
    let snapshot = base.clone().with_objects(objects.clone());
    let now = Timestamp::UNIX_EPOCH;
    let overview = namespace::Overview::of(&snapshot, "team", &gate(None), false, now).unwrap();
    let text = overview.text();
    for words in [
        "namespace team, 3 workloads; workloads that are made from now on do not opt in by themselves (kubectl label namespace team \
         hitless.dev/update=in-place)",
        "deployment/kept   is kept out by its annotation hitless.dev/update=native\n",
        "deployment/there  has opted in, and something is in the way; 0 of 0 pods",
        "in the way: its native controller is rolling it",
        "deployment/web    can opt in; 1 of 1 pod with the readiness gate",
        "opt in what can: kubectl hitless adopt -n team --yes",
    ] {
        assert!(text.contains(words), "{words} in {text}");
    }
    assert_eq!(overview.verdict(0).unwrap_err().to_string(), "something is in the way of 1 of 3 workloads");
    objects.pop();
    let calm = namespace::Overview::of(&base.with_objects(objects), "team", &gate(None), false, now).unwrap();
    assert!(calm.verdict(0).is_ok(), "what is kept out is in nobody's way");
    assert!(calm.verdict(1).is_err(), "a write has failed");
    let kept = consider(&snapshot, &"deployment/kept".parse().unwrap(), &gate(None), true, now).unwrap();
    assert!(
        kept.permit().unwrap_err().to_string().contains("kubectl annotate -n team deployment/kept hitless.dev/update-")
    );

    let wanted = namespace::Overview::of(&snapshot, "team", &labelled("in-place"), true, now).unwrap().text();
    assert!(
        wanted.contains("its label hitless.dev/update=in-place opts in workloads that are made from now on"),
        "{wanted}"
    );
    assert!(wanted.contains("opts in now") && !wanted.contains("--yes"), "{wanted}");

    let mut host = new("a");
    host["spec"]["hostNetwork"] = true.into();
    let stopped = namespace::Overview::of(&plain(&[host]), "team", &gate(None), false, now).unwrap();
    assert!(
        stopped.text().contains("deployment/web  can't opt in") && stopped.text().contains("in the way: "),
        "{}",
        stopped.text()
    );
    assert_eq!(stopped.verdict(0).unwrap_err().to_string(), "something is in the way of 1 of 1 workload");
    let missing = namespace::Overview::of(&snapshot, "other", &gate(None), false, now).unwrap_err();
    assert!(missing.to_string().contains("no workload is there"), "{missing}");
}
