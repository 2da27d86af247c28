//! The block on new connections: a table of the packet filter that drops SYNs, and that ends by itself.
//!
//! ```text
//! table inet hitless-hold {
//!   set ports    { type inet_service; flags timeout }            each port, for as long as the hold may last at all
//!   set window   { flags dynamic,timeout; timeout <cap> }        filled by the first held SYN
//!   set started  { flags dynamic,timeout; timeout <longer> }     the same, but it outlives the ports
//!   chain input  { hook input priority -300
//!     tcp flags & (fin|syn|rst|ack) == syn, port in ports: jump parked }
//!   chain parked {
//!     address exempt: return
//!     not in started: add to window, add to started
//!     in window: drop }
//! }
//! ```
//!
//! The window opens with the first SYN that is held and closes after the cap, without anybody's help: `started` keeps a
//! later SYN from opening it again. So no client is held for longer than the cap, whether the agent lives or not. It is
//! added to `window` first, or another processor could for a moment see a hold that has started and is over.
//!
//! The match is stateless. `ct state new` would switch connection tracking on in the pod's namespace, which then takes
//! every existing connection for a new one.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use crate::nfnetlink::{Attributes, Batch, Nfnetlink, attribute, attributes};

/// All tables of this crate are named so; see [`crate::sweep_holds`].
const PREFIX: &str = "hitless-";
const TABLE: &str = "hitless-hold";

const NEW_TABLE: u16 = 0;
const GET_TABLE: u16 = 1;
const DELETE_TABLE: u16 = 2;
const NEW_CHAIN: u16 = 3;
const NEW_RULE: u16 = 6;
const NEW_SET: u16 = 9;
const NEW_ELEMENTS: u16 = 12;
const GET_ELEMENTS: u16 = 13;

const NLM_F_CREATE: u16 = 0x400;
const NLM_F_APPEND: u16 = 0x800;

/// Before connection tracking and address translation of the pod's own, if it has any.
const PRIORITY: i32 = -300;
const HOOK_INPUT: u32 = 1;

const SET_TIMEOUT: u32 = 0x10;
const SET_DYNAMIC: u32 = 0x20;

/// `NFT_REG_1`: the one register that the expressions need.
const REGISTER: u32 = 1;
const VERDICT_REGISTER: u32 = 0;
const DROP: i32 = 0;
const JUMP: i32 = -3;
const RETURN: i32 = -5;

const NETWORK_HEADER: u32 = 1;
const TRANSPORT_HEADER: u32 = 2;
const TCP: u8 = 6;
/// FIN, SYN, RST, ACK.
const FLAGS_MASK: u8 = 0x17;
const SYN: u8 = 0x02;

/// The only element of `window` and `started`.
const KEY: [u8; 4] = [0; 4];

/// What the block is to do.
#[derive(Debug)]
pub(super) struct Rules<'a> {
    pub(super) ports: &'a [u16],
    pub(super) cap: Duration,
    pub(super) expires_after: Duration,
    pub(super) exempt: &'a [IpAddr],
}

impl Rules<'_> {
    /// How long `started` lasts: beyond the last moment at which a port is blocked.
    fn memory(&self) -> Duration {
        self.expires_after + self.cap
    }
}

/// The packet filter of the pod's namespace.
#[derive(Debug)]
pub(super) struct Block {
    nft: Nfnetlink,
    /// Of `started`, while the table is there.
    memory: Option<Duration>,
}

impl Block {
    pub(super) fn new(nft: Nfnetlink) -> Self {
        Self { nft, memory: None }
    }

