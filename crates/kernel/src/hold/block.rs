//! The block on new connections: a table of the packet filter that drops SYNs, and that ends by itself.
//!
//! ```text
//! table inet hitless-hold {
//!   set ports    { type inet_service; flags timeout }            each port, for as long as the hold may last at all
//!   set window   { flags dynamic,timeout; timeout <cap> }        filled by the first held SYN
//!   set started  { flags dynamic,timeout; timeout <longer> }     the same, but it outlives the ports
//!   chain input  { hook input priority -300
//!     tcp flags & (fin|syn|rst|ack) == syn, port in ports: jump held }
//!   chain held {
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

use netlink_packet_core::{DefaultNla, NLM_F_APPEND, NLM_F_CREATE};
use netlink_packet_netfilter::nftables::{
    Bitwise, ChainAttribute, ChainMessage, Cmp, DataAttribute, Expressions, Hook, Immediate, InetHookNumber,
    ListAttribute, Lookup, Meta, MetaKey, NfTablesMessage, Operator, Payload, Register, RuleAttribute, RuleMessage,
    SetAttribute, SetElementAttribute, SetElementList, SetElementMessage, SetFlags, SetMessage, TableAttribute,
    TableMessage, Verdict, VerdictAttribute,
};

use crate::nfnetlink::{Change, Nfnetlink, attribute, attributes};

/// All tables of this crate are named so; see [`crate::sweep_holds`].
const PREFIX: &str = "hitless-";
const TABLE: &str = "hitless-hold";

/// Before connection tracking and address translation of the pod's own, if it has any.
const PRIORITY: i32 = -300;

/// `NFT_REG_1`: the one register that the expressions need.
const REGISTER: Register = Register::Reg1;
/// `NF_DROP`, which the library has no name for.
const DROP: Verdict = Verdict::Other(0);
/// `NFT_LOOKUP_F_INV`.
const NOT_IN: u32 = 1;

const NETWORK_HEADER: u32 = 1;
const TRANSPORT_HEADER: u32 = 2;
const TCP: u8 = 6;
const IPV4: u8 = 2;
const IPV6: u8 = 10;
/// FIN, SYN, RST, ACK.
const FLAGS_MASK: u8 = 0x17;
const SYN: u8 = 0x02;

/// How `nft` shows the keys of a set.
const INET_SERVICE: u32 = 13;
const MARK: u32 = 19;
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
        self.nft.commit(changes(rules))?;
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
        let question = NfTablesMessage::GetSetElement(elements("started", [KEY.to_vec()]));
        let answer = self.nft.get(question)?;
        answer.map(|object| expiration(&object).map(|left| memory.saturating_sub(left))).transpose()
    }
}

/// Names of the tables with our prefix.
pub(super) fn names(nft: &mut Nfnetlink) -> io::Result<Vec<String>> {
    let tables = nft.list(&NfTablesMessage::GetTable(TableMessage { attributes: Vec::new() }))?;
    Ok(tables.iter().filter_map(|table| own_name(table)).collect())
}

/// The name of a table that has our prefix.
pub(crate) fn own_name(table: &[u8]) -> Option<String> {
    let name = attribute(table, 1)?;
    let name = String::from_utf8_lossy(name.strip_suffix(&[0]).unwrap_or(name)).into_owned();
    name.starts_with(PREFIX).then_some(name)
}

/// Deletes a table with all that is in it. `false` when it has gone.
pub(super) fn delete(nft: &mut Nfnetlink, name: &str) -> io::Result<bool> {
    match nft.commit(vec![Change { flags: 0, message: NfTablesMessage::DeleteTable(table(name)) }]) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// How long an element of a set still lasts.
pub(crate) fn expiration(object: &[u8]) -> io::Result<Duration> {
    let elements = attribute(object, 3).unwrap_or_default();
    attributes(elements)
        .find_map(|(_, element)| attribute(element, 5)?.first_chunk().copied())
        .map(|milliseconds| Duration::from_millis(u64::from_be_bytes(milliseconds)))
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "an element without expiration"))
}

