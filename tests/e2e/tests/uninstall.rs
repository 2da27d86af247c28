//! `kubectl delete -k manifests` in mid-rollout leaves nothing stuck.

use anyhow::ensure;
use hitless_e2e::app::{self, PATIENCE, Shape, condition};
use hitless_e2e::{App, Stack};

#[test]
fn after_uninstall_nothing_is_held_out_of_service_or_stuck() -> anyhow::Result<()> {
    let stack = Stack::attach()?;
    let app = App::start(&stack.cluster, "t-uninstall", &Shape::default())?;
    app.set_version("v2")?;
    app.pods.wait("a pod out of service", PATIENCE, |pods| {
        pods.values().any(|pod| condition(pod, "hitless.dev/InService") == Some("False")).then_some(())
    })?;
    stack.uninstall()?;
    let outcome = (|| {
        app.wait_unheld()?;
        app.rollout_status()?;
        app.pods.wait("every pod to be ready", PATIENCE, |pods| app::all_ready(pods, 3).then_some(()))?;
        // A template change now rolls natively, and new pods are not gated.
        let before = app.identities();
        app.set_version("v3")?;
        app.rollout_status()?;
        app.wait_version("v3", 3)?;
        ensure!(app.identities().iter().all(|pod| !before.contains(pod)), "an old pod is still there");
        let finalizers = app.kubectl.run(&[
            "get",
            "deployments,replicasets,pods",
            "-o",
            "jsonpath={.items[*].metadata.finalizers}",
        ])?;
        ensure!(finalizers.trim().is_empty(), "finalizers are left over: {finalizers}");
        Ok(())
    })();
    stack.install()?;
    outcome
}
