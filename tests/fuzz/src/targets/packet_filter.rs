//! Netlink: the packet filter's answers (nfnetlink), with tables, elements of sets and refusals.

use hitless_kernel::fuzz::{Reply, packet_filter};

use crate::Target;

pub(crate) const TARGET: Target =
    Target { name: "packet_filter", run, seeds, words: &["hitless-hold", "hitless-", "\0"] };

/// Number of the request.
const SEQUENCE: u32 = 3;
/// No message is shorter than its header.
const HEADER: usize = 16;

/// An attribute, filled up to a multiple of four bytes.
fn attribute(kind: u8, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(4 + value.len()).expect("short").to_ne_bytes();
    let mut bytes = [&length[..], &[kind, 0], value].concat();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn message(kind: u16, flags: u16, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(HEADER + payload.len()).expect("short").to_ne_bytes();
    [&length[..], &kind.to_ne_bytes(), &flags.to_ne_bytes(), &SEQUENCE.to_ne_bytes(), &[0; 4], payload].concat()
}

fn seeds() -> Vec<Vec<u8>> {
    // NFT_MSG_NEWTABLE, NFT_MSG_NEWSETELEM, NLMSG_ERROR, NLMSG_DONE.
    let table = |name: &[u8]| message(0x0a00, 2, &[&[1, 0, 0, 0][..], &attribute(1, name)].concat());
    let element = attribute(1, &[attribute(1, &[0; 4]), attribute(5, &2500_u64.to_be_bytes())].concat());
    let element =
        message(0x0a0c, 0, &[&[1, 0, 0, 0][..], &attribute(1, b"hitless-hold\0"), &attribute(3, &element)].concat());
    let (refused, done) = (message(2, 0, &(-2_i32).to_ne_bytes()), message(3, 2, &[0; 4]));
    vec![[table(b"hitless-hold\0"), table(b"filter\0"), done].concat(), element, refused, message(2, 0, &[0; 4])]
}

fn said(datagram: &[u8]) -> Vec<String> {
    packet_filter(datagram, SEQUENCE).map_while(Result::ok).map(|reply| format!("{reply:?}")).collect()
}

fn run(data: &[u8]) {
    let replies: Vec<_> = packet_filter(data, SEQUENCE).take(data.len() + 2).collect();
    assert!(replies.len() <= data.len() / HEADER + 1, "{} messages in {} bytes", replies.len(), data.len());
    for reply in replies.into_iter().flatten() {
        if let Reply::Object(Some(name), _) = reply {
            assert!(name.starts_with("hitless-"), "a table of others would be deleted: {name:?}");
        }
    }
    let all = said(data);
    for cut in [data.len() / 2, data.len().saturating_sub(1)] {
        assert!(all.starts_with(&said(&data[..cut])), "cut off after {cut} bytes it says something else");
    }
}
