//! Applications of public reports, in our own words; the numbers are those of the collection in which they were first tried.

use hitless_e2e::app::Workload;
use hitless_e2e::stack::image;
use hitless_e2e::traffic::Rate;
use serde_json::{Value, json};

use super::by_hand::{LOADED, MIGRATING, MIRRORED, SHARE, cordon, fill, load, push_migrating, push_mirrored};
use super::case::{Brought, Case, Change, PLAIN, echo, node, version, with_state};
use super::client::{DATAGRAMS, HTTP2_OVER_TLS, service};

/// What a server answers that has read the ConfigMap `conf` before a rollout.
pub(super) fn word(rollout: usize) -> String {
    format!("word-{rollout}")
}

/// The ConfigMap `conf` of a rollout.
pub(super) fn config_map(_namespace: &str, rollout: usize) -> Vec<Value> {
    vec![json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "conf"}, "data": {"t": word(rollout)}})]
}

fn checksum(rollout: usize) -> Value {
    json!({"spec": {"template": {"metadata": {"annotations": {"checksum/config": word(rollout)}}}}})
}

/// What a webhook for sidecars puts into new pods of a namespace.
fn injection(namespace: &str, rollout: usize) -> Vec<Value> {
    let name = format!("inject-{namespace}");
    let proxy = format!(
        "Object{{spec: Object.spec{{containers: [Object.spec.containers{{name: \"proxy\", image: \"{}\", \
         env: [Object.spec.containers.env{{name: \"PORT\", value: \"15090\"}}]}}]}}}}",
        image("echo", injected(rollout))
    );
    let is_web = "object.metadata.?labels[?\"app\"].orValue(\"\") == \"web\"";
    let mutation = json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": proxy}});
    mutating_policy(namespace, &name, is_web, &mutation)
}

/// The proxy's version does not change in the first rollout.
fn injected(rollout: usize) -> &'static str {
    version(rollout.max(1))
}

fn limits(_namespace: &str, _rollout: usize) -> Vec<Value> {
    let range = |name: &str, limit: Value| json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": name}, "spec": {"limits": [limit]}});
    vec![
        range("least", json!({"type": "Container", "min": {"cpu": "20m", "memory": "16Mi"}})),
        range("ratio", json!({"type": "Container", "maxLimitRequestRatio": {"cpu": "4", "memory": "4"}})),
    ]
}

fn service_for_each_pod(_namespace: &str, _rollout: usize) -> Vec<Value> {
    let of = |number: u32| {
        let selector = json!({"app": "web", "statefulset.kubernetes.io/pod-name": format!("web-{number}")});
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("web-{number}")},
            "spec": {"type": "NodePort", "selector": selector, "ports": [{"port": 80, "targetPort": 8080}]}})
    };
    (0..3).map(of).collect()
}

