//! Databases and brokers that nobody here wrote, and clients with a pool of connections.

use hitless_e2e::app::Workload;
use serde_json::{Value, json};

use super::case::{Case, container};
use super::client::{NATS, POSTGRESQL, REDIS, Script, service};

pub(super) fn cases() -> Vec<Case> {
    let redis = || case("redis", "server-redis", &["/usr/bin/redis-cli", "-p", "8080", "ping"], REDIS);
    let nats = || case("nats", "server-nats", &[], NATS);
    let postgresql = || {
        let ask = ["/bin/sh", "-c", "/usr/lib/postgresql/*/bin/pg_isready -h 127.0.0.1 -p 8080"];
        let mut case = case("postgresql", "server-postgresql", &ask, POSTGRESQL);
        let spec = &mut case.patch["spec"]["template"]["spec"];
        spec["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
        spec["volumes"] = json!([{"name": "data", "emptyDir": {}}]);
        spec["securityContext"] = json!({"runAsUser": 65_534});
        case
    };
    vec![
        redis(),
        redis().named("redis-stateful-lone").of(Workload::StatefulSet).lone(),
        nats().of(Workload::StatefulSet),
        nats().named("nats-lone").lone(),
        postgresql().of(Workload::StatefulSet).lone(),
    ]
}

/// A server whose clients speak this. `ready`: what its probe runs; without it port 8222 is asked over HTTP.
fn case(name: &'static str, repository: &'static str, ready: &[&str], script: Script) -> Case {
    let mut web = container(repository, "v1");
    web["ports"] = json!([{"containerPort": 8080, "name": name}]);
    web["readinessProbe"] = if ready.is_empty() {
        json!({"httpGet": {"path": "/healthz", "port": 8222}, "periodSeconds": 1})
    } else {
        json!({"exec": {"command": ready}, "periodSeconds": 2, "timeoutSeconds": 5})
    };
    let beside = |_: &str, _: usize| -> Vec<Value> { vec![service(8080, "TCP")] };
    Case::new(name, repository).pod(&json!({"containers": [web]})).beside(beside).client(script).without_http()
}