/// Whatever was there before, the table is there afterwards as the module's text shows it.
fn changes(rules: &Rules<'_>) -> Vec<Change> {
    let create = |message| Change { flags: NLM_F_CREATE, message };
    let set = |name, id, flags, key, timeout| create(NfTablesMessage::NewSet(set(name, id, flags, key, timeout)));
    let ports = rules.ports.iter().map(|port| port.to_be_bytes().to_vec());
    let mut changes = vec![
        create(NfTablesMessage::NewTable(table(TABLE))),
        Change { flags: 0, message: NfTablesMessage::DeleteTable(table(TABLE)) },
        create(NfTablesMessage::NewTable(table(TABLE))),
        set("ports", 1, SetFlags::Timeout, (INET_SERVICE, 2), rules.expires_after),
        set("window", 2, SetFlags::Timeout | SetFlags::Eval, (MARK, 4), rules.cap),
        set("started", 3, SetFlags::Timeout | SetFlags::Eval, (MARK, 4), rules.memory()),
        create(NfTablesMessage::NewSetElement(elements("ports", ports))),
        create(NfTablesMessage::NewChain(chain("held", false))),
        create(NfTablesMessage::NewChain(chain("input", true))),
    ];
    changes.extend(rules.exempt.iter().map(|address| rule("held", exempt(*address))));
    changes.push(rule("held", open_window()));
    changes.push(rule("held", drop_in_window()));
    changes.push(rule("input", divert_new_connections()));
    changes
}

fn table(name: &str) -> TableMessage {
    TableMessage { attributes: vec![TableAttribute::Name(name.to_owned())] }
}

/// `key`: its type and its length.
fn set(name: &str, id: u32, flags: SetFlags, key: (u32, u32), timeout: Duration) -> SetMessage {
    let attributes = vec![
        SetAttribute::Table(TABLE.to_owned()),
        SetAttribute::Name(name.to_owned()),
        SetAttribute::Flags(flags),
        SetAttribute::KeyType(key.0),
        SetAttribute::KeyLen(key.1),
        SetAttribute::Id(id),
        SetAttribute::Timeout(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)),
    ];
    SetMessage { attributes }
}

fn elements(set: &str, keys: impl IntoIterator<Item = Vec<u8>>) -> SetElementMessage {
    let element = |key| ListAttribute::Element(vec![SetElementAttribute::Key(DataAttribute::Value(key))]);
    let attributes = vec![
        SetElementList::Table(TABLE.to_owned()),
        SetElementList::Set(set.to_owned()),
        SetElementList::Elements(keys.into_iter().map(element).collect()),
    ];
    SetElementMessage { attributes }
}

fn chain(name: &str, is_hook: bool) -> ChainMessage {
    let mut attributes = vec![ChainAttribute::Table(TABLE.to_owned()), ChainAttribute::Name(name.to_owned())];
    if is_hook {
        let hook = vec![Hook::Number(InetHookNumber::LocalIn.into()), Hook::Priority(PRIORITY.cast_unsigned())];
        attributes.extend([ChainAttribute::Hook(hook), ChainAttribute::Type("filter".to_owned())]);
    }
    ChainMessage { attributes }
}

fn rule(chain: &str, expressions: Vec<Expressions>) -> Change {
    let attributes = vec![
        RuleAttribute::Table(TABLE.to_owned()),
        RuleAttribute::Chain(chain.to_owned()),
        RuleAttribute::Expressions(expressions.into_iter().map(ListAttribute::from).collect()),
    ];
    let message = NfTablesMessage::NewRule(RuleMessage { attributes });
    Change { flags: NLM_F_CREATE | NLM_F_APPEND, message }
}