    /// Begins to block. A block that is there already, even another process's, is replaced in one step.
    pub(super) fn install(&mut self, rules: &Rules<'_>) -> io::Result<()> {
        self.nft.commit(|batch| {
            table(batch, NEW_TABLE, NLM_F_CREATE, TABLE);
            table(batch, DELETE_TABLE, 0, TABLE);
            table(batch, NEW_TABLE, NLM_F_CREATE, TABLE);
            set(batch, "ports", 1, SET_TIMEOUT, 2, rules.expires_after);
            set(batch, "window", 2, SET_TIMEOUT | SET_DYNAMIC, KEY.len(), rules.cap);
            set(batch, "started", 3, SET_TIMEOUT | SET_DYNAMIC, KEY.len(), rules.memory());
            batch.change(NEW_ELEMENTS, NLM_F_CREATE, |list| {
                list.name(1, TABLE);
                list.name(2, "ports");
                list.nested(3, |elements| {
                    for port in rules.ports {
                        element(elements, &port.to_be_bytes());
                    }
                });
            });
            chain(batch, "parked", false);
            chain(batch, "input", true);
            for address in rules.exempt {
                rule(batch, "parked", |list| exempt(list, *address));
            }
            rule(batch, "parked", open_window);
            rule(batch, "parked", drop_in_window);
            rule(batch, "input", divert_new_connections);
        })?;
        self.memory = Some(rules.memory());
        Ok(())
    }

    /// Ends the block. `false` when there was none any more.
    pub(super) fn lift(&mut self) -> io::Result<bool> {
        self.memory = None;
        delete(&mut self.nft, TABLE)
    }

    /// How long ago the first SYN was held, by the kernel's own clock; `None` when none was.
    pub(super) fn started(&mut self) -> io::Result<Option<Duration>> {
        let Some(memory) = self.memory else { return Ok(None) };
        let answer = self.nft.get(GET_ELEMENTS, |list| {
            list.name(1, TABLE);
            list.name(2, "started");
            list.nested(3, |elements| element(elements, &KEY));
        })?;
        answer.map(|object| expiration(&object).map(|left| memory.saturating_sub(left))).transpose()
    }
}

/// Names of the tables with our prefix.
pub(super) fn names(nft: &mut Nfnetlink) -> io::Result<Vec<String>> {
    let tables = nft.list(GET_TABLE)?;
    let names = tables.iter().filter_map(|table| attribute(table, 1));
    let names = names.map(|name| String::from_utf8_lossy(name.strip_suffix(&[0]).unwrap_or(name)).into_owned());
    Ok(names.filter(|name| name.starts_with(PREFIX)).collect())
}

/// Deletes a table with all that is in it. `false` when it has gone.
pub(super) fn delete(nft: &mut Nfnetlink, name: &str) -> io::Result<bool> {
    match nft.commit(|batch| table(batch, DELETE_TABLE, 0, name)) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn expiration(object: &[u8]) -> io::Result<Duration> {
    let elements = attribute(object, 3).unwrap_or_default();
    attributes(elements)
        .find_map(|(_, element)| attribute(element, 5)?.first_chunk().copied())
        .map(|milliseconds| Duration::from_millis(u64::from_be_bytes(milliseconds)))
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "an element without expiration"))
}

fn table(batch: &mut Batch, kind: u16, flags: u16, name: &str) {
    batch.change(kind, flags, |table| table.name(1, name));
}

