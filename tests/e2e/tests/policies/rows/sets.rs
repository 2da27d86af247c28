//! StatefulSets and DaemonSets that are held by their own strategy: `policies/guard-statefulset.yaml` and
//! `policies/guard-daemonset.yaml`.

use serde_json::{Value, json};

use super::{allowed, allowed_as, denied};
use crate::Row;
use crate::fixture::{Set, apps, set};
use crate::request::{Call, Who};

const MARK: &str = "/metadata/annotations/hitless.dev~1rollout";
const WANTED: &str = "/metadata/annotations/hitless.dev~1update-strategy";
const STRATEGY: &str = "/spec/updateStrategy";
const TYPE: &str = "/spec/updateStrategy/type";

pub(super) fn rows() -> Vec<Row> {
    let both = |of: Set| [begin(of), stays(of), owners(of)].into_iter().flatten();
    both(Set::StatefulSet).chain(both(Set::DaemonSet)).chain(stateful_set()).chain(daemon_set()).collect()
}

fn at(of: Set, name: &str) -> String {
    format!("{}/{name}", apps(of.resource()))
}

fn merge(of: Set, name: &str, body: Value) -> Call {
    Call::merge(at(of, name), body)
}

fn restart() -> Value {
    json!({"spec": {"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}}}}})
}

fn rolling(of: Set, fields: Value) -> Value {
    let mut body = of.rolling();
    body["rollingUpdate"] = fields;
    json!({"spec": {"updateStrategy": body}})
}

/// A manifest without anything that is ours but the opt-in, and with another image.
fn manifest(of: Set, name: &str, strategy: Value) -> Value {
    let mut body = set(of, name, &json!({"annotations": {"hitless.dev/update": "in-place"}}), strategy);
    body["spec"]["template"]["spec"]["containers"][0]["image"] = json!("web:2");
    body
}

fn is_held(says: &'static str, who: Who, call: Call, wanted: &str) -> Row {
    let values = [(MARK, json!("held")), (STRATEGY, json!({"type": "OnDelete"})), (WANTED, json!(wanted))];
    allowed_as(who, says, call, values)
}

fn is_free(says: &'static str, who: Who, call: Call) -> Row {
    let values = [(MARK, Value::Null), (TYPE, json!("RollingUpdate")), (WANTED, Value::Null)];
    allowed_as(who, says, call, values)
}

/// What begins a hold, and what does not.
fn begin(of: Set) -> Vec<Row> {
    let wanted = of.wanted();
    let both = |mut one: Value, other: &Value| {
        one["metadata"] = other["metadata"].clone();
        one
    };
    let out = json!({"metadata": {"annotations": {"hitless.dev/update": null}}});
    let opt_in = json!({"metadata": {"annotations": {"hitless.dev/update": "in-place"}}});
    let note = json!({"metadata": {"annotations": {"a": "b"}}});
    let host = json!({"spec": {"template": {"spec": {"hostNetwork": true}}}});
    let own = json!({"spec": {"updateStrategy": {"type": "OnDelete", "rollingUpdate": null}, "template": restart()["spec"]["template"]}});
    let own_is_own = || [(MARK, Value::Null), (STRATEGY, json!({"type": "OnDelete"})), (WANTED, Value::Null)];
    let held = |says, who, call| is_held(says, who, call, wanted);
    vec![
        held(
            "a new template of an opted-in set is held, its strategy remembered",
            Who::User,
            merge(of, "opted", restart()),
        ),
        held("whoever changes the template of a set", Who::Admin, merge(of, "opted", restart())),
        held("a set where only in place is allowed is held", Who::User, merge(of, "only", restart())),
        held("a set that opts in with the change is held", Who::User, merge(of, "plain", both(restart(), &opt_in))),
        held(
            "a set is held by server-side apply too",
            Who::User,
            Call::apply(&at(of, "opted"), manifest(of, "opted", of.rolling())),
        ),
        held("and by replace", Who::User, Call::replace(at(of, "opted"), manifest(of, "opted", of.rolling()))),
        is_free("a set that did not opt in rolls natively", Who::User, merge(of, "plain", restart())),
        is_free("a set whose template stays is not held", Who::User, merge(of, "opted", note)),
        is_free("nor one that opts out with the same change", Who::User, merge(of, "opted", both(restart(), &out))),
        is_free("nor one on the host's network", Who::User, merge(of, "host", restart())),
        is_free("nor one that goes to the host's network", Who::User, merge(of, "opted", host)),
        is_free("the controller's own writes to a set are not held", Who::Controller, merge(of, "opted", restart())),
        allowed_as(
            Who::User,
            "a new template under the owner's OnDelete gets no mark: nobody else ends that strategy",
            merge(of, "owners", restart()),
            own_is_own(),
        ),
        allowed_as(
            Who::User,
            "nor does one that comes with the owner's OnDelete",
            merge(of, "opted", own),
            own_is_own(),
        ),
    ]
}

/// What others write while it is held.
fn stays(of: Set) -> Vec<Row> {
    let wanted = of.wanted();
    let mark = json!({"metadata": {"annotations": {"hitless.dev/rollout": null, "hitless.dev/update-strategy": null}}});
    let out = json!({"metadata": {"annotations": {"hitless.dev/update": null}}});
    let other = json!({"maxUnavailable": "50%"});
    // As the API server fills it in.
    let filled = match of {
        Set::StatefulSet => r#"{"type":"RollingUpdate","rollingUpdate":{"partition":0,"maxUnavailable":"50%"}}"#,
        Set::DaemonSet => r#"{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":"50%","maxSurge":0}}"#,
    };
    let applied = |strategy: Value| Call::apply(&at(of, "held"), manifest(of, "held", strategy));
    let replaced = |strategy: Value| Call::replace(at(of, "held"), manifest(of, "held", strategy));
    let another = || json!({"type": "RollingUpdate", "rollingUpdate": other});
    let held = |says, call| is_held(says, Who::User, call, wanted);
    let desired = |says, call| is_held(says, Who::User, call, filled);
    let untyped = json!({"spec": {"updateStrategy": {"rollingUpdate": other}}});
    let nonsense = |says, call| denied(Who::User, says, "could not be put back", call);
    let with = |limit: &str| rolling(of, json!({"maxUnavailable": limit}));
    let mut begins = with("101%");
    begins["spec"]["template"] = restart()["spec"]["template"].clone();
    let third = json!({"type": "Recreate", "rollingUpdate": null});
    let text = |text: &str| json!({"metadata": {"annotations": {"hitless.dev/update-strategy": text}}});
    let mut created = manifest(of, "new", of.rolling());
    created["metadata"]["annotations"]["hitless.dev/update-strategy"] = json!("{}");
    vec![
        held("a held set stays held with another template", merge(of, "held", restart())),
        held("and without its marks", merge(of, "held", mark)),
        held(
            "and with OnDelete applied, with the strategy that was wanted before",
            applied(json!({"type": "OnDelete"})),
        ),
        held("and with OnDelete and without our annotations in a replace", replaced(json!({"type": "OnDelete"}))),
        desired("another strategy that is applied meanwhile is remembered", applied(another())),
        desired("and one in a replace", replaced(another())),
        desired("and one in a patch that leaves the type out", merge(of, "held", untyped)),
        desired("and one in a patch", merge(of, "held", rolling(of, other.clone()))),
        held("the hold of a set outlives the opt-in until the controller has lifted it", merge(of, "held", out)),
        nonsense("a strategy that makes no sense is refused while held", merge(of, "held", with("many"))),
        nonsense("and when a hold would begin", merge(of, "opted", begins)),
        nonsense("there is no third strategy", merge(of, "held", json!({"spec": {"updateStrategy": third}}))),
        nonsense("what is remembered is not overwritten with nonsense", merge(of, "held", text("{}"))),
        nonsense("nor created with it", Call::create(apps(of.resource()), created)),
        is_held("but it can be written there too", Who::User, merge(of, "held", text(filled)), filled),
    ]
}

/// The end of an OnDelete that the guard did not set.
fn owners(of: Set) -> Vec<Row> {
    let roll = || json!({"spec": {"updateStrategy": of.rolling()}});
    let wanted = of.wanted();
    vec![
        is_held(
            "what was collected under the owner's OnDelete is held when that ends",
            Who::User,
            merge(of, "owners", roll()),
            wanted,
        ),
        is_free(
            "the end of an OnDelete under which nothing changed is just that",
            Who::User,
            merge(of, "settled", roll()),
        ),
    ]
}

fn stateful_set() -> Vec<Row> {
    let of = Set::StatefulSet;
    let staged = |partition: i64| {
        merge(of, "staged", json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": partition}}}}))
    };
    let percent = json!({"spec": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": "30%"}}, "template": restart()["spec"]["template"]}});
    let end = json!({"spec": {"replicas": 0, "updateStrategy": of.rolling()}});
    vec![
        is_held(
            "the strategy that comes with the template is the one that is remembered",
            Who::User,
            merge(of, "opted", percent),
            r#"{"type":"RollingUpdate","rollingUpdate":{"partition":2,"maxUnavailable":"30%"}}"#,
        ),
        is_held(
            "pods that the partition has kept at the old version are held when it goes down",
            Who::User,
            staged(0),
            r#"{"type":"RollingUpdate","rollingUpdate":{"partition":0}}"#,
        ),
        is_free("a partition that goes up rolls nothing", Who::User, staged(2)),
        is_free("a StatefulSet at 0 replicas is not held", Who::User, merge(of, "zero", restart())),
        allowed_as(
            Who::User,
            "at 0 replicas the hold of a StatefulSet can be ended",
            merge(of, "held", end),
            [(TYPE, json!("RollingUpdate"))],
        ),
        allowed(
            Who::User,
            "scaling a StatefulSet stays free while held",
            Call::merge(format!("{}/scale", at(of, "held")), json!({"spec": {"replicas": 3}})),
        ),
        denied(
            Who::User,
            "a partition below 0 is refused while held",
            "could not be put back",
            merge(of, "held", rolling(of, json!({"partition": -1}))),
        ),
    ]
}

fn daemon_set() -> Vec<Row> {
    let of = Set::DaemonSet;
    let surge =
        |unavailable: Value| merge(of, "held", rolling(of, json!({"maxUnavailable": unavailable, "maxSurge": 1})));
    vec![
        is_held(
            "a surge is remembered",
            Who::User,
            surge(json!("0%")),
            r#"{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":"0%","maxSurge":1}}"#,
        ),
        denied(
            Who::User,
            "a surge beside unavailable pods is refused while held",
            "could not be put back",
            surge(json!(1)),
        ),
    ]
}
