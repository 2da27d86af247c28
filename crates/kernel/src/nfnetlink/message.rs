//! The bytes of nfnetlink messages: a netlink header, four bytes of nfnetlink header, attributes.

use std::io;

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLMSG_OVERRUN: u16 = 4;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_DUMP_INTR: u16 = 0x10;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;

/// `NFNL_SUBSYS_NFTABLES`, the upper byte of each message kind.
const NFTABLES: u16 = 10;
/// `NFPROTO_INET`: IPv4 and IPv6 in one table.
const INET: u8 = 1;

const NETLINK_HEADER: usize = 16;
const HEADERS: usize = NETLINK_HEADER + 4;
const ATTRIBUTE_HEADER: usize = 4;
/// The upper bits of an attribute's type are flags; this one marks attributes inside.
const NESTED: u16 = 0x8000;
const TYPE_MASK: u16 = 0x3fff;

/// Attributes as they are appended to a message.
pub(crate) struct Attributes<'a>(&'a mut Vec<u8>);

impl Attributes<'_> {
    /// Raw bytes: addresses, ports and keys in network order.
    pub(crate) fn bytes(&mut self, kind: u16, value: &[u8]) {
        self.with(kind, |message| message.extend(value));
    }

    /// A name, which the kernel wants to end with a zero byte.
    pub(crate) fn name(&mut self, kind: u16, value: &str) {
        self.with(kind, |message| {
            message.extend(value.as_bytes());
            message.push(0);
        });
    }

    /// A number in network order, as all numbers of nf_tables are.
    pub(crate) fn u32(&mut self, kind: u16, value: u32) {
        self.bytes(kind, &value.to_be_bytes());
    }

    /// The same with 64 bits.
    pub(crate) fn u64(&mut self, kind: u16, value: u64) {
        self.bytes(kind, &value.to_be_bytes());
    }

    /// Attributes within an attribute.
    pub(crate) fn nested(&mut self, kind: u16, fill: impl FnOnce(&mut Attributes<'_>)) {
        self.with(kind | NESTED, |message| fill(&mut Attributes(message)));
    }

    fn with(&mut self, kind: u16, fill: impl FnOnce(&mut Vec<u8>)) {
        let start = self.0.len();
        self.0.extend([0, 0]);
        self.0.extend(kind.to_ne_bytes());
        fill(self.0);
        let length = self.0.len() - start;
        self.0.resize(start + length.next_multiple_of(4), 0);
        // What is written here is far shorter; a saturated length would make the kernel refuse the message.
        self.0[start..start + 2].copy_from_slice(&u16::try_from(length).unwrap_or(u16::MAX).to_ne_bytes());
    }
}

/// Messages that take effect together.
pub(crate) struct Batch {
    bytes: Vec<u8>,
    sequence: u32,
    last: usize,
}

impl Batch {
    pub(super) fn begin(sequence: u32) -> Self {
        let mut bytes = Vec::new();
        append(&mut bytes, sequence, BATCH_BEGIN, NLM_F_REQUEST, [0, 0], NFTABLES, |_| {});
        Self { bytes, sequence, last: 0 }
    }

