//! Who writes our own objects: `policies/objects.yaml`.

use serde_json::json;

use super::{allowed, denied};
use crate::Row;
use crate::fixture::{BARE, NAMESPACE, NODE};
use crate::request::{Call, Who};

pub(super) fn rows() -> Vec<Row> {
    let api = "/apis/hitless.dev/v1alpha1";
    let transition = format!("{api}/nodetransitions/{NODE}");
    let ledger = format!("{api}/namespaces/{NAMESPACE}/transitionledgers/ledger");
    let new_transition = || {
        let body = json!({"apiVersion": "hitless.dev/v1alpha1", "kind": "NodeTransition", "metadata": {"name": "new"}, "spec": {"nodeUID": "x"}});
        Call::create(format!("{api}/nodetransitions"), body)
    };
    let new_ledger = |name: &str| {
        let body = json!({"apiVersion": "hitless.dev/v1alpha1", "kind": "TransitionLedger", "metadata": {"name": name}, "spec": {}});
        Call::create(format!("{api}/namespaces/{BARE}/transitionledgers"), body)
    };
    let provider = || {
        let spec =
            json!({"haproxy": {"endpoint": "tcp://10.0.0.9:9999"}, "pools": [{"name": "shop", "namespaces": ["*"]}]});
        let body = json!({"apiVersion": "hitless.dev/v1alpha1", "kind": "TrafficProvider", "metadata": {"name": "edge"}, "spec": spec});
        Call::create(format!("{api}/trafficproviders"), body)
    };
    let grant = || Call::merge(transition.as_str(), json!({"spec": {"epoch": 9}}));
    let reserve = || Call::merge(ledger.as_str(), json!({"spec": {"leader": {"epoch": 9}}}));
    let report = || Call::merge(format!("{transition}/status"), json!({"status": {"transitions": []}}));
    let (ours, theirs) = ("hitless-controller only", "hitless-agent only");
    vec![
        allowed(Who::Controller, "the controller creates a NodeTransition", new_transition()),
        allowed(Who::Controller, "the controller grants", grant()),
        allowed(Who::Controller, "the controller creates a ledger", new_ledger("ledger")),
        denied(Who::Controller, "under the name that admission looks for", "named 'ledger'", new_ledger("other")),
        allowed(Who::Controller, "the controller reserves", reserve()),
        // By this fence, or by its own catch-all.
        denied(Who::Controller, "the controller does not report", "denied request", report()),
        denied(Who::User, "a user creates no NodeTransition", ours, new_transition()),
        denied(Who::User, "a user grants nothing", ours, grant()),
        denied(Who::User, "a user creates no ledger", ours, new_ledger("ledger")),
        denied(Who::User, "a user reserves nothing", ours, reserve()),
        denied(Who::User, "a user deletes no ledger", ours, Call::delete(ledger.as_str())),
        denied(Who::User, "a user deletes no NodeTransition", ours, Call::delete(transition.as_str())),
        denied(Who::User, "a user reports nothing", theirs, report()),
        denied(
            Who::Agent,
            "an agent opens no load balancer",
            "agents may not CREATE hitless.dev/trafficproviders",
            provider(),
        ),
        allowed(Who::Admin, "an administrator does", provider()),
        allowed(Who::Admin, "break-glass: system:masters may repair grants", grant()),
        allowed(Who::Admin, "and reports", report()),
        allowed(Who::GarbageCollector, "a NodeTransition goes with its node", Call::delete(transition.as_str())),
        allowed(Who::NamespaceController, "a ledger goes with its namespace", Call::delete(ledger.as_str())),
    ]
}
