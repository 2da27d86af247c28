//! The API's answers: JSON with names in PascalCase.

use std::net::{IpAddr, SocketAddr};

use serde::Deserialize;

use crate::{Mark, Owner, ProviderError, Server, ServerName, ServerState};

use super::call::Operation;

/// Longest words of the API that are passed on, in characters.
const LONGEST_WORDS: usize = 300;

/// The answer to `ListServerGroupServers`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Page {
    servers: Vec<Entry>,
    next_token: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Entry {
    server_id: String,
    #[serde(default)]
    server_ip: String,
    /// None if the group forwards all ports.
    #[serde(default)]
    port: u16,
    weight: u16,
    status: Status,
    #[serde(default)]
    description: String,
}

/// As documented; another one makes the answer void.
#[derive(Clone, Copy, Debug, Deserialize)]
enum Status {
    Adding,
    Available,
    Configuring,
    Removing,
}

/// A refusal.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Refusal {
    pub(super) code: String,
    #[serde(default)]
    message: String,
}

impl Page {
    pub(super) fn read(operation: &Operation, answer: &[u8]) -> Result<Self, ProviderError> {
        serde_json::from_slice(answer).map_err(|error| operation.unexpected(error.to_string()))
    }

    pub(super) fn servers(&self, operation: &Operation, mark: &Mark) -> Result<Vec<Server>, ProviderError> {
        self.servers.iter().map(|entry| entry.server(mark).map_err(|why| operation.unexpected(why))).collect()
    }

    /// Where the next page begins, if there is one.
    pub(super) fn next_token(&self) -> Option<String> {
        self.next_token.clone().filter(|token| !token.is_empty())
    }
}

impl Entry {
    fn server(&self, mark: &Mark) -> Result<Server, String> {
        let address = self.server_ip.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, self.port));
        let ours = address.map(|address| mark.name_of(address)).filter(|name| name.as_str() == self.description);
        let (name, owner) = match ours {
            Some(name) => (name, Owner::Us),
            None => (self.name_of_others()?, Owner::Others),
        };
        let state = match self.status {
            Status::Available if self.weight == 0 => ServerState::Draining,
            Status::Available => ServerState::Ready,
            Status::Adding | Status::Configuring => ServerState::Changing,
            Status::Removing => ServerState::Leaving,
        };
        Ok(Server { name, address, state, weight: self.weight, sessions: None, owner })
    }

    /// A server is known by its id, its address (an interface may have several) and its port.
    fn name_of_others(&self) -> Result<ServerName, String> {
        let name = [self.server_id.as_str(), self.server_ip.as_str(), &self.port.to_string()].join(":");
        ServerName::new(name).map_err(|error| error.to_string())
    }
}

impl Refusal {
    /// What can't be read is passed on as it is.
    pub(super) fn read(answer: &[u8]) -> Self {
        serde_json::from_slice(answer)
            .unwrap_or_else(|_| Self { code: "no code".into(), message: String::from_utf8_lossy(answer).into_owned() })
    }

    fn words(&self) -> String {
        format!("{}: {}", self.code, self.message).chars().take(LONGEST_WORDS).collect()
    }

    /// Too many requests, or a moment of trouble at the other end: the same request may succeed a little later.
    pub(super) fn passes(&self, status: u16) -> bool {
        let begins = |word: &str| self.code.starts_with(word);
        status == 429 || status >= 500 || begins("Throttling") || begins("ServiceUnavailable") || begins("SystemBusy")
    }

    /// The error that it is, by its documented code. The case of codes differs between the API's operations.
    pub(super) fn error(&self, operation: &Operation) -> ProviderError {
        let request = operation.action.to_owned();
        let pool = operation.pool.clone();
        let code = self.code.to_ascii_lowercase();
        let is = |word: &str| code.starts_with(word);
        if is("resourcenotfound.servergroup") {
            return ProviderError::NoPool(pool);
        }
        if is("invalidaccesskeyid") || is("signature") || is("incompletesignature") || is("invalidsecuritytoken") {
            let remedy = "check the access key, its secret and token, and this machine's clock";
            return ProviderError::Denied { request, remedy };
        }
        if is("forbidden") || is("nopermission") {
            let remedy = "let the RAM user or role call nlb:ListServerGroupServers, nlb:AddServersToServerGroup, \
                          nlb:UpdateServerGroupServersAttribute and nlb:RemoveServersFromServerGroup";
            return ProviderError::Denied { request, remedy };
        }
        match &operation.server {
            Some(server) if is("resourcenotfound.backendserver") => {
                ProviderError::NoServer { pool, server: server.clone() }
            }
            Some(server) if is("resourcealreadyexist") || is("resourcealreadyassociated") => {
                ProviderError::Exists { pool, server: server.clone() }
            }
            Some(server)
                if is("conflict.lock") || is("incorrectstatus") || is("operationfailed.resourceisconfiguring") =>
            {
                ProviderError::Busy { pool, server: server.clone(), why: self.words() }
            }
            Some(_) | None => ProviderError::Refused { request, answer: self.words() },
        }
    }
}