    /// Appends one change. `flags` are those of netlink beyond "request".
    pub(crate) fn change(&mut self, kind: u16, flags: u16, fill: impl FnOnce(&mut Attributes<'_>)) {
        self.last = self.bytes.len();
        let kind = NFTABLES << 8 | kind;
        append(&mut self.bytes, self.sequence, kind, NLM_F_REQUEST | flags, [INET, 0], 0, fill);
    }

    /// The whole batch, the last change of which will be acknowledged.
    pub(super) fn end(mut self) -> Vec<u8> {
        let flags = &mut self.bytes[self.last + 6..self.last + 8];
        let acknowledged = u16::from_ne_bytes([flags[0], flags[1]]) | NLM_F_ACK;
        flags.copy_from_slice(&acknowledged.to_ne_bytes());
        append(&mut self.bytes, self.sequence, BATCH_END, NLM_F_REQUEST, [0, 0], NFTABLES, |_| {});
        self.bytes
    }
}

/// A question outside any batch.
pub(super) fn question(sequence: u32, kind: u16, flags: u16, fill: impl FnOnce(&mut Attributes<'_>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    append(&mut bytes, sequence, NFTABLES << 8 | kind, NLM_F_REQUEST | flags, [INET, 0], 0, fill);
    bytes
}

fn append(
    bytes: &mut Vec<u8>,
    sequence: u32,
    kind: u16,
    flags: u16,
    family_and_version: [u8; 2],
    resource: u16,
    fill: impl FnOnce(&mut Attributes<'_>),
) {
    let start = bytes.len();
    bytes.extend([0; 4]);
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend([0; 4]); // port id: the kernel fills it in
    bytes.extend(family_and_version);
    bytes.extend(resource.to_be_bytes());
    fill(&mut Attributes(bytes));
    let length = u32::try_from(bytes.len() - start).unwrap_or(u32::MAX);
    bytes[start..start + 4].copy_from_slice(&length.to_ne_bytes());
}

/// One message of the kernel's answer.
#[derive(Debug)]
pub(super) enum Reply<'a> {
    /// An object's attributes.
    Object(&'a [u8]),
    Acknowledged,
    Error(io::Error),
    Done,
}

/// The messages of a datagram that answer the request `sequence`. Whatever does not fit is an error, and the last item.
pub(super) fn replies(mut datagram: &[u8], sequence: u32) -> impl Iterator<Item = io::Result<Reply<'_>>> {
    std::iter::from_fn(move || {
        loop {
            if datagram.is_empty() {
                return None;
            }
            let next = split_message(datagram);
            let Some((message, rest)) = next else {
                datagram = &[];
                return Some(Err(malformed()));
            };
            datagram = rest;
            if message.sequence == sequence {
                return Some(message.reply());
            }
        }
    })
}

struct Message<'a> {
    kind: u16,
    flags: u16,
    sequence: u32,
    payload: &'a [u8],
}

fn split_message(bytes: &[u8]) -> Option<(Message<'_>, &[u8])> {
    let length = usize::try_from(u32::from_ne_bytes(*bytes.first_chunk()?)).ok()?;
    let whole = bytes.get(..length)?;
    let header: &[u8; NETLINK_HEADER] = whole.first_chunk()?;
    let message = Message {
        kind: u16::from_ne_bytes([header[4], header[5]]),
        flags: u16::from_ne_bytes([header[6], header[7]]),
        sequence: u32::from_ne_bytes([header[8], header[9], header[10], header[11]]),
        payload: &whole[NETLINK_HEADER..],
    };
    Some((message, bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

impl<'a> Message<'a> {
    fn reply(self) -> io::Result<Reply<'a>> {
        if self.flags & NLM_F_DUMP_INTR != 0 || self.kind == NLMSG_OVERRUN {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let code = || self.payload.first_chunk().map(|code| i32::from_ne_bytes(*code));
        match self.kind {
            NLMSG_ERROR => match code().ok_or_else(malformed)? {
                0 => Ok(Reply::Acknowledged),
                code => Ok(Reply::Error(io::Error::from_raw_os_error(code.saturating_neg()))),
            },
            NLMSG_DONE => match code().unwrap_or(0) {
                code if code < 0 => Ok(Reply::Error(io::Error::from_raw_os_error(code.saturating_neg()))),
                _ => Ok(Reply::Done),
            },
            _ => self.payload.get(HEADERS - NETLINK_HEADER..).map(Reply::Object).ok_or_else(malformed),
        }
    }
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a netlink answer that is shorter than it says")
}

/// The attributes of an object, as type and value. Ends where the bytes make no sense.
pub(crate) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let header: &[u8; ATTRIBUTE_HEADER] = bytes.first_chunk()?;
        let length = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let value = bytes.get(ATTRIBUTE_HEADER..length)?;
        let kind = u16::from_ne_bytes([header[2], header[3]]) & TYPE_MASK;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// The value of the first attribute of this type.
pub(crate) fn attribute(bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn attributes_are_padded_and_found_again() {
        let mut bytes = Vec::new();
        let mut writer = Attributes(&mut bytes);
        writer.name(1, "abc");
        writer.bytes(2, &[1, 2, 3]);
        writer.nested(3, |inner| inner.u32(9, 7));
        writer.u64(4, 5);
        assert_eq!(bytes.len(), 8 + 8 + 12 + 12);
        assert_eq!(attribute(&bytes, 1), Some(&b"abc\0"[..]));
        assert_eq!(attribute(&bytes, 2), Some(&[1, 2, 3][..]));
        assert_eq!(attribute(attribute(&bytes, 3).unwrap(), 9), Some(&[0, 0, 0, 7][..]));
        assert_eq!(attribute(&bytes, 4), Some(&5_u64.to_be_bytes()[..]));
        assert_eq!(attribute(&bytes, 5), None);
    }

    #[test]
    fn only_the_last_change_of_a_batch_asks_for_an_acknowledgement() {
        let mut batch = Batch::begin(7);
        batch.change(0, 0, |table| table.name(1, "t"));
        batch.change(2, 0, |table| table.name(1, "t"));
        let bytes = batch.end();
        let (mut rest, mut flags) = (&bytes[..], Vec::new());
        while let Some((message, after)) = split_message(rest) {
            assert_eq!(message.sequence, 7);
            flags.push(message.flags);
            rest = after;
        }
        assert_eq!(flags, [1, 1, 1 | 4, 1]);
        assert!(rest.is_empty());
    }

    #[test]
    fn refusals_and_broken_answers_are_errors() {
        let refusal = |code: i32| {
            let mut bytes = Vec::new();
            append(&mut bytes, 3, NLMSG_ERROR, 0, [0, 0], 0, |_| {});
            bytes[16..20].copy_from_slice(&code.to_ne_bytes());
            bytes
        };
        let only = |bytes: &[u8]| format!("{:?}", replies(bytes, 3).collect::<Vec<_>>());
        assert!(only(&refusal(-1)).contains("PermissionDenied"), "{}", only(&refusal(-1)));
        assert_eq!(only(&refusal(0)), "[Ok(Acknowledged)]");
        assert!(only(&refusal(0)[..19]).contains("InvalidData"));
        assert!(only(&[20, 0, 0, 0]).contains("InvalidData"));
        assert_eq!(replies(&refusal(0), 4).count(), 0, "somebody else's");
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic_nor_go_on_for_ever(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(replies(&bytes, 0).take(1000).count() < 1000);
            prop_assert!(attributes(&bytes).take(1000).count() < 1000);
        }
    }
}
