//! A server group: what the documented operations make of it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde_json::{Value, json};

use crate::kind::Kind;

/// A refusal: status, and code. What follows `: ` is its message.
pub(crate) type Refusal = (u16, &'static str);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Backend {
    pub(crate) id: String,
    pub(crate) ip: String,
    pub(crate) kind: String,
    pub(crate) port: u16,
    pub(crate) weight: u16,
    pub(crate) description: String,
    pub(crate) status: &'static str,
    /// Told by CLB only.
    pub(crate) health: &'static str,
}

/// By address and port.
#[derive(Default)]
pub(crate) struct Group {
    pub(crate) servers: BTreeMap<(String, u16), Backend>,
}

impl Group {
    /// What an operation of NLB or ALB answers to these parameters.
    pub(crate) fn answer(&mut self, action: &str, given: &BTreeMap<String, String>) -> Result<Value, Refusal> {
        if given.get("ServerGroupId").map(String::as_str) != Some(Kind::Nlb.group()) {
            return Err((404, "ResourceNotFound.serverGroup"));
        }
        match action {
            "ListServerGroupServers" => return Ok(self.list(given)),
            "AddServersToServerGroup" => self.add(given)?,
            "UpdateServerGroupServersAttribute" => self.update(given)?,
            "RemoveServersFromServerGroup" => self.found(given)?.status = "Removing",
            _ => return Err((404, "InvalidAction.NotFound")),
        }
        Ok(json!({ "RequestId": "54B48E3D-DF70-471B-AA93-08E683A1B45", "JobId": "72dcd26b-f12d-4c27-b3af-18f6aed5" }))
    }

    /// Background tasks come to their end when a listing has shown them.
    fn list(&mut self, given: &BTreeMap<String, String>) -> Value {
        let all: Vec<Value> = self.servers.values().map(Backend::json).collect();
        let (page, next) = page(&all, given);
        if next.is_none() {
            self.servers.retain(|_, server| server.status != "Removing");
            self.servers.values_mut().for_each(|server| server.status = "Available");
        }
        json!({
            "RequestId": "54B48E3D-DF70-471B-AA93-08E683A1B45", "Servers": page, "TotalCount": all.len(),
            "NextToken": next, "MaxResults": given["MaxResults"].parse::<u16>().unwrap(),
        })
    }

    fn add(&mut self, given: &BTreeMap<String, String>) -> Result<(), Refusal> {
        let server = |name: &str| given[&format!("Servers.1.{name}")].clone();
        let backend = Backend {
            id: server("ServerId"),
            ip: server("ServerIp"),
            kind: server("ServerType"),
            port: server("Port").parse().unwrap(),
            weight: weight(given)?,
            description: described(&server("Description"))?,
            status: "Adding",
            health: "",
        };
        match self.servers.entry((backend.ip.clone(), backend.port)) {
            Entry::Vacant(place) => {
                place.insert(backend);
                Ok(())
            }
            Entry::Occupied(_) => Err((400, "ResourceAlreadyExist.BackendServer")),
        }
    }

    fn update(&mut self, given: &BTreeMap<String, String>) -> Result<(), Refusal> {
        let weight = weight(given)?;
        let server = self.found(given)?;
        if server.status != "Available" {
            return Err((400, "IncorrectStatus.serverGroup"));
        }
        (server.weight, server.status) = (weight, "Configuring");
        Ok(())
    }

    fn found(&mut self, given: &BTreeMap<String, String>) -> Result<&mut Backend, Refusal> {
        let key = (given["Servers.1.ServerIp"].clone(), given["Servers.1.Port"].parse().unwrap());
        self.servers.get_mut(&key).ok_or((404, "ResourceNotFound.BackendServer"))
    }
}

impl Backend {
    fn json(&self) -> Value {
        json!({
            "ServerGroupId": Kind::Nlb.group(), "ServerId": self.id, "ServerIp": self.ip, "ServerType": self.kind,
            "Port": self.port, "Weight": self.weight, "Description": self.description, "Status": self.status,
        })
    }
}

/// The page that is asked for, and where the next one begins.
pub(crate) fn page(all: &[Value], given: &BTreeMap<String, String>) -> (Vec<Value>, Option<String>) {
    let most: usize = given["MaxResults"].parse().unwrap();
    let from: usize = given.get("NextToken").map_or(0, |token| token.parse().unwrap());
    let page: Vec<Value> = all.iter().skip(from).take(most).cloned().collect();
    let end = from + page.len();
    (page, (end < all.len()).then(|| end.to_string()))
}

/// Descriptions have letters, digits and a few other characters. CLB's are the shortest.
pub(crate) fn described(description: &str) -> Result<String, Refusal> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-/._".contains(&byte);
    if (2..=80).contains(&description.len()) && description.bytes().all(is_allowed) {
        Ok(description.to_owned())
    } else {
        Err((400, "IllegalParam.Description"))
    }
}

fn weight(given: &BTreeMap<String, String>) -> Result<u16, Refusal> {
    given["Servers.1.Weight"].parse().ok().filter(|weight| *weight <= 100).ok_or((400, "IllegalParam.Weight"))
}