/// `tcp flags & (fin|syn|rst|ack) == syn, port in ports: jump held`
fn divert_new_connections() -> Vec<Expressions> {
    let mask = Expressions::Bitwise(vec![
        Bitwise::SourceRegister(REGISTER),
        Bitwise::DestinationRegister(REGISTER),
        Bitwise::Length(1),
        Bitwise::Mask(DataAttribute::Value(vec![FLAGS_MASK])),
        Bitwise::Xor(DataAttribute::Value(vec![0])),
    ]);
    vec![
        load_meta(MetaKey::L4Proto),
        compare(&[TCP]),
        load_payload(TRANSPORT_HEADER, 13, 1),
        mask,
        compare(&[SYN]),
        load_payload(TRANSPORT_HEADER, 2, 2),
        look_up("ports", 0),
        verdict(Verdict::Jump, Some("held")),
    ]
}

/// `not in started: add to window, add to started`
fn open_window() -> Vec<Expressions> {
    vec![load_key(), look_up("started", NOT_IN), add_to("window"), add_to("started")]
}

/// `in window: drop`
fn drop_in_window() -> Vec<Expressions> {
    vec![load_key(), look_up("window", 0), verdict(DROP, None)]
}

/// `source address is …: return`
fn exempt(address: IpAddr) -> Vec<Expressions> {
    let (family, load, value) = match address {
        IpAddr::V4(v4) => (IPV4, load_payload(NETWORK_HEADER, 12, 4), v4.octets().to_vec()),
        IpAddr::V6(v6) => (IPV6, load_payload(NETWORK_HEADER, 8, 16), v6.octets().to_vec()),
    };
    vec![load_meta(MetaKey::Nfproto), compare(&[family]), load, compare(&value), verdict(Verdict::Return, None)]
}

fn load_meta(key: MetaKey) -> Expressions {
    Expressions::Meta(vec![Meta::DestinationRegister(REGISTER), Meta::Key(key)])
}

fn load_payload(base: u32, offset: u32, length: u32) -> Expressions {
    Expressions::Payload(vec![
        Payload::DestinationRegister(REGISTER),
        Payload::Base(base),
        Payload::Offset(offset),
        Payload::Len(length),
    ])
}

fn load_key() -> Expressions {
    immediate(REGISTER, DataAttribute::Value(KEY.to_vec()))
}

fn immediate(register: Register, data: DataAttribute) -> Expressions {
    Expressions::Immediate(vec![Immediate::DestinationRegister(register), Immediate::Data(data)])
}

/// Goes on with the rule only if the register equals `value`.
fn compare(value: &[u8]) -> Expressions {
    Expressions::Cmp(vec![
        Cmp::SourceRegister(REGISTER),
        Cmp::Op(Operator::Equal),
        Cmp::Data(DataAttribute::Value(value.to_vec())),
    ])
}

/// Goes on with the rule only if the register is in the set, or with [`NOT_IN`] is not.
fn look_up(set: &str, flags: u32) -> Expressions {
    let flags = (flags != 0).then_some(Lookup::Flags(flags));
    let attributes = [Lookup::Set(set.to_owned()), Lookup::SourceRegister(REGISTER)];
    Expressions::Lookup(attributes.into_iter().chain(flags).collect())
}

/// `dynset`, which the library has no type for: name of the set, what to do (0: add), register with the key.
fn add_to(set: &str) -> Expressions {
    let attributes = vec![
        DefaultNla::new(1, [set.as_bytes(), &[0]].concat()),
        DefaultNla::new(3, 0_u32.to_be_bytes().to_vec()),
        DefaultNla::new(4, u32::from(REGISTER).to_be_bytes().to_vec()),
    ];
    Expressions::Other { expression_type: "dynset".to_owned(), attributes }
}

fn verdict(code: Verdict, chain: Option<&str>) -> Expressions {
    let chain = chain.map(|chain| VerdictAttribute::Chain(chain.to_owned()));
    let attributes = [VerdictAttribute::Code(code)].into_iter().chain(chain);
    immediate(Register::Verdict, DataAttribute::Verdict(attributes.collect()))
}
