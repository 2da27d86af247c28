//! Members of the kinds again: several containers that need each other, configuration that is mounted, and what few pods have.

use hitless_e2e::app::Workload;
use hitless_e2e::stack::image;
use hitless_e2e::traffic::Rate;
use serde_json::{Value, json};

use super::by_hand;
use super::case::{Brought, Case, Change, PLAIN, echo, node, version};
use super::reports::{config_map, word};

pub(super) fn cases() -> Vec<Case> {
    let slow = Rate { fresh: 2, keepalive: 0, connections: 0, delay_ms: 5000 };
    let graceful = json!({"env": [{"name": "MODE", "value": "graceful"}]});
    let probe = |more: Value| {
        let mut web = echo(&json!({}));
        json_patch::merge(&mut web["readinessProbe"], &more);
        json!({"containers": [web]})
    };
    vec![
        behind_a_proxy("behind-a-proxy", false),
        behind_a_proxy("behind-a-pooling-proxy", true),
        behind_a_proxy("behind-a-proxy-lone", false).lone(),
        behind_a_proxy("behind-a-pooling-proxy-lone", true).lone(),
        behind_a_proxy("behind-a-proxy-stateful-lone", true).lone().of(Workload::StatefulSet),
        both_change(),
        slow_worker_beside(),
        Case::node("one-process-namespace-lone", PLAIN).lone().pod(&json!({"shareProcessNamespace": true})),
        Case::echo("parallel-stateful").of(Workload::StatefulSet).spec(&json!({"podManagementPolicy": "Parallel"})),
        Case::echo("long-poll-lone").lone().pod(&json!({"containers": [echo(&graceful)]})).also(slow),
        Case::echo("killed-at-once").pod(&json!({"terminationGracePeriodSeconds": 1, "containers": [echo(&graceful)]})),
        Case::echo("late-probe").pod(&probe(json!({"initialDelaySeconds": 8}))),
        Case::echo("late-probe-lone").lone().pod(&probe(json!({"initialDelaySeconds": 8}))),
        Case::echo("probe-three-times").pod(&probe(json!({"successThreshold": 3, "periodSeconds": 2}))),
        Case::echo("pre-stop-request").pod(&json!({"containers": [echo(&json!({"lifecycle":
            {"preStop": {"httpGet": {"path": "/healthz", "port": 8080}}}}))]})),
        mounted("configuration-mounted", false),
        mounted("configuration-mounted-lone", false).lone(),
        mounted("configuration-by-sub-path", true),
        secret_by_sub_path(),
        downward_by_sub_path(),
        Case::echo("arguments-change").change(Change::Patch(
            |rollout| json!({"spec": {"template": {"spec": {"containers": [{"name": "web", "args": [format!("{rollout}")]}]}}}}),
        )),
        Case::echo("image-and-environment-change").change(Change::Patch(|rollout| {
            let environment = json!([{"name": "ROUND", "value": rollout.to_string()}]);
            let web = json!({"name": "web", "image": image("echo", version(rollout)), "env": environment});
            json!({"spec": {"template": {"spec": {"containers": [web]}}}})
        })),
        Case::echo("drained-node").by_hand(by_hand::drain).alone(),
        Case::echo("drained-node-stateful").of(Workload::StatefulSet).by_hand(by_hand::drain).alone(),
        Case::echo("pod-deleted-meanwhile").by_hand(by_hand::delete).alone(),
        Case::echo("pod-deleted-meanwhile-stateful").of(Workload::StatefulSet).by_hand(by_hand::delete).alone(),
        Case::echo("daemons-host-port").of(Workload::DaemonSet).at_node_port(8089).pod(&json!({"containers": [echo(&json!({
            "ports": [{"containerPort": 8080, "hostPort": 8089, "name": "http"}]}))]})),
    ]
}

