//! The rules of a block, as the kernel's expressions.

use std::net::IpAddr;

use netlink_packet_core::{DefaultNla, NLM_F_APPEND, NLM_F_CREATE};
use netlink_packet_netfilter::nftables::{
    Bitwise, Cmp, DataAttribute, Expressions, Immediate, ListAttribute, Lookup, Meta, MetaKey, NfTablesMessage,
    Operator, Payload, Register, RuleAttribute, RuleMessage, Verdict, VerdictAttribute,
};

use super::block::{KEY, TABLE};
use crate::nfnetlink::Change;

/// `NFT_REG_1`: the one register that most expressions need.
const REGISTER: Register = Register::Reg1;
/// `NF_DROP`, which the library has no name for.
const DROP: Verdict = Verdict::Other(0);
/// `NFT_LOOKUP_F_INV`.
const NOT_IN: u32 = 1;

const NETWORK_HEADER: u32 = 1;
const TRANSPORT_HEADER: u32 = 2;
const TCP: u8 = 6;
/// FIN, SYN, RST, ACK.
const FLAGS_MASK: u8 = 0x17;
const SYN: u8 = 0x02;
/// Where a segment has the port that it is sent to, and how long that is.
const PORT: (u32, u32) = (2, 2);

/// How `nft` shows the keys of a set.
const IPV4_ADDRESS: u32 = 7;
const IPV6_ADDRESS: u32 = 8;
pub(super) const INET_SERVICE: u32 = 13;
/// Between the parts of a key that has several.
const TYPE_BITS: u32 = 6;

/// What differs between the two families of addresses.
pub(super) struct Family {
    number: u8,
    /// Where a packet has the address that it is sent to, and how long that is.
    server: (u32, u32),
    /// Behind that address, if it is in [`REGISTER`].
    next: Register,
    /// The set of those addresses and ports at which nobody has listened.
    pub(super) gone: &'static str,
    /// Type and length of its keys.
    pub(super) key: (u32, u32),
}

pub(super) const FAMILIES: [Family; 2] = [
    Family {
        number: 2,
        server: (16, 4),
        next: Register::Reg32_01,
        gone: "gone4",
        key: (IPV4_ADDRESS << TYPE_BITS | INET_SERVICE, 8),
    },
    Family {
        number: 10,
        server: (24, 16),
        next: Register::Reg2,
        gone: "gone6",
        key: (IPV6_ADDRESS << TYPE_BITS | INET_SERVICE, 20),
    },
];

pub(super) fn rule(chain: &str, expressions: Vec<Expressions>) -> Change {
    let attributes = vec![
        RuleAttribute::Table(TABLE.to_owned()),
        RuleAttribute::Chain(chain.to_owned()),
        RuleAttribute::Expressions(expressions.into_iter().map(ListAttribute::from).collect()),
    ];
    let message = NfTablesMessage::NewRule(RuleMessage { attributes });
    Change { flags: NLM_F_CREATE | NLM_F_APPEND, message }
}

/// `tcp flags & (fin|syn|rst|ack) == syn, port in ports: jump held`
pub(super) fn divert_new_connections() -> Vec<Expressions> {
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
        load_payload(REGISTER, TRANSPORT_HEADER, (13, 1)),
        mask,
        compare(&[SYN]),
        load_payload(REGISTER, TRANSPORT_HEADER, PORT),
        look_up("ports", 0),
        verdict(Verdict::Jump, Some("held")),
    ]
}

/// `source address is …: return`
pub(super) fn exempt(address: IpAddr) -> Vec<Expressions> {
    let [v4, v6] = FAMILIES.map(|family| family.number);
    let (family, place, value) = match address {
        IpAddr::V4(address) => (v4, (12, 4), address.octets().to_vec()),
        IpAddr::V6(address) => (v6, (8, 16), address.octets().to_vec()),
    };
    let load = load_payload(REGISTER, NETWORK_HEADER, place);
    vec![load_meta(MetaKey::Nfproto), compare(&[family]), load, compare(&value), verdict(Verdict::Return, None)]
}

/// `not in renewed, server's address and port in gone, somebody listens: return`
pub(super) fn let_in_to_successor(family: &Family) -> Vec<Expressions> {
    let mut expressions = vec![load_key(), look_up("renewed", NOT_IN)];
    expressions.extend(load_server(family));
    expressions.extend([look_up(family.gone, 0), require_listener(), verdict(Verdict::Return, None)]);
    expressions
}

/// `not in renewed, not in settled, somebody listens: return`
pub(super) fn let_in_to_predecessor() -> Vec<Expressions> {
    let absent = |set| look_up(set, NOT_IN);
    vec![load_key(), absent("renewed"), absent("settled"), require_listener(), verdict(Verdict::Return, None)]
}

/// `not in started: add to window, add to started`
pub(super) fn open_window() -> Vec<Expressions> {
    vec![load_key(), look_up("started", NOT_IN), add_to("window"), add_to("started")]
}

/// `not in window: return`
pub(super) fn let_in_behind_window() -> Vec<Expressions> {
    vec![load_key(), look_up("window", NOT_IN), verdict(Verdict::Return, None)]
}

/// `somebody listens: drop`
pub(super) fn drop_while_listened_to() -> Vec<Expressions> {
    vec![require_listener(), verdict(DROP, None)]
}

/// `add server's address and port to gone`
pub(super) fn note_gone(family: &Family) -> Vec<Expressions> {
    let mut expressions = load_server(family);
    expressions.push(add_to(family.gone));
    expressions
}

/// `drop`
pub(super) fn drop_all() -> Vec<Expressions> {
    vec![verdict(DROP, None)]
}

/// The address and port that the packet is sent to, if it is of this family.
fn load_server(family: &Family) -> Vec<Expressions> {
    vec![
        load_meta(MetaKey::Nfproto),
        compare(&[family.number]),
        load_payload(REGISTER, NETWORK_HEADER, family.server),
        load_payload(family.next, TRANSPORT_HEADER, PORT),
    ]
}

/// `socket`, which the library has no type for. Goes on with the rule only if there is a socket for the packet. Whether that is
/// `transparent` (key 0) is loaded and not looked at: it can be told of all sockets; for `wildcard` and `mark`, kernels before 6.11
/// keep the remains of a closed connection (TIME_WAIT) for ever if the packet fits one.
fn require_listener() -> Expressions {
    let attributes = vec![
        DefaultNla::new(1, 0_u32.to_be_bytes().to_vec()),
        DefaultNla::new(2, u32::from(REGISTER).to_be_bytes().to_vec()),
    ];
    Expressions::Other { expression_type: "socket".to_owned(), attributes }
}

fn load_meta(key: MetaKey) -> Expressions {
    Expressions::Meta(vec![Meta::DestinationRegister(REGISTER), Meta::Key(key)])
}

fn load_payload(register: Register, base: u32, (offset, length): (u32, u32)) -> Expressions {
    Expressions::Payload(vec![
        Payload::DestinationRegister(register),
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
