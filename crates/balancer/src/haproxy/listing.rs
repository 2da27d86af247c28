//! `show servers state` and `show stat`: tables with a line of headings. Columns are found by their names, since each version adds some.

mod table;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use crate::{Mark, Owner, PoolName, ProviderError, Server, ServerName, ServerState};

use super::answer::refused_pool;
use table::Table;

/// `srv_admin_state`, as HAProxy's management guide lists it: forced, inherited, configured, by DNS, by a host name.
const MAINTENANCE: u32 = 0x01 | 0x02 | 0x04 | 0x20 | 0x40;
/// Forced, inherited.
const DRAIN: u32 = 0x08 | 0x10;
/// The only format of `show servers state` so far.
const FORMAT: &str = "1";
/// After each answer.
const END: &str = "\n\n";
const BREAKS_OFF: &str = "it breaks off: an empty line at its end is missing";

/// A line of `show servers state`.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    name: ServerName,
    address: Option<SocketAddr>,
    state: ServerState,
    weight: u16,
}

/// A line of `show stat`.
#[derive(Debug, PartialEq, Eq)]
struct Count {
    sessions: u32,
    backup: bool,
}

/// Reads both answers: of `show servers state <backend>`, then of `show stat <backend> 4 -1`.
pub(super) fn servers(pool: &PoolName, mark: &Mark, command: &str, answer: &str) -> Result<Vec<Server>, ProviderError> {
    if let Some(refused) = refused_pool(pool, command, answer) {
        return Err(refused);
    }
    let unexpected = |why| ProviderError::Unexpected { request: command.to_owned(), why };
    // Each answer ends with an empty line. Without it, it has broken off.
    let (states_answer, counts_answer) = answer.split_once(END).ok_or_else(|| unexpected(BREAKS_OFF.into()))?;
    let counts_answer = counts_answer.strip_suffix(END).ok_or_else(|| unexpected(BREAKS_OFF.into()))?;
    let lines = states(pool, states_answer).map_err(unexpected)?;
    let counts = counts(counts_answer).map_err(unexpected)?;
    join(pool, mark, lines, counts)
}

fn states(pool: &PoolName, answer: &str) -> Result<Vec<Line>, String> {
    let table = answer.strip_prefix(FORMAT).and_then(|answer| answer.strip_prefix('\n'));
    Table::spaces(table.ok_or("it is not of format 1")?)?.rows(|row| {
        let name = ServerName::new(row.get("srv_name")?).map_err(|error| error.to_string())?;
        if row.get("be_name")? != pool.as_str() {
            return Err(format!("{name} is of another backend"));
        }
        let weight = row.number("srv_uweight")?;
        let state = state(row.number("srv_op_state")?, row.number("srv_admin_state")?, weight)?;
        Ok(Line { name, address: address(row.get("srv_addr")?, row.number("srv_port")?), state, weight })
    })
}

fn counts(answer: &str) -> Result<BTreeMap<String, Count>, String> {
    let counts = Table::commas(answer)?.rows(|row| {
        // Sessions that have a connection or are about to make one, and those that wait for this server.
        let (open, queued): (u32, u32) = (row.number("scur")?, row.number("qcur")?);
        let count = Count { sessions: open.saturating_add(queued), backup: row.number::<u8>("bck")? > 0 };
        Ok((row.get("svname")?.to_owned(), count))
    })?;
    Ok(counts.into_iter().collect())
}

/// Both answers are of one moment only if they list the same servers.
fn join(
    pool: &PoolName,
    mark: &Mark,
    states: Vec<Line>,
    mut counts: BTreeMap<String, Count>,
) -> Result<Vec<Server>, ProviderError> {
    let changed = |server: &str| ProviderError::Changed { pool: pool.clone(), server: server.to_owned() };
    let mut servers = Vec::with_capacity(states.len());
    for Line { name, address, state, weight } in states {
        let count = counts.remove(name.as_str()).ok_or_else(|| changed(name.as_str()))?;
        let state = if count.backup && state == ServerState::Ready { ServerState::Standby } else { state };
        let owner = owner(mark, &name, address);
        servers.push(Server { name, address, state, weight, sessions: Some(count.sessions), owner });
    }
    match counts.keys().next() {
        Some(other) => Err(changed(other)),
        None => Ok(servers),
    }
}

/// `op`: stopped, starting (throttled by `slowstart`), running, stopping (by its own health check's word).
fn state(op: u8, admin: u32, weight: u16) -> Result<ServerState, String> {
    if admin & MAINTENANCE != 0 {
        return Ok(ServerState::Maintenance);
    }
    if admin & DRAIN != 0 || weight == 0 {
        return Ok(ServerState::Draining);
    }
    match op {
        1 | 2 => Ok(ServerState::Ready),
        0 | 3 => Ok(ServerState::Unhealthy),
        _ => Err(format!("srv_op_state {op} is not documented")),
    }
}

/// A dash stands for an address that is not known (yet).
fn address(ip: &str, port: u16) -> Option<SocketAddr> {
    ip.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, port))
}

fn owner(mark: &Mark, name: &ServerName, address: Option<SocketAddr>) -> Owner {
    match mark.address_of(name) {
        None => Owner::Others,
        Some(from) if address == Some(from) => Owner::Us,
        Some(from) => Owner::UsMoved { from },
    }
}

#[cfg(test)]
mod tests;
