//! The block on new connections: a table of the packet filter that drops SYNs, and that ends by itself.
//!
//! ```text
//! table inet hitless-hold {
//!   set ports    { type inet_service; flags timeout }            each port, for as long as the hold may last at all
//!   set window   { flags dynamic,timeout; timeout <cap> }        filled by the first held SYN
//!   set started  { flags dynamic,timeout; timeout <longer> }     the same, but it outlives the ports
//!   set gone4    { type ipv4_addr . inet_service; … }            where nobody listens any more; gone6 for IPv6
//!   set renewed  { flags timeout; timeout <lease> }              its element is added anew while the agent lives
//!   set settled  { flags timeout; timeout <longer> }             has its element once the old process is about to end
//!   chain input  { hook input priority -300
//!     tcp flags & (fin|syn|rst|ack) == syn, port in ports: jump held }
//!   chain held {
//!     address exempt: return
//!     not in renewed, server's address and port in gone, somebody listens: return
//!     not in renewed, not in settled, somebody listens: return
//!     not in started: add to window, add to started
//!     not in window: return
//!     somebody listens: drop
//!     add server's address and port to gone
//!     drop }
//! }
//! ```
//!
//! The window opens with the first SYN that is held and closes after the cap, without anybody's help: `started` keeps a
//! later SYN from opening it again. So no client is held for longer than the cap, whether the agent lives or not. It is
//! added to `window` first, or another processor could for a moment see a hold that has started and is over.
//!
//! An agent that is killed, or that gets no processor for a while, makes nobody wait for the cap: `renewed` runs out. A SYN that finds
//! no socket tells that the old process has gone; whoever listens at that address and port afterwards is its successor, and SYNs reach
//! it, those which are repeated among them. While the old process listens, it gets new connections again unless it is about to end.
//! In neither case is anybody refused: where nobody listens, only the end of the cap lets a SYN in.
//!
//! A SYN that fits the remains of a closed connection (TIME_WAIT) finds a socket. It is dropped; or it is let in, and where nobody
//! listens the kernel answers it so that its client tries again.
//!
//! The match is stateless. `ct state new` would switch connection tracking on in the pod's namespace, which then takes
//! every existing connection for a new one.

use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use netlink_packet_core::NLM_F_CREATE;
use netlink_packet_netfilter::nftables::{
    ChainAttribute, ChainMessage, DataAttribute, Hook, InetHookNumber, ListAttribute, NfTablesMessage, SetAttribute,
    SetElementAttribute, SetElementList, SetElementMessage, SetFlags, SetMessage, TableAttribute, TableMessage,
};
use rustix::io::Errno;

use super::rules::{
    FAMILIES, INET_SERVICE, divert_new_connections, drop_all, drop_while_listened_to, exempt, let_in_behind_window,
    let_in_to_predecessor, let_in_to_successor, note_gone, open_window, rule,
};
use crate::nfnetlink::{Change, Nfnetlink, attribute, attributes};

/// All tables of this crate are named so; see [`crate::sweep_holds`].
const PREFIX: &str = "hitless-";
pub(super) const TABLE: &str = "hitless-hold";

/// Before connection tracking and address translation of the pod's own, if it has any.
const PRIORITY: i32 = -300;

/// How `nft` shows the keys of a set.
const MARK: u32 = 19;
/// The only element of `window`, `started`, `renewed` and `settled`.
pub(super) const KEY: [u8; 4] = [0; 4];

/// Whether the kernel has refused to look for sockets (`nft_socket`): it may be built without. Asked again it would look for the
/// module again, while clients come.
static IS_BLIND: AtomicBool = AtomicBool::new(false);

/// What the block is to do.
#[derive(Debug)]
pub(super) struct Rules<'a> {
    pub(super) ports: &'a [u16],
    pub(super) cap: Duration,
    pub(super) expires_after: Duration,
    /// How long it lets nobody in by itself unless it is renewed.
    pub(super) lease: Duration,
    pub(super) is_settled: bool,
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
    /// Of `renewed`, if the block looks for sockets.
    lease: Option<Duration>,
}

impl Block {
    pub(super) fn new(nft: Nfnetlink) -> Self {
        Self { nft, memory: None, lease: None }
    }

    /// Begins to block. A block that is there already, even another process's, is replaced in one step.
    ///
    /// On a kernel that can't look for sockets all clients wait for the agent or the cap.
    pub(super) fn install(&mut self, rules: &Rules<'_>) -> io::Result<()> {
        self.lease = None;
        if !IS_BLIND.load(Ordering::Relaxed) {
            match self.nft.commit(changes(rules, true)) {
                Ok(()) => self.lease = Some(rules.lease),
                // What else is wrong shows with the next attempt.
                Err(error) => {
                    let unknown = [Errno::NOENT, Errno::OPNOTSUPP].map(|errno| Some(errno.raw_os_error()));
                    IS_BLIND.fetch_or(unknown.contains(&error.raw_os_error()), Ordering::Relaxed);
                }
            }
        }
        if self.lease.is_none() {
            self.nft.commit(changes(rules, false))?;
        }
        self.memory = Some(rules.memory());
        Ok(())
    }

