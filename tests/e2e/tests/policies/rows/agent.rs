//! What an agent may do: `policies/agent.yaml` and `policies/ledger.yaml`.

use hitless_api::names::{DEFAULT_SYSTEM_NAMESPACE, IN_SERVICE, KUBE_SYSTEM};
use serde_json::{Value, json};

use super::{allowed, allowed_as, denied};
use crate::Row;
use crate::fixture::{self, BARE, NAMESPACE, NODE, OTHER_NODE, SYSTEM_POD, pods};
use crate::request::{Call, Who};

fn at(name: &str) -> String {
    let namespace = match name {
        "bare" => BARE,
        SYSTEM_POD => KUBE_SYSTEM,
        _ => NAMESPACE,
    };
    format!("{}/{name}", pods(namespace))
}

/// A JSON patch of a pod.
fn patch(name: &str, operations: Value) -> Call {
    Call::json_patch(at(name), operations)
}

fn web_image(name: &str, image: &str) -> Call {
    patch(name, json!([{"op": "replace", "path": "/spec/containers/0/image", "value": image}]))
}

fn status(name: &str, status: Value) -> Call {
    Call::strategic(
        format!("{}/status", at(name)),
        Value::Object([("status".to_owned(), status)].into_iter().collect()),
    )
}

fn in_service(name: &str, value: &str) -> Call {
    status(name, json!({"conditions": [{"type": IN_SERVICE, "status": value, "reason": "Test", "message": "m"}]}))
}

fn report(node: &str) -> Call {
    let path = format!("/apis/hitless.dev/v1alpha1/nodetransitions/{node}/status");
    Call::merge(path, json!({"status": {"agent": {"version": "1", "bootID": "b"}}}))
}

pub(super) fn rows() -> Vec<Row> {
    [granted(), node(), metadata(), spec(), status_rows(), ledger(), system(), everything_else()]
        .into_iter()
        .flatten()
        .collect()
}

/// Pods of the cluster itself may be restarted, whoever writes the ledger.
fn system() -> Vec<Row> {
    let (image, no_ledger) = ("only set images of the same repository", "keeps no ledger here");
    vec![
        denied(Who::Agent, "a pod of the cluster gets no other image", image, web_image(SYSTEM_POD, "other:1")),
        denied(Who::Agent, "nor one that begins like it", image, web_image(SYSTEM_POD, "web.evil.io/x:1")),
        denied(
            Who::Agent,
            "a restart is left to the ledger",
            no_ledger,
            web_image(SYSTEM_POD, "web:1.hitless-01@sha256:22"),
        ),
    ]
}

