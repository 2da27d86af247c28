//! What is not deleted by mistake: `policies/deletion.yaml`, `crds/guard.yaml`.

use super::{allowed, denied};
use crate::Row;
use crate::fixture::colla_sets;
use crate::request::{Call, Who};

pub(super) fn rows() -> Vec<Row> {
    let set = |policy: &str| Call::delete(format!("{}/colla?propagationPolicy={policy}", colla_sets()));
    let empty = || Call::delete(format!("{}/empty?propagationPolicy=Foreground", colla_sets()));
    let definition =
        |name: &str| Call::delete(format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"));
    let confirms = "hitless.dev/delete=confirmed";
    vec![
        denied(
            Who::User,
            "a CollaSet with pods is not deleted in the foreground",
            "--cascade=background",
            set("Foreground"),
        ),
        denied(Who::Admin, "by nobody", "PrunePropagationPolicy=background", set("Foreground")),
        allowed(Who::User, "but in the background", set("Background")),
        allowed(Who::User, "and without its pods", set("Orphan")),
        allowed(Who::User, "without pods it goes in any way", empty()),
        allowed(
            Who::GarbageCollector,
            "an owner of it that is deleted in the foreground does not hang",
            set("Foreground"),
        ),
        allowed(Who::NamespaceController, "nor does its namespace", set("Background")),
        denied(
            Who::User,
            "the definition of CollaSet is deleted on purpose only",
            "and the pods of all CollaSets without leaving service; see which: kubectl get collasets.apps.kusionstack.io -A",
            definition("collasets.apps.kusionstack.io"),
        ),
        denied(Who::Admin, "and of rules", confirms, definition("podtransitionrules.apps.kusionstack.io")),
        denied(Who::Admin, "and of budgets", confirms, definition("transitionbudgets.hitless.dev")),
        denied(Who::Admin, "and of instance ids", confirms, definition("resourcecontexts.apps.kusionstack.io")),
    ]
}