fn set(batch: &mut Batch, name: &str, id: u32, flags: u32, key_length: usize, timeout: Duration) {
    // As what `nft` shows the keys: `inet_service` and `mark`.
    let key_type = if key_length == 2 { 13 } else { 19 };
    batch.change(NEW_SET, NLM_F_CREATE, |set| {
        set.name(1, TABLE);
        set.name(2, name);
        set.u32(3, flags);
        set.u32(4, key_type);
        set.u32(5, u32::try_from(key_length).unwrap_or(u32::MAX));
        set.u32(10, id);
        set.u64(11, u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
    });
}

fn element(elements: &mut Attributes<'_>, key: &[u8]) {
    elements.nested(1, |element| element.nested(1, |data| data.bytes(1, key)));
}

fn chain(batch: &mut Batch, name: &str, is_hook: bool) {
    batch.change(NEW_CHAIN, NLM_F_CREATE, |chain| {
        chain.name(1, TABLE);
        chain.name(3, name);
        if is_hook {
            chain.nested(4, |hook| {
                hook.u32(1, HOOK_INPUT);
                hook.bytes(2, &PRIORITY.to_be_bytes());
            });
            chain.name(7, "filter");
        }
    });
}

fn rule(batch: &mut Batch, chain: &str, fill: impl FnOnce(&mut Attributes<'_>)) {
    batch.change(NEW_RULE, NLM_F_CREATE | NLM_F_APPEND, |rule| {
        rule.name(1, TABLE);
        rule.name(2, chain);
        rule.nested(4, fill);
    });
}

/// `tcp flags & (fin|syn|rst|ack) == syn, port in ports: jump parked`
fn divert_new_connections(rule: &mut Attributes<'_>) {
    load_meta(rule, 16);
    compare(rule, &[TCP]);
    load_payload(rule, TRANSPORT_HEADER, 13, 1);
    expression(rule, "bitwise", |bitwise| {
        bitwise.u32(1, REGISTER);
        bitwise.u32(2, REGISTER);
        bitwise.u32(3, 1);
        bitwise.nested(4, |mask| mask.bytes(1, &[FLAGS_MASK]));
        bitwise.nested(5, |xor| xor.bytes(1, &[0]));
    });
    compare(rule, &[SYN]);
    load_payload(rule, TRANSPORT_HEADER, 2, 2);
    look_up(rule, "ports", false);
    verdict(rule, JUMP, Some("parked"));
}

/// `not in started: add to window, add to started`
fn open_window(rule: &mut Attributes<'_>) {
    load_key(rule);
    look_up(rule, "started", true);
    for name in ["window", "started"] {
        expression(rule, "dynset", |add| {
            add.name(1, name);
            add.u32(3, 0);
            add.u32(4, REGISTER);
        });
    }
}

/// `in window: drop`
fn drop_in_window(rule: &mut Attributes<'_>) {
    load_key(rule);
    look_up(rule, "window", false);
    verdict(rule, DROP, None);
}

/// `source address is …: return`
fn exempt(rule: &mut Attributes<'_>, address: IpAddr) {
    load_meta(rule, 15);
    match address {
        IpAddr::V4(v4) => {
            compare(rule, &[2]);
            load_payload(rule, NETWORK_HEADER, 12, 4);
            compare(rule, &v4.octets());
        }
        IpAddr::V6(v6) => {
            compare(rule, &[10]);
            load_payload(rule, NETWORK_HEADER, 8, 16);
            compare(rule, &v6.octets());
        }
    }
    verdict(rule, RETURN, None);
}

fn expression(rule: &mut Attributes<'_>, name: &str, fill: impl FnOnce(&mut Attributes<'_>)) {
    rule.nested(1, |element| {
        element.name(1, name);
        element.nested(2, fill);
    });
}

/// `meta`: 15 is the family, 16 the protocol above it.
fn load_meta(rule: &mut Attributes<'_>, key: u32) {
    expression(rule, "meta", |meta| {
        meta.u32(1, REGISTER);
        meta.u32(2, key);
    });
}

fn load_payload(rule: &mut Attributes<'_>, base: u32, offset: u32, length: u32) {
    expression(rule, "payload", |payload| {
        payload.u32(1, REGISTER);
        payload.u32(2, base);
        payload.u32(3, offset);
        payload.u32(4, length);
    });
}

fn load_key(rule: &mut Attributes<'_>) {
    expression(rule, "immediate", |immediate| {
        immediate.u32(1, REGISTER);
        immediate.nested(2, |data| data.bytes(1, &KEY));
    });
}

/// Goes on with the rule only if the register equals `value`.
fn compare(rule: &mut Attributes<'_>, value: &[u8]) {
    expression(rule, "cmp", |compare| {
        compare.u32(1, REGISTER);
        compare.u32(2, 0);
        compare.nested(3, |data| data.bytes(1, value));
    });
}

/// Goes on with the rule only if the register is in the set, or, inverted, is not.
fn look_up(rule: &mut Attributes<'_>, set: &str, inverted: bool) {
    expression(rule, "lookup", |lookup| {
        lookup.name(1, set);
        lookup.u32(2, REGISTER);
        if inverted {
            lookup.u32(5, 1);
        }
    });
}

fn verdict(rule: &mut Attributes<'_>, code: i32, chain: Option<&str>) {
    expression(rule, "immediate", |immediate| {
        immediate.u32(1, VERDICT_REGISTER);
        immediate.nested(2, |data| {
            data.nested(2, |verdict| {
                verdict.bytes(1, &code.to_be_bytes());
                if let Some(chain) = chain {
                    verdict.name(2, chain);
                }
            });
        });
    });
}
