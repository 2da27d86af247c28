//! nfnetlink messages: batches of changes, questions, and the kernel's answers.

use std::io;

use netlink_packet_core::{
    NLA_HEADER_SIZE, NLM_F_ACK, NLM_F_DUMP_INTR, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR, NLMSG_OVERRUN, NetlinkBuffer,
    NetlinkHeader, NetlinkMessage, NlasIterator,
};
use netlink_packet_netfilter::nftables::NfTablesMessage;
use netlink_packet_netfilter::none::ControlMessage;
use netlink_packet_netfilter::{NetfilterHeader, NetfilterMessage, NetfilterProtoFamily, NetfilterSubsystem};

/// Family, version and resource, before the attributes of each message.
const NETFILTER_HEADER: usize = 4;

/// One change of a batch.
pub(crate) struct Change {
    /// Those of netlink beyond "request".
    pub(crate) flags: u16,
    pub(crate) message: NfTablesMessage,
}

/// Changes that take effect together. The last one will be acknowledged.
pub(super) fn batch(sequence: u32, changes: Vec<Change>) -> Vec<u8> {
    let mut bytes = Vec::new();
    append(&mut bytes, sequence, 0, control(ControlMessage::BatchBegin));
    let last = changes.len().saturating_sub(1);
    for (at, Change { flags, message }) in changes.into_iter().enumerate() {
        let flags = if at == last { flags | NLM_F_ACK } else { flags };
        append(&mut bytes, sequence, flags, inet(message));
    }
    append(&mut bytes, sequence, 0, control(ControlMessage::BatchEnd));
    bytes
}

/// A question outside any batch.
pub(super) fn question(sequence: u32, flags: u16, message: NfTablesMessage) -> Vec<u8> {
    let mut bytes = Vec::new();
    append(&mut bytes, sequence, flags, inet(message));
    bytes
}

/// The batch is for the packet filter.
fn control(message: ControlMessage) -> NetfilterMessage {
    let resource = u8::from(NetfilterSubsystem::NfTables);
    NetfilterMessage::new(NetfilterHeader::new(NetfilterProtoFamily::Unspec, 0, resource.into()), message)
}

/// IPv4 and IPv6 in one table.
fn inet(message: NfTablesMessage) -> NetfilterMessage {
    NetfilterMessage::new(NetfilterHeader::new(NetfilterProtoFamily::Inet, 0, 0), message)
}

fn append(bytes: &mut Vec<u8>, sequence: u32, flags: u16, message: NetfilterMessage) {
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | flags;
    header.sequence_number = sequence;
    let mut message = NetlinkMessage::new(header, message.into());
    message.finalize();
    let start = bytes.len();
    bytes.resize(start + message.buffer_len(), 0);
    message.serialize(&mut bytes[start..]);
}

/// One message of the kernel's answer.
#[derive(Debug)]
pub(crate) enum Reply<'a> {
    /// An object's attributes.
    Object(&'a [u8]),
    Acknowledged,
    Error(io::Error),
    Done,
}

/// The messages of a datagram that answer the request `sequence`. Whatever does not fit is an error, and the last item.
pub(crate) fn replies(mut datagram: &[u8], sequence: u32) -> impl Iterator<Item = io::Result<Reply<'_>>> {
    std::iter::from_fn(move || {
        while !datagram.is_empty() {
            let Ok(message) = NetlinkBuffer::new_checked(datagram) else {
                datagram = &[];
                return Some(Err(malformed()));
            };
            let length = usize::try_from(message.length()).unwrap_or(usize::MAX);
            datagram = datagram.get(length.next_multiple_of(4)..).unwrap_or_default();
            if message.sequence_number() == sequence {
                return Some(reply(&message));
            }
        }
        None
    })
}

fn reply<'a>(message: &NetlinkBuffer<&'a [u8]>) -> io::Result<Reply<'a>> {
    let payload = message.payload();
    if message.flags() & NLM_F_DUMP_INTR != 0 || message.message_type() == NLMSG_OVERRUN {
        return Err(io::ErrorKind::Interrupted.into());
    }
    let code = || payload.first_chunk().map(|code| i32::from_ne_bytes(*code));
    match message.message_type() {
        NLMSG_ERROR => match code().ok_or_else(malformed)? {
            0 => Ok(Reply::Acknowledged),
            code => Ok(Reply::Error(io::Error::from_raw_os_error(code.saturating_neg()))),
        },
        NLMSG_DONE => match code().unwrap_or(0) {
            code if code < 0 => Ok(Reply::Error(io::Error::from_raw_os_error(code.saturating_neg()))),
            _ => Ok(Reply::Done),
        },
        // Not parsed into the library's types: these refuse a name that is not UTF-8, and a table may be the pod's own.
        _ => payload.get(NETFILTER_HEADER..).map(Reply::Object).ok_or_else(malformed),
    }
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a netlink answer that is shorter than it says")
}

/// The attributes of an object, as type and value. Ends where the bytes make no sense.
pub(crate) fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    NlasIterator::new(bytes).map_while(Result::ok).map(|attribute| {
        let end = usize::from(attribute.length());
        (attribute.kind(), &attribute.into_inner()[NLA_HEADER_SIZE..end])
    })
}

/// The value of the first attribute of this type.
pub(crate) fn attribute(bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use netlink_packet_netfilter::nftables::{TableAttribute, TableMessage};
    use proptest::prelude::*;

    use super::*;

    fn table(name: &str) -> NfTablesMessage {
        NfTablesMessage::NewTable(TableMessage { attributes: vec![TableAttribute::Name(name.to_owned())] })
    }

    #[test]
    fn attributes_are_found_with_their_values_and_end_where_they_make_no_sense() {
        let bytes = [&[8, 0, 1, 0][..], b"abc\0", &[7, 0, 2, 0x80, 1, 2, 3, 0], &[200, 0, 3, 0, 1]].concat();
        assert_eq!(attribute(&bytes, 1), Some(&b"abc\0"[..]));
        assert_eq!(attribute(&bytes, 2), Some(&[1, 2, 3][..]), "flags of the type do not count");
        assert_eq!(attribute(&bytes, 3), None);
        assert_eq!(attributes(&bytes).count(), 2);
    }

    #[test]
    fn only_the_last_change_of_a_batch_asks_for_an_acknowledgement() {
        let change = |name| Change { flags: 0, message: table(name) };
        let bytes = batch(7, vec![change("a"), change("b")]);
        let (mut rest, mut flags) = (&bytes[..], Vec::new());
        while !rest.is_empty() {
            let message = NetlinkBuffer::new_checked(rest).unwrap();
            assert_eq!(message.sequence_number(), 7);
            flags.push(message.flags());
            rest = &rest[usize::try_from(message.length()).unwrap()..];
        }
        assert_eq!(flags, [1, 1, 1 | 4, 1]);
    }

    #[test]
    fn refusals_and_broken_answers_are_errors() {
        let refusal = |code: i32| {
            let header = [20_u32.to_ne_bytes(), [2, 0, 0, 0], 3_u32.to_ne_bytes(), [0; 4], code.to_ne_bytes()];
            header.concat()
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