/// What the job needs.
fn granted() -> Vec<Row> {
    let operate = json!([
        {"op": "test", "path": "/spec/containers/0/image", "value": "web:1"},
        {"op": "replace", "path": "/spec/containers/0/image", "value": "web:2"},
        {"op": "replace", "path": "/metadata/labels/controller-revision-hash", "value": "new"},
        {"op": "add", "path": "/metadata/annotations/hitless.dev~1revision", "value": "new"},
        {"op": "add", "path": "/metadata/annotations/hitless.dev~1restarted", "value": "1"}]);
    let back = json!([
        {"op": "replace", "path": "/spec/containers/0/image", "value": "web:1"},
        {"op": "replace", "path": "/metadata/labels/controller-revision-hash", "value": "old"},
        {"op": "remove", "path": "/metadata/annotations/hitless.dev~1revision"}]);
    let proxy = json!([{"op": "replace", "path": "/spec/initContainers/1/image", "value": "proxy:2"}]);
    let decorated = json!([
        {"op": "replace", "path": "/spec/initContainers/1/image", "value": "proxy:2"},
        {"op": "replace", "path": "/metadata/labels/poddecoration.kusionstack.io~1pd-log", "value": "named"},
        {"op": "replace", "path": "/metadata/annotations/poddecoration.kusionstack.io~1revisions", "value": "[{}]"}]);
    let relabel = json!([
        {"op": "test", "path": "/metadata/labels/chart", "value": "1"},
        {"op": "replace", "path": "/metadata/labels/chart", "value": "2"},
        {"op": "remove", "path": "/metadata/labels/gone"},
        {"op": "add", "path": "/metadata/labels/come", "value": "y"},
        {"op": "add", "path": "/metadata/annotations/hitless.dev~1mixed", "value": "digest.new"},
        {"op": "add", "path": "/metadata/annotations/hitless.dev~1revision", "value": "new"}]);
    let labels_back = json!([
        {"op": "replace", "path": "/metadata/labels/chart", "value": "1"},
        {"op": "add", "path": "/metadata/labels/gone", "value": "x"},
        {"op": "remove", "path": "/metadata/labels/come"},
        {"op": "replace", "path": "/spec/containers/0/image", "value": "web:1"}]);
    let sync = json!([{"op": "add", "path": "/metadata/annotations/hitless.dev~1config-sync", "value": "now"}]);
    let replaced = json!([
        {"op": "replace", "path": "/spec/containers/0/image", "value": "web:2"},
        {"op": "add", "path": "/metadata/annotations/hitless.dev~1replaced", "value": "{}"}]);
    vec![
        allowed_as(
            Who::Agent,
            "an agent sets the granted image, revision label and its annotations in one patch",
            patch("reserved", operate),
            [("/spec/containers/0/image", json!("web:2")), ("/metadata/labels/controller-revision-hash", json!("new"))],
        ),
        allowed(Who::Agent, "the granted image may have a digest behind it", web_image("reserved", "web:2@sha256:aa")),
        allowed(Who::Agent, "so may the one of the way back", web_image("operated", "web:1@sha256:aa")),
        allowed(
            Who::Agent,
            "an agent sets the granted image of a restartable init container",
            patch("reserved", proxy),
        ),
        allowed(
            Who::Agent,
            "with it goes the revision of a PodDecoration that the pod has",
            patch("reserved", decorated),
        ),
        allowed(
            Who::Agent,
            "an agent goes the way back: image, label and annotation as they were",
            patch("operated", back),
        ),
        allowed_as(
            Who::Agent,
            "an agent sets, adds and takes away the labels that the ledger names, without an image",
            patch("reserved", relabel),
            [("/metadata/labels/chart", json!("2")), ("/metadata/labels/come", json!("y"))],
        ),
        allowed_as(
            Who::Agent,
            "and puts them back as they were",
            patch("operated", labels_back),
            [("/metadata/labels/chart", json!("1")), ("/metadata/labels/gone", json!("x"))],
        ),
        allowed_as(
            Who::Agent,
            "an agent takes a pod out of service that the ledger has",
            in_service("reserved", "False"),
            [("/status/conditions/1/status", json!("False"))],
        ),
        allowed_as(
            Who::Agent,
            "an agent asks the kubelet to look at the volumes of a pod that the ledger has",
            patch("reserved", sync.clone()),
            [("/metadata/annotations/hitless.dev~1config-sync", json!("now"))],
        ),
        denied(Who::Agent, "and of no other pod", "no reservation for this pod", patch("free", sync)),
        allowed(
            Who::Agent,
            "with the image an agent names the containers that it is to end",
            patch("reserved", replaced),
        ),
        allowed(Who::Agent, "an agent puts any pod of its node into service", in_service("left", "True")),
        allowed(Who::Agent, "an agent puts a new pod into service", in_service("fresh", "True")),
        allowed(Who::Agent, "an agent may say more about a pod that is out of service", in_service("left", "False")),
        allowed(Who::Agent, "an agent reports for its node", report(NODE)),
    ]
}

/// The node in the token.
fn node() -> Vec<Row> {
    let own = "its token is bound to";
    vec![
        denied(
            Who::Agent,
            "no image on another node's pod, not even a granted one",
            own,
            web_image("elsewhere", "web:2"),
        ),
        denied(Who::Agent, "no condition on another node's pod", own, in_service("elsewhere", "True")),
        denied(Who::Agent, "no report for another node", own, report(OTHER_NODE)),
        denied(Who::UnboundAgent, "a token that is bound to no pod sets no image", own, web_image("reserved", "web:2")),
        denied(Who::UnboundAgent, "a token that is bound to no pod sets no condition", own, in_service("free", "True")),
        denied(Who::UnboundAgent, "a token that is bound to no pod reports nothing", own, report(NODE)),
    ]
}

