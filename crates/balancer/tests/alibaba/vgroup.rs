//! A vServer group: what the documented operations make of it, at once.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::group::{Backend, Group, Refusal, described};
use crate::kind::Kind;

const LOAD_BALANCER: &str = "lb-bp1qjwo61pqz3ah";

impl Group {
    pub(crate) fn answer_classic(&mut self, action: &str, given: &BTreeMap<String, String>) -> Result<Value, Refusal> {
        assert_eq!(given["RegionId"], "cn-hangzhou");
        if action == "DescribeHealthStatus" {
            assert_eq!(given["LoadBalancerId"], LOAD_BALANCER);
            return Ok(self.health());
        }
        if given.get("VServerGroupId").map(String::as_str) != Some(Kind::Clb.group()) {
            return Err((404, "InvalidParameter: The specified VServerGroupId does not exist."));
        }
        let list = || serde_json::from_str::<Vec<Given>>(&given["BackendServers"]).unwrap();
        match action {
            "DescribeVServerGroupAttribute" => {}
            "AddVServerGroupBackendServers" => {
                for server in list() {
                    let backend = server.backend()?;
                    let key = (backend.ip.clone(), backend.port);
                    if self.servers.contains_key(&key) {
                        // What the documentation says of operations in general.
                        return Err((400, "InvalidParameter: The resource already exists."));
                    }
                    self.servers.insert(key, backend);
                }
            }
            "SetVServerGroupAttribute" => {
                for server in list() {
                    let backend = server.backend()?;
                    let known = self.servers.get_mut(&(backend.ip.clone(), backend.port));
                    let known = known
                        .filter(|known| known.id == backend.id)
                        .ok_or((400, "InvalidParameter: No such server."))?;
                    (known.weight, known.description) = (backend.weight, backend.description);
                }
            }
            // What is not there is ignored, without an error.
            "RemoveVServerGroupBackendServers" => {
                for server in list() {
                    let port = server.port.parse().unwrap();
                    self.servers
                        .retain(|key, known| *key != (server.server_ip.clone(), port) || known.id != server.server_id);
                }
            }
            _ => return Err((404, "InvalidAction.NotFound")),
        }
        let servers: Vec<Value> = self.servers.values().map(json_of).collect();
        Ok(json!({
            "RequestId": "9DEC9C28-AB05-4DDF-9A78-6B08EC9CE18C", "VServerGroupId": Kind::Clb.group(),
            "VServerGroupName": "Group1", "LoadBalancerId": LOAD_BALANCER, "BackendServers": { "BackendServer": servers },
        }))
    }

    fn health(&self) -> Value {
        let of = |backend: &Backend| {
            json!({
                "ListenerPort": 80, "Protocol": "tcp", "ServerId": backend.id, "Type": backend.kind, "Port": backend.port,
                "ServerIp": "192.168.0.2", "EniHost": backend.ip, "ServerHealthStatus": backend.health,
            })
        };
        let servers: Vec<Value> = self.servers.values().map(of).collect();
        json!({ "RequestId": "365F4154-92F6-4AE4-92F8-7FF34B540710", "BackendServers": { "BackendServer": servers } })
    }
}

/// A server of a request, with all numbers as texts.
#[derive(serde::Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Given {
    server_id: String,
    server_ip: String,
    port: String,
    #[serde(rename = "Type")]
    kind: String,
    weight: Option<String>,
    #[serde(default)]
    description: String,
}

impl Given {
    fn backend(self) -> Result<Backend, Refusal> {
        let weight = self.weight.and_then(|weight| weight.parse().ok()).filter(|weight| *weight <= 100);
        Ok(Backend {
            id: self.server_id,
            ip: self.server_ip,
            kind: self.kind,
            port: self.port.parse().unwrap(),
            weight: weight.ok_or((400, "InvalidParameter: The weight is not valid."))?,
            description: described(&self.description)?,
            status: "Available",
            health: "normal",
        })
    }
}

/// Without a description where there is none.
fn json_of(backend: &Backend) -> Value {
    let mut json = json!({
        "ServerId": backend.id, "ServerIp": backend.ip, "Type": backend.kind, "Port": backend.port, "Weight": backend.weight,
    });
    if !backend.description.is_empty() {
        json["Description"] = backend.description.as_str().into();
    }
    json
}