fn extra_port(_namespace: &str, rollout: usize) -> Vec<Value> {
    let data = if rollout == 0 { json!({"extra": "9100"}) } else { json!({"other": word(rollout)}) };
    vec![json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ports"}, "data": data})]
}

pub(super) fn cases() -> Vec<Case> {
    let slow_request = Rate { fresh: 1, keepalive: 0, connections: 0, delay_ms: 15_000 };
    let pre_stop = |seconds: u32| json!({"preStop": {"sleep": {"seconds": seconds}}});
    let lease = "const f=require('fs'),l='/state/lease';try{if(Date.now()-f.statSync(l).mtimeMs<12000)process.exit(1)}catch(e){}\
                 setInterval(()=>f.writeFileSync(l,''),1000);";
    let pid = "const f=require('fs'),p='/state/pid';if(f.existsSync(p)){console.error('already running');process.exit(1)}\
               f.writeFileSync(p,'1');";
    let late = "const t=Date.now();process.on('SIGTERM',()=>process.exit());\
                require('http').createServer((q,r)=>{r.statusCode=Date.now()-t<8000?503:200;r.end()}).listen(8080)";
    let many = |seconds: u32| {
        let other = |name: &str, port: &str| {
            json!({"name": name, "image": image("echo", "v1"), "env": [{"name": "PORT", "value": port}],
                "lifecycle": pre_stop(seconds)})
        };
        let web = echo(&json!({"lifecycle": pre_stop(seconds)}));
        json!({"containers": [web, other("b", "8081"), other("c", "8082")]})
    };
    vec![
        Case::echo("o01-injected-sidecar")
            .beside(injection)
            .change(Change::Restart)
            .brought(Brought::Container("proxy", |rollout| image("echo", injected(rollout)))),
        rendered(),
        Case::echo("o03-slow-request")
            .lone()
            .pod(&json!({"containers": [echo(&json!({"env": [{"name": "MODE", "value": "graceful"}]}))]}))
            .also(slow_request),
        Case::echo("o08-limit-ranges").beside(limits).pod(&json!({"containers": [echo(&json!({"resources":
            {"requests": {"cpu": "50m", "memory": "32Mi"}, "limits": {"cpu": "100m", "memory": "64Mi"}}}))]})),
        Case::echo("o09-slow-stop")
            .spec(&json!({"progressDeadlineSeconds": 30}))
            .pod(&json!({"terminationGracePeriodSeconds": 60, "containers": [echo(&json!({"lifecycle": pre_stop(40)}))]})),
        Case::new("o10-startup-probe", MIGRATING)
            .by_hand(push_migrating)
            .pod(&json!({"terminationGracePeriodSeconds": 5, "containers": [echo(&json!({"image": image(MIGRATING, "v1"),
                "startupProbe": {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 5, "failureThreshold": 60}}))]})),
        with_state("o11-lease", lease),
        Case::echo("o12-service-for-each-pod")
            .of(Workload::StatefulSet)
            .beside(service_for_each_pod)
            .pod(&json!({"containers": [echo(&json!({"env": [{"name": "START_DELAY", "value": "6000"}]}))]})),
        over_tls(),
        datagrams(),
        Case::node("o15-listens-early", late),
        Case::echo("o18-three-slow-containers").change(Change::Restart).pod(&many(25)),
        Case::echo("o19-prestop-lone").lone().pod(&json!({"containers": [echo(&json!({"lifecycle": pre_stop(10)}))]})),
        Case::echo("o19-prestop-stateful")
            .lone()
            .of(Workload::StatefulSet)
            .pod(&json!({"containers": [echo(&json!({"lifecycle": pre_stop(10)}))]})),
        Case::echo("o20-chart-labels").metadata(&json!({"labels": {"helm.sh/chart": "web-1"}})).change(Change::Patch(|rollout| {
            let labels = json!({"helm.sh/chart": format!("web-{}", rollout + 1), "app.kubernetes.io/version": version(rollout)});
            let container = json!({"name": "web", "image": image("echo", version(rollout))});
            json!({"spec": {"template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}}}})
        })),
        with_state("o21-stale-pid-file", pid),
        Case::echo("o23-host-port")
            .of(Workload::DaemonSet)
            .at_node_port(18_080)
            .pod(&json!({"containers": [echo(&json!({"env": [{"name": "START_DELAY", "value": "1000"}],
                "ports": [{"containerPort": 8080, "hostPort": 18_080, "name": "http"}]}))]})),
        dropped_port(),
        Case::echo("o05-loaded-image")
            .change(Change::Restart)
            .by_hand(load)
            .pod(&json!({"containers": [echo(&json!({"image": LOADED}))]})),
        Case::echo("o06-cordoned-node").of(Workload::DaemonSet).alone().by_hand(cordon),
        Case::echo("o07-full-nodes")
            .replicas(4)
            .alone()
            .by_hand(fill)
            .pod(&json!({"containers": [echo(&json!({"resources": {"requests": {"cpu": SHARE}}}))]})),
        Case::new("o22-mirrored-image", MIRRORED)
            .by_hand(push_mirrored)
            .beside(mirror)
            .pod(&json!({"containers": [echo(&json!({"image": image(MIRRORED, "v1")}))]}))
            .brought(Brought::Container("web", mirrored)),
    ]
}

/// What a webhook of a registry's mirror does to new pods of a namespace.
fn mirror(namespace: &str, _rollout: usize) -> Vec<Value> {
    let name = format!("mirror-{namespace}");
    let replace = "[JSONPatch{op: \"replace\", path: \"/spec/containers/0/image\", \
                   value: object.spec.containers[0].image.replace(\"hitless.test/\", \"mirror.hitless.test/\")}]";
    let not_yet = "!object.spec.containers[0].image.startsWith(\"mirror.\")";
    let mutation = json!({"patchType": "JSONPatch", "jsonPatch": {"expression": replace}});
    mutating_policy(namespace, &name, not_yet, &mutation)
}

/// A policy, and its binding, that changes pods of the application when they are made.
fn mutating_policy(namespace: &str, name: &str, condition: &str, mutation: &Value) -> Vec<Value> {
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]});
    let spaces = json!({"matchLabels": {"kubernetes.io/metadata.name": namespace}});
    vec![
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy", "metadata": {"name": name},
            "spec": {"reinvocationPolicy": "IfNeeded", "failurePolicy": "Fail",
                "matchConstraints": {"namespaceSelector": spaces, "resourceRules": [rule]},
                "matchConditions": [{"name": "wanted", "expression": condition}],
                "mutations": [mutation]}}),
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding",
            "metadata": {"name": name}, "spec": {"policyName": name}}),
    ]
}

/// Under the mirror's name.
fn mirrored(rollout: usize) -> String {
    format!("mirror.{}", image(MIRRORED, version(rollout)))
}