/// Labels, annotations, owners and finalizers, on both paths that can change them.
fn metadata() -> Vec<Row> {
    let meta = |value: Value| Call::merge(at("reserved"), json!({"metadata": value}));
    let by_status = |value: Value| Call::merge(format!("{}/status", at("reserved")), json!({"metadata": value}));
    let owner = json!({"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "free", "uid": "u"}]});
    let (labels, annotations, owners) = ("labels", "annotations", "owners and finalizers");
    vec![
        denied(Who::Agent, "no new label", labels, meta(json!({"labels": {"a": "b"}}))),
        denied(Who::Agent, "no changed label", labels, meta(json!({"labels": {"app": "b"}}))),
        denied(Who::Agent, "no removed label", labels, meta(json!({"labels": {"app": null}}))),
        denied(
            Who::Agent,
            "no removed revision label",
            labels,
            meta(json!({"labels": {"controller-revision-hash": null}})),
        ),
        denied(Who::Agent, "no new label by the status", labels, by_status(json!({"labels": {"a": "b"}}))),
        denied(
            Who::Agent,
            "no revision label by the status",
            labels,
            by_status(json!({"labels": {"controller-revision-hash": "new"}})),
        ),
        denied(Who::Agent, "no removed label by the status", labels, by_status(json!({"labels": {"app": null}}))),
        denied(Who::Agent, "no foreign annotation", annotations, meta(json!({"annotations": {"a": "b"}}))),
        denied(
            Who::Agent,
            "no changed foreign annotation",
            annotations,
            meta(json!({"annotations": {"example.com/note": "y"}})),
        ),
        denied(
            Who::Agent,
            "no removed foreign annotation",
            annotations,
            meta(json!({"annotations": {"example.com/note": null}})),
        ),
        denied(
            Who::Agent,
            "no wish for a restart",
            annotations,
            meta(json!({"annotations": {"hitless.dev/restart": "1"}})),
        ),
        denied(
            Who::Agent,
            "no drain of its own making",
            annotations,
            meta(json!({"annotations": {"hitless.dev/drain": "{}"}})),
        ),
        denied(
            Who::Agent,
            "no annotation by the status",
            annotations,
            by_status(json!({"annotations": {"hitless.dev/revision": "x"}})),
        ),
        denied(Who::Agent, "no owner", owners, meta(owner.clone())),
        allowed_as(
            Who::Agent,
            "an owner by the status is dropped by the API server",
            by_status(owner),
            [("/metadata/ownerReferences", Value::Null)],
        ),
        denied(Who::Agent, "no finalizer", owners, meta(json!({"finalizers": ["example.com/x"]}))),
        denied(Who::Agent, "no finalizer by the status", owners, by_status(json!({"finalizers": ["example.com/x"]}))),
    ]
}

/// What the API server would let anybody with the right change on a running pod.
fn spec() -> Vec<Row> {
    let spec = |value: Value| Call::merge(at("reserved"), json!({"spec": value}));
    let only = "only set images";
    let toleration = json!([{"op": "add", "path": "/spec/tolerations/-", "value": {"operator": "Exists"}}]);
    let ephemeral = json!({"spec": {"ephemeralContainers": [{"name": "debug", "image": "debug:1"}]}});
    let resize = json!({"spec": {"containers": [{"name": "web", "resources": {"requests": {"cpu": "2m"}}}]}});
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "reserved", "namespace": NAMESPACE}});
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "reserved"}, "target": {"kind": "Node", "name": NODE}});
    let not = "agents may not";
    vec![
        denied(Who::Agent, "no toleration", only, patch("reserved", toleration)),
        denied(Who::Agent, "no deadline", only, spec(json!({"activeDeadlineSeconds": 1}))),
        denied(
            Who::Agent,
            "no ephemeral container",
            not,
            Call::strategic(format!("{}/ephemeralcontainers", at("reserved")), ephemeral),
        ),
        denied(Who::Agent, "no resize", not, Call::strategic(format!("{}/resize", at("reserved")), resize)),
        denied(Who::Agent, "no deletion", not, Call::delete(at("reserved"))),
        denied(Who::Agent, "no eviction", not, Call::create(format!("{}/eviction", at("reserved")), eviction)),
        denied(Who::Agent, "no binding", not, Call::create(format!("{}/binding", at("reserved")), binding)),
        denied(
            Who::Agent,
            "no pod of its own",
            not,
            Call::create(pods(NAMESPACE), fixture::pod("own", NODE, &json!({}))),
        ),
    ]
}

/// The status but its one condition.
fn status_rows() -> Vec<Row> {
    let only = "only set the condition";
    let ready = json!({"conditions": [{"type": "Ready", "status": "True", "reason": "Forged"}]});
    let statuses = json!({"containerStatuses": [{"name": "web", "image": "web:9", "imageID": "", "ready": false, "restartCount": 0}]});
    let address = json!({"status": {"podIP": "192.0.2.2", "podIPs": [{"ip": "192.0.2.2"}]}});
    let address = Call::merge(format!("{}/status", at("reserved")), address);
    let without = json!([{"op": "test", "path": "/status/conditions/1/type", "value": IN_SERVICE}, {"op": "remove", "path": "/status/conditions/1"}]);
    vec![
        denied(Who::Agent, "not the condition Ready", only, status("reserved", ready)),
        denied(Who::Agent, "not the pod's address", only, address),
        denied(Who::Agent, "not the containers' statuses", only, status("reserved", statuses)),
        denied(Who::Agent, "not the phase", only, status("reserved", json!({"phase": "Failed"}))),
        denied(
            Who::Agent,
            "not the start time",
            only,
            status("reserved", json!({"startTime": "2026-01-01T00:00:00Z"})),
        ),
        denied(
            Who::Agent,
            "not the absence of its condition",
            "may not take",
            Call::json_patch(format!("{}/status", at("reserved")), without),
        ),
    ]
}

