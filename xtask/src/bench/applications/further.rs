//! Ordinary applications of other shapes, which no report is known of.

use hitless_e2e::app::Workload;
use hitless_e2e::stack::image;
use serde_json::{Value, json};

use super::case::{Brought, Case, Change, echo, node, version};

fn config(_namespace: &str, rollout: usize) -> Vec<Value> {
    let data = json!({"VERSION": format!("config-{rollout}")});
    vec![json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "env"}, "data": data})]
}

fn budget(_namespace: &str, _rollout: usize) -> Vec<Value> {
    vec![json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
        "spec": {"minAvailable": 3, "selector": {"matchLabels": {"app": "web"}}}})]
}

fn published(_namespace: &str, _rollout: usize) -> Vec<Value> {
    vec![json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "members"},
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": true, "selector": {"app": "web"},
            "ports": [{"port": 7000, "targetPort": 8080}]}})]
}

pub(super) fn cases() -> Vec<Case> {
    let start = |milliseconds: &str| json!({"env": [{"name": "START_DELAY", "value": milliseconds}]});
    let graceful = json!({"env": [{"name": "MODE", "value": "graceful"}]});
    vec![
        Case::echo("plain"),
        Case::echo("plain-lone").lone(),
        Case::echo("plain-restart").change(Change::Restart),
        Case::echo("plain-lone-restart").lone().change(Change::Restart),
        Case::echo("graceful-lone").lone().pod(&json!({"containers": [echo(&graceful)]})),
        Case::echo("slow-start").pod(&json!({"containers": [echo(&start("5000"))]})),
        Case::echo("slow-start-lone").lone().pod(&json!({"containers": [echo(&start("5000"))]})),
        Case::echo("slow-start-stateful-lone")
            .lone()
            .of(Workload::StatefulSet)
            .pod(&json!({"containers": [echo(&start("5000"))]})),
        Case::echo("stateful").of(Workload::StatefulSet),
        Case::echo("stateful-restart").of(Workload::StatefulSet).change(Change::Restart),
        Case::echo("daemons").of(Workload::DaemonSet),
        Case::echo("recreate").spec(&json!({"strategy": {"type": "Recreate", "rollingUpdate": null}})),
        Case::echo("min-ready").spec(&json!({"minReadySeconds": 5})),
        Case::echo("tight-budget").beside(budget),
        Case::echo("published-before-ready").of(Workload::StatefulSet).beside(published),
        Case::echo("no-probe").pod(&json!({"containers": [echo(&json!({"readinessProbe": null}))]})),
        Case::echo("tcp-probe").pod(&json!({"containers": [echo(&json!({"readinessProbe":
            {"httpGet": null, "tcpSocket": {"port": 8080}, "periodSeconds": 5}}))]})),
        Case::echo("rare-probe").pod(&json!({"containers": [echo(&json!({"readinessProbe": {"periodSeconds": 10}}))]})),
        Case::echo("post-start")
            .pod(&json!({"containers": [echo(&json!({"lifecycle": {"postStart": {"sleep": {"seconds": 4}}}}))]})),
        Case::echo("sidecar-changes").pod(&json!({"initContainers": [sidecar("v1")]})).change(Change::Patch(
            |rollout| json!({"spec": {"template": {"spec": {"initContainers": [sidecar(version(rollout))]}}}}),
        )),
        Case::echo("configuration-from-environment")
            .beside(config)
            .pod(&json!({"containers": [echo(&json!({"envFrom": [{"configMapRef": {"name": "env"}}]}))]}))
            .change(Change::Restart)
            .brought(Brought::Answer(|rollout| format!("config-{rollout}"))),
        local_cache(),
    ]
}

fn sidecar(version: &str) -> Value {
    json!({"name": "proxy", "image": image("echo", version), "restartPolicy": "Always",
        "env": [{"name": "PORT", "value": "15090"}]})
}

/// A cache in an emptyDir that a process of another version does not understand and deletes before it starts.
fn local_cache() -> Case {
    let script = "const f=require('fs'),p='/cache/v';let old='';try{old=f.readFileSync(p)+''}catch(e){}\
                  f.writeFileSync(p,process.env.VERSION+'');const t=old==process.env.VERSION?0:3000;\
                  process.on('SIGTERM',()=>process.exit());\
                  setTimeout(()=>require('http').createServer((q,r)=>r.end()).listen(8080),t)";
    let mut web = node(script);
    web["volumeMounts"] = json!([{"name": "cache", "mountPath": "/cache"}]);
    Case::node("cache-of-a-version", script)
        .pod(&json!({"volumes": [{"name": "cache", "emptyDir": {}}], "containers": [web]}))
}
