//! What happens where KusionStack's own manager is, and when it goes (docs/migration.md). As far as hitless sees it, it is a Lease.

use anyhow::ensure;
use hitless_e2e::app::{App, Shape};
use hitless_e2e::{Stack, namespace};
use jiff::Timestamp;
use serde_json::json;

#[test]
fn beside_kusionstacks_own_manager_its_kinds_are_left_alone_and_taken_over_when_it_is_gone() -> anyhow::Result<()> {
    let stack = Stack::attach()?;
    let shape = Shape::colla_set(2);
    let app = App::start(&stack.cluster, "t-opj-kuperator", &shape)?;
    let before = app.identities();
    let revisions = app.kubectl.list(&["controllerrevisions"])?.len();
    // As its manager leaves it, without a manager.
    let theirs = app.kubectl.in_namespace("kusionstack-system");
    namespace::apply(&theirs, &json!({}))?;
    let lease = |renewed: Timestamp| {
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "kusionstack-controller-manager"},
            "spec": {"holderIdentity": "kuperator-0", "leaseDurationSeconds": 15, "renewTime": format!("{renewed:.6}")}})
    };
    let result = (|| {
        theirs.feed(&["apply"], &lease(Timestamp::now()))?;
        app.wait_event_saying("LeftToKuperator", "hitless leaves this CollaSet to it")?;
        let said = stack.hitless_output(&app, &["status"])?;
        let notes = String::from_utf8_lossy(&said.stderr).into_owned();
        ensure!(notes.contains("KusionStack's own manager runs here"), "status does not say so: {notes}");
        // Nobody looks after them: no other version, no pod more.
        app.set_version("v2")?;
        app.kubectl.run(&["scale", "collaset/web", "--replicas=3"])?;
        app.wait_ready(2)?;
        // It is stopped for good: then it does not renew its Lease.
        theirs.feed(&["apply"], &lease(Timestamp::UNIX_EPOCH))?;
        app.wait_version("v2", 3)?;
        let kept = app.identities().into_iter().filter(|pod| before.contains(pod)).count();
        ensure!(kept == 2, "of 2 pods {kept} are the same");
        let now = app.kubectl.list(&["controllerrevisions"])?.len();
        ensure!(now == revisions + 1, "there were {revisions} revisions, and now {now}");
        Ok(())
    })();
    theirs.run(&["delete", "namespace", "kusionstack-system", "--wait=false"])?;
    result
}
