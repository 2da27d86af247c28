//! Members of the reports' kinds that nobody has reported to us: other protocols, other probes, other leftovers of a container's last life.

use hitless_e2e::app::Workload;
use hitless_e2e::traffic::Rate;
use serde_json::{Value, json};

use super::case::{Case, Change, PLAIN, echo, node, with_state};
use super::client::{HTTP2_CLEARTEXT, QUERIES, UPGRADED, service};

fn quota(_namespace: &str, _rollout: usize) -> Vec<Value> {
    vec![
        json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "pods"}, "spec": {"hard": {"pods": "4"}}}),
    ]
}

/// Clients stay with the pod that they had first.
fn sticky(_namespace: &str, rollout: usize) -> Vec<Value> {
    if rollout == 0 {
        return Vec::new();
    }
    vec![json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "sessionAffinity": "ClientIP", "ports": [{"port": 80, "targetPort": 8080}]}})]
}

/// A key that the containers' environment needs and that somebody takes away.
fn needed_key(_namespace: &str, rollout: usize) -> Vec<Value> {
    let data = if rollout == 0 { json!({"word": "a"}) } else { json!({"other": "b"}) };
    vec![json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "needs"}, "data": data})]
}

pub(super) fn cases() -> Vec<Case> {
    let environment = |name: &str, value: &str| json!([{"name": name, "value": value}]);
    let from_config = json!([{"name": "WORD", "valueFrom": {"configMapKeyRef": {"name": "needs", "key": "word"}}}]);
    let slow_requests = Rate { fresh: 1, keepalive: 0, connections: 0, delay_ms: 12_000 };
    let startup_probe =
        json!({"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 2, "failureThreshold": 60});
    let mut all = vec![
        Case::echo("key-taken-away").beside(needed_key).change(Change::Restart).pod(&json!({"containers": [echo(&json!({"env": from_config}))]})),
        Case::echo("key-taken-away-lone").lone().beside(needed_key).change(Change::Restart).pod(&json!({"containers": [echo(&json!({"env": from_config}))]})),
        Case::echo("full-quota").replicas(4).beside(quota),
        Case::echo("sticky-clients").beside(sticky),
        Case::echo("no-surge").spec(&json!({"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}})),
        Case::echo("all-at-once").spec(&json!({"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "100%"}}})),
        Case::echo("recreate-lone").lone().spec(&json!({"strategy": {"type": "Recreate", "rollingUpdate": null}})),
        Case::echo("slow-requests-graceful")
            .pod(&json!({"containers": [echo(&json!({"env": environment("MODE", "graceful")}))]}))
            .also(slow_requests),
        Case::echo("always-pull").pod(&json!({"containers": [echo(&json!({"imagePullPolicy": "Always"}))]})),
        Case::echo("starts-long-lone").lone().pod(&json!({"containers": [echo(&json!({"env": environment("START_DELAY", "40000"),
            "startupProbe": startup_probe}))]})),
        Case::echo("impatient-liveness").pod(&json!({"containers": [echo(&json!({"env": environment("START_DELAY", "2500"),
            "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080}, "initialDelaySeconds": 5, "periodSeconds": 1, "failureThreshold": 2}}))]})),
        Case::echo("host-network").of(Workload::DaemonSet).at_node_port(8080).pod(&json!({"hostNetwork": true})),
    ];
    all.extend([
        Case::node("closes-early", CLOSES_EARLY),
        Case::node("closes-early-lone", CLOSES_EARLY).lone(),
        Case::node("exec-probe", PLAIN).pod(&json!({"containers": [exec_probe()]})),
        memory_of_before(),
        post_start_once(),
        Case::node("websockets", SERVES_WEBSOCKETS).beside(|_, _| vec![service(8080, "TCP")]).client(UPGRADED),
        with_second_port("http2-cleartext", "http2", SERVES_HTTP2).client(HTTP2_CLEARTEXT),
        with_second_port("query-pool", "pg", SERVES_QUERIES).client(QUERIES),
        with_second_port("query-pool-stateful-lone", "pg", SERVES_QUERIES)
            .lone()
            .of(Workload::StatefulSet)
            .client(QUERIES),
    ]);
    all
}

const CLOSES_EARLY: &str = "const s=require('http').createServer((q,r)=>r.end()).listen(8080);\
    process.on('SIGTERM',()=>{s.close();s.closeIdleConnections();setTimeout(()=>process.exit(),6000)})";
const SERVES_WEBSOCKETS: &str = "const s=require('http').createServer((q,r)=>r.end()).listen(8080);process.on('SIGTERM',()=>process.exit());\
    s.on('upgrade',(q,k)=>{k.write('HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: echo\\r\\nConnection: Upgrade\\r\\n\\r\\n');\
    k.on('error',()=>{});k.on('data',d=>k.write(d))})";
const SERVES_HTTP2: &str = "const h=require('http2').createServer();h.on('request',(q,r)=>r.end('ok'));h.listen(8081);";
const SERVES_QUERIES: &str =
    "require('net').createServer(k=>{k.on('error',()=>{});k.on('data',d=>k.write(d))}).listen(8081);";

/// The plain server with a second port of this name, whose server is the script.
fn with_second_port(name: &'static str, port: &str, script: &str) -> Case {
    let mut web = node(&format!("{script}{PLAIN}"));
    web["ports"] = json!([{"containerPort": 8080, "name": "http"}, {"containerPort": 8081, "name": port}]);
    let beside = |_: &str, _: usize| vec![service(8081, "TCP")];
    Case::node(name, PLAIN).pod(&json!({"containers": [web]})).beside(beside)
}

fn exec_probe() -> Value {
    let mut web = node(PLAIN);
    let ask = "require('http').get('http://127.0.0.1:8080',r=>process.exit(r.statusCode==200?0:1)).on('error',()=>process.exit(1))";
    web["readinessProbe"] =
        json!({"exec": {"command": ["/usr/bin/node", "-e", ask]}, "periodSeconds": 3, "timeoutSeconds": 3});
    web
}

/// Files that each start leaves behind in memory.
fn memory_of_before() -> Case {
    let mut case =
        with_state("memory-of-before", "require('fs').writeFileSync('/state/'+Date.now(),Buffer.alloc(30<<20,1));");
    let spec = &mut case.patch["spec"]["template"]["spec"];
    spec["volumes"][0]["emptyDir"] = json!({"medium": "Memory"});
    spec["containers"][0]["resources"] = json!({"limits": {"memory": "128Mi"}, "requests": {"memory": "16Mi"}});
    case
}

/// A hook that works once in an emptyDir's life.
fn post_start_once() -> Case {
    let mut case = with_state("post-start-once", "");
    let hook = json!({"exec": {"command": ["/usr/bin/node", "-e", "require('fs').mkdirSync('/state/made')"]}});
    case.patch["spec"]["template"]["spec"]["containers"][0]["lifecycle"] = json!({"postStart": hook});
    case
}