/// What the ledger does not grant.
fn ledger() -> Vec<Row> {
    let (image, label, none, keeps) = ("image: only", "labels: only", "no reservation", "keeps no ledger here");
    let init = |index: usize, value: &str| {
        let path = format!("/spec/initContainers/{index}/image");
        patch("reserved", json!([{"op": "replace", "path": path, "value": value}]))
    };
    let side = json!([{"op": "replace", "path": "/spec/containers/1/image", "value": "side:2"}]);
    let hash =
        |value: &str| Call::merge(at("reserved"), json!({"metadata": {"labels": {"controller-revision-hash": value}}}));
    let generation = |name: &str, value: &str| {
        Call::merge(at(name), json!({"metadata": {"labels": {"pod-template-generation": value}}}))
    };
    let own = |name: &str, value: Value| Call::merge(at("reserved"), json!({"metadata": {"labels": {name: value}}}));
    let decoration = |pod: &str, name: &str, value: &str| {
        let label = format!("poddecoration.kusionstack.io/pd-{name}");
        Call::merge(at(pod), json!({"metadata": {"labels": {label: value}}}))
    };
    let revision = Call::merge(at("free"), json!({"metadata": {"annotations": {"hitless.dev/revision": "new"}}}));
    let back_and_other_label = json!([
        {"op": "replace", "path": "/spec/containers/0/image", "value": "web:3"},
        {"op": "replace", "path": "/metadata/labels/controller-revision-hash", "value": "old"}]);
    vec![
        denied(Who::Agent, "not an image that the ledger does not name", image, web_image("reserved", "web:3")),
        denied(Who::Agent, "nor that one with a digest", image, web_image("reserved", "web:3@sha256:aa")),
        denied(Who::Agent, "nor a tag that begins as the granted one", image, web_image("reserved", "web:20")),
        denied(Who::Agent, "nor a digest of another repository", image, web_image("reserved", "m/web:2@sha256:aa")),
        denied(Who::Agent, "nor what only looks like a digest", image, web_image("reserved", "web:2@sha256")),
        denied(Who::Agent, "not an image of a container that the ledger does not name", image, patch("reserved", side)),
        denied(Who::Agent, "not an init container's image that the ledger does not name", image, init(1, "proxy:3")),
        denied(Who::Agent, "not the image of one that has run, even if the ledger names it", image, init(0, "setup:2")),
        denied(Who::Agent, "not an image that is neither there nor back", image, web_image("operated", "web:3")),
        denied(Who::Agent, "not a revision label that the ledger does not name", label, generation("reserved", "2")),
        denied(Who::Agent, "not another generation than the ledger's", label, generation("operated", "3")),
        allowed(Who::Agent, "the generation of the template that the ledger names", generation("operated", "2")),
        denied(Who::Agent, "not another value of a label than the ledger's", label, own("chart", json!("3"))),
        denied(Who::Agent, "not the end of a label that is to have another value", label, own("chart", Value::Null)),
        denied(Who::Agent, "not another value of one that is to go", label, own("gone", json!("y"))),
        denied(Who::Agent, "not another label than the ledger's", label, own("app", json!("y"))),
        denied(
            Who::Agent,
            "no label that hitless reads, even if the ledger names it",
            "revision labels",
            own("hitless.dev/gate", json!("named")),
        ),
        denied(
            Who::Agent,
            "no label of Kubernetes' own, even if the ledger names it",
            "revision labels",
            own("statefulset.kubernetes.io/pod-name", json!("named")),
        ),
        denied(Who::Agent, "no named label in a namespace without a ledger", keeps, {
            Call::merge(at("bare"), json!({"metadata": {"labels": {"chart": "2"}}}))
        }),
        denied(Who::Agent, "no named label of a pod without a reservation", none, {
            Call::merge(at("free"), json!({"metadata": {"labels": {"chart": "2"}}}))
        }),
        denied(
            Who::Agent,
            "not another revision of a PodDecoration than the ledger's",
            label,
            decoration("operated", "log", "other"),
        ),
        denied(
            Who::Agent,
            "not a PodDecoration that the pod does not have, even if the ledger names it",
            "revision labels",
            decoration("reserved", "other", "named"),
        ),
        denied(Who::Agent, "not another revision than the ledger's, neither there nor back", label, {
            Call::json_patch(
                at("operated"),
                json!([{"op": "replace", "path": "/metadata/labels/controller-revision-hash", "value": "older"}]),
            )
        }),
        denied(Who::Agent, "not an old revision with a strange image", image, patch("operated", back_and_other_label)),
        allowed(Who::Agent, "the revision that the ledger names", hash("new")),
        denied(Who::Agent, "no image on a pod without a reservation", none, web_image("free", "web:2")),
        denied(Who::Agent, "no annotation on a pod without a reservation", none, revision),
        denied(Who::Agent, "not out of service without a reservation", none, in_service("free", "False")),
        denied(
            Who::Agent,
            "not out of service from the beginning without a reservation",
            none,
            in_service("fresh", "False"),
        ),
        denied(Who::Agent, "no image in a namespace without a ledger", keeps, web_image("bare", "web:2")),
        denied(Who::Agent, "not out of service in a namespace without a ledger", keeps, in_service("bare", "False")),
        allowed(Who::Agent, "but into service there", in_service("bare", "True")),
        allowed(
            Who::User,
            "users label pods where no ledger is",
            Call::merge(at("bare"), json!({"metadata": {"labels": {"a": "b"}}})),
        ),
        allowed(Who::User, "users set images where a ledger is", web_image("free", "web:9")),
        allowed(Who::User, "users' components write the status where no ledger is", in_service("bare", "False")),
    ]
}