/// O-02: only a new pod runs the init container again.
fn rendered() -> Case {
    let render = "require('fs').writeFileSync('/out/t',require('fs').readFileSync('/in/t'))";
    let serve = "const t=require('fs').readFileSync('/out/t');process.on('SIGTERM',()=>process.exit());\
                 require('http').createServer((q,r)=>r.end(t)).listen(8080)";
    let mut web = node(serve);
    web["volumeMounts"] = json!([{"name": "out", "mountPath": "/out"}]);
    let init = json!({"name": "render", "image": image("server-node", "v1"), "command": ["/usr/bin/node", "-e", render],
        "volumeMounts": [{"name": "in", "mountPath": "/in"}, {"name": "out", "mountPath": "/out"}]});
    let volumes = json!([{"name": "in", "configMap": {"name": "conf"}}, {"name": "out", "emptyDir": {}}]);
    Case::node("o02-rendered-configuration", PLAIN)
        .beside(config_map)
        .pod(&json!({"volumes": volumes, "initContainers": [init], "containers": [web]}))
        .metadata(&json!({"annotations": {"checksum/config": word(0)}}))
        .change(Change::Patch(checksum))
        .brought(Brought::Answer(word))
}

/// O-24: a port that nobody used is not there any more after the first restart.
fn dropped_port() -> Case {
    let mut web = node(
        "const h=require('http'),s=()=>h.createServer((q,r)=>r.end());s().listen(8080);\
         if(process.env.EXTRA)s().listen(+process.env.EXTRA);process.on('SIGTERM',()=>process.exit())",
    );
    let key = json!({"name": "ports", "key": "extra", "optional": true});
    web["env"] = json!([{"name": "EXTRA", "valueFrom": {"configMapKeyRef": key}}]);
    let mut case = Case::node("o24-dropped-port", PLAIN)
        .lone()
        .beside(extra_port)
        .pod(&json!({"containers": [web]}))
        .change(Change::Restart);
    case.patch["metadata"] = json!({"annotations": {"hitless.dev/companion": "Never"}});
    case
}

/// O-13: HTTP/2 behind TLS, on a port that is probed over HTTPS. Its server says goodbye to its clients.
fn over_tls() -> Case {
    let script = "const f=require('fs'),h=require('http2'),all=new Set();\
        const s=h.createSecureServer({key:f.readFileSync('/tls/key'),cert:f.readFileSync('/tls/cert'),allowHTTP1:true},(q,r)=>r.end('ok'));\
        s.on('session',x=>{all.add(x);x.on('close',()=>all.delete(x))});s.listen(8443);\
        require('http').createServer((q,r)=>r.end()).listen(8080);\
        process.on('SIGTERM',()=>{s.close();for(const x of all)x.close();setTimeout(()=>process.exit(),1000)})";
    let mut web = node(script);
    web["ports"] = json!([{"containerPort": 8080, "name": "http"}, {"containerPort": 8443, "name": "https"}]);
    web["readinessProbe"] =
        json!({"httpGet": {"path": "/healthz", "port": "https", "scheme": "HTTPS"}, "periodSeconds": 1});
    web["lifecycle"] = json!({"preStop": {"sleep": {"seconds": 3}}});
    web["volumeMounts"] = json!([{"name": "tls", "mountPath": "/tls"}]);
    let beside = |_: &str, rollout: usize| {
        if rollout > 0 {
            return Vec::new();
        }
        let mut objects = vec![service(8443, "TCP")];
        if let Ok(made) = rcgen::generate_simple_self_signed(["web".to_owned()]) {
            let data = json!({"cert": made.cert.pem(), "key": made.signing_key.serialize_pem()});
            objects
                .push(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "tls"}, "stringData": data}));
        }
        objects
    };
    Case::node("o13-http2-over-tls", PLAIN)
        .beside(beside)
        .pod(&json!({"volumes": [{"name": "tls", "secret": {"secretName": "tls"}}], "containers": [web]}))
        .client(HTTP2_OVER_TLS)
}

/// O-14: a server of datagrams with a port for its health.
fn datagrams() -> Case {
    let script = "const u=require('dgram').createSocket('udp4');u.on('message',(m,a)=>u.send(m,a.port,a.address));u.bind(5353);\
        require('http').createServer((q,r)=>r.end()).listen(8080);process.on('SIGTERM',()=>process.exit())";
    let mut web = node(script);
    web["ports"] = json!([{"containerPort": 8080, "name": "http"},
        {"containerPort": 5353, "name": "dns", "protocol": "UDP"}]);
    let beside = |_: &str, _: usize| vec![service(5353, "UDP")];
    Case::node("o14-datagrams", PLAIN).beside(beside).pod(&json!({"containers": [web]})).client(DATAGRAMS)
}