/// A reverse proxy that takes all requests, and the container that answers them, whose image changes. The proxy answers 502 while it is away.
fn behind_a_proxy(name: &'static str, keeps_connections: bool) -> Case {
    let script = format!(
        "const h=require('http'),agent=new h.Agent({{keepAlive:{keeps_connections}}});process.on('SIGTERM',()=>process.exit());\
         h.createServer((q,r)=>{{const o=h.request({{agent,port:3000,path:q.url,method:q.method}},a=>{{r.writeHead(a.statusCode,a.headers);a.pipe(r)}});\
         o.on('error',()=>{{r.writeHead(502,{{'content-length':0}});r.end()}});q.pipe(o)}}).listen(8080)"
    );
    let mut web =
        node("process.on('SIGTERM',()=>process.exit());require('http').createServer((q,r)=>r.end()).listen(3000)");
    web["ports"] = json!([{"containerPort": 3000}]);
    web["readinessProbe"]["httpGet"]["port"] = 3000.into();
    let mut proxy = node(&script);
    proxy["name"] = "proxy".into();
    Case::node(name, PLAIN).pod(&json!({"containers": [web, proxy]}))
}

/// Two servers of one pod come to a new version together; the second one starts slowly.
fn both_change() -> Case {
    let second = |rollout: usize| {
        json!({"name": "second", "image": image("echo", version(rollout)), "env": [{"name": "PORT", "value": "8081"},
            {"name": "START_DELAY", "value": "2000"}], "readinessProbe": {"httpGet": {"path": "/healthz", "port": 8081}, "periodSeconds": 1}})
    };
    let images = |rollout: usize| {
        let both = ["web", "second"].map(|name| json!({"name": name, "image": image("echo", version(rollout))}));
        json!({"spec": {"template": {"spec": {"containers": both}}}})
    };
    Case::echo("both-containers-change")
        .pod(&json!({"containers": [echo(&json!({})), second(0)]}))
        .change(Change::Patch(images))
}

/// A container without a port that needs eight seconds to stop, and whose image stays.
fn slow_worker_beside() -> Case {
    let worker = node("process.on('SIGTERM',()=>setTimeout(()=>process.exit(),8000));setInterval(()=>{},1000)");
    let worker = json!({"name": "worker", "image": worker["image"], "command": worker["command"]});
    Case::node("slow-worker-beside-lone", PLAIN).lone().pod(&json!({"containers": [node(PLAIN), worker]}))
}

/// Configuration that the server reads from a file at its start; it is applied right before the restart.
fn mounted(name: &'static str, is_sub_path: bool) -> Case {
    let volume = json!({"name": "in", "configMap": {"name": "conf"}});
    let case = reads_file(name, &volume, is_sub_path).beside(config_map);
    case.change(Change::Restart).brought(Brought::Answer(word))
}

/// The same in a Secret, and an image changes right after it.
fn secret_by_sub_path() -> Case {
    let volume = json!({"name": "in", "secret": {"secretName": "conf"}});
    let beside = |_: &str, rollout| {
        let data = json!({"t": word(rollout)});
        vec![json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "conf"}, "stringData": data})]
    };
    let case = reads_file("secret-by-sub-path-stateful", &volume, true).beside(beside);
    case.of(Workload::StatefulSet).brought(Brought::Answer(word))
}

/// A file with the pod's annotations, some of which an operation in place changes itself.
fn downward_by_sub_path() -> Case {
    let item = json!({"path": "t", "fieldRef": {"fieldPath": "metadata.annotations"}});
    let volume = json!({"name": "in", "downwardAPI": {"items": [item]}});
    reads_file("downward-api-by-sub-path", &volume, true)
}

/// A server that reads the file `t` of this volume at its start, and answers with it.
fn reads_file(name: &'static str, volume: &Value, is_sub_path: bool) -> Case {
    let script = "const t=require('fs').readFileSync('/in/t');process.on('SIGTERM',()=>process.exit());\
                  require('http').createServer((q,r)=>r.end(t)).listen(8080)";
    let mut web = node(script);
    web["volumeMounts"] = if is_sub_path {
        json!([{"name": "in", "mountPath": "/in/t", "subPath": "t"}])
    } else {
        json!([{"name": "in", "mountPath": "/in"}])
    };
    Case::node(name, PLAIN).pod(&json!({"volumes": [volume], "containers": [web]}))
}