/// The catch-all.
fn everything_else() -> Vec<Row> {
    let not = "agents may not";
    // Two policies refuse these, and either may be the one that is named.
    let either = "ValidatingAdmissionPolicy 'hitless-";
    let ntr = "/apis/hitless.dev/v1alpha1/nodetransitions";
    let new = json!({"apiVersion": "hitless.dev/v1alpha1", "kind": "NodeTransition", "metadata": {"name": "new"}, "spec": {"nodeUID": "x"}});
    let ledger = format!("/apis/hitless.dev/v1alpha1/namespaces/{NAMESPACE}/transitionledgers/ledger");
    let map = json!({"metadata": {"name": "x"}});
    let binding = json!({"metadata": {"name": "x"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "hitless-agent-operator"},
        "subjects": [{"kind": "ServiceAccount", "name": "hitless-agent", "namespace": DEFAULT_SYSTEM_NAMESPACE}]});
    vec![
        denied(
            Who::Agent,
            "no grant, not even for its own node",
            either,
            Call::merge(format!("{ntr}/{NODE}"), json!({"spec": {"epoch": 9}})),
        ),
        denied(Who::Agent, "no NodeTransition", either, Call::create(ntr, new)),
        denied(Who::Agent, "no end of a NodeTransition", either, Call::delete(format!("{ntr}/{NODE}"))),
        denied(Who::Agent, "no reservation", either, Call::merge(ledger, json!({"spec": {"leader": {"epoch": 9}}}))),
        denied(
            Who::Agent,
            "no Deployment",
            not,
            Call::merge(format!("{}/plain", fixture::apps("deployments")), json!({"spec": {"replicas": 0}})),
        ),
        denied(
            Who::Agent,
            "no scale",
            not,
            Call::merge(format!("{}/plain/scale", fixture::apps("deployments")), json!({"spec": {"replicas": 0}})),
        ),
        denied(
            Who::Agent,
            "no node",
            not,
            Call::merge(format!("/api/v1/nodes/{NODE}"), json!({"spec": {"unschedulable": false}})),
        ),
        denied(
            Who::Agent,
            "no ConfigMap",
            not,
            Call::create(format!("/api/v1/namespaces/{NAMESPACE}/configmaps"), map.clone()),
        ),
        denied(Who::Agent, "no Secret", not, Call::create(format!("/api/v1/namespaces/{NAMESPACE}/secrets"), map)),
        denied(
            Who::Agent,
            "no token",
            not,
            Call::create(
                format!("/api/v1/namespaces/{DEFAULT_SYSTEM_NAMESPACE}/serviceaccounts/hitless-controller/token"),
                json!({"spec": {}}),
            ),
        ),
        denied(
            Who::Agent,
            "no right",
            "",
            Call::create(format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{BARE}/rolebindings"), binding),
        ),
        denied(
            Who::Agent,
            "no command in a container",
            not,
            Call::connect(format!("{}/exec?command=id", at("reserved"))),
        ),
    ]
}