    /// Lets nobody in by itself for the length of the lease from now on. `false` when it has, or may have. `settle`: the old process
    /// is about to end, and gets nobody any more.
    pub(super) fn renew(&mut self, settle: bool) -> io::Result<bool> {
        let (Some(memory), Some(lease)) = (self.memory, self.lease) else { return Ok(true) };
        let renewal = || {
            let settled = settle.then(|| add_key("settled", memory));
            settled.into_iter().chain([add_key("renewed", lease)])
        };
        // An element that is there keeps its time, whatever is added. In one batch no SYN sees that it was away.
        let lapse =
            Change { flags: 0, message: NfTablesMessage::DeleteSetElement(elements("renewed", [KEY.to_vec()])) };
        match self.nft.commit([lapse].into_iter().chain(renewal()).collect()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            result => return result.map(|()| true),
        }
        self.nft.commit(renewal().collect())?;
        Ok(false)
    }

    /// Ends the block. `false` when there was none any more.
    pub(super) fn lift(&mut self) -> io::Result<bool> {
        (self.memory, self.lease) = (None, None);
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

/// Whatever was there before, the table is there afterwards as the module's text shows it, or without all that looks for sockets.
fn changes(rules: &Rules<'_>, sees: bool) -> Vec<Change> {
    let create = |message| Change { flags: NLM_F_CREATE, message };
    let set = |name, id, flags, key, timeout| create(NfTablesMessage::NewSet(set(name, id, flags, key, timeout)));
    let filled = SetFlags::Timeout | SetFlags::Eval;
    let ports = rules.ports.iter().map(|port| port.to_be_bytes().to_vec());
    let mut changes = vec![
        create(NfTablesMessage::NewTable(table(TABLE))),
        Change { flags: 0, message: NfTablesMessage::DeleteTable(table(TABLE)) },
        create(NfTablesMessage::NewTable(table(TABLE))),
        set("ports", 1, SetFlags::Timeout, (INET_SERVICE, 2), rules.expires_after),
        set("window", 2, filled, (MARK, 4), rules.cap),
        set("started", 3, filled, (MARK, 4), rules.memory()),
        create(NfTablesMessage::NewSetElement(elements("ports", ports))),
        create(NfTablesMessage::NewChain(chain("held", false))),
        create(NfTablesMessage::NewChain(chain("input", true))),
    ];
    if sees {
        let gone = FAMILIES.iter().zip(5..);
        changes.extend(gone.map(|(family, id)| set(family.gone, id, filled, family.key, rules.memory())));
        changes.push(set("renewed", 4, SetFlags::Timeout, (MARK, 4), rules.lease));
        changes.push(set("settled", 7, SetFlags::Timeout, (MARK, 4), rules.memory()));
        changes.push(add_key("renewed", rules.lease));
        changes.extend(rules.is_settled.then(|| add_key("settled", rules.memory())));
    }
    let exempt = rules.exempt.iter().map(|address| exempt(*address));
    let seeing = |expressions: Vec<_>| expressions.into_iter().filter(move |_| sees);
    let mut held: Vec<_> = exempt.collect();
    held.extend(seeing(FAMILIES.iter().map(let_in_to_successor).collect()));
    held.extend(seeing(vec![let_in_to_predecessor()]));
    held.extend([open_window(), let_in_behind_window()]);
    held.extend(seeing(vec![drop_while_listened_to()]));
    held.extend(seeing(FAMILIES.iter().map(note_gone).collect()));
    held.push(drop_all());
    changes.extend(held.into_iter().map(|expressions| rule("held", expressions)));
    changes.push(rule("input", divert_new_connections()));
    changes
}

fn add_key(set: &str, timeout: Duration) -> Change {
    let timeout = SetElementAttribute::Timeout(milliseconds(timeout));
    let key = SetElementAttribute::Key(DataAttribute::Value(KEY.to_vec()));
    let elements = element_list(set, vec![ListAttribute::Element(vec![key, timeout])]);
    Change { flags: NLM_F_CREATE, message: NfTablesMessage::NewSetElement(elements) }
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
        SetAttribute::Timeout(milliseconds(timeout)),
    ];
    SetMessage { attributes }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn elements(set: &str, keys: impl IntoIterator<Item = Vec<u8>>) -> SetElementMessage {
    let element = |key| ListAttribute::Element(vec![SetElementAttribute::Key(DataAttribute::Value(key))]);
    element_list(set, keys.into_iter().map(element).collect())
}

fn element_list(set: &str, elements: Vec<ListAttribute<SetElementAttribute>>) -> SetElementMessage {
    let attributes = vec![
        SetElementList::Table(TABLE.to_owned()),
        SetElementList::Set(set.to_owned()),
        SetElementList::Elements(elements),
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
