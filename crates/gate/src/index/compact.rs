//! What every pod has, in few bytes: its uid, its name, times.

use std::cmp::Ordering;
use std::hash::{BuildHasher, Hash};

use hashbrown::DefaultHashBuilder;
use jiff::Timestamp;

use super::interner::{Interner, Symbol};

/// A uid: 16 bytes if it has the form that API servers give it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Uid<T = Box<str>> {
    Uuid([u8; 16]),
    Other(T),
}

impl<'a> Uid<&'a str> {
    pub(crate) fn of(text: &'a str) -> Self {
        uuid(text).map_or(Self::Other(text), Self::Uuid)
    }

    pub(crate) fn kept(&self) -> Uid {
        match self {
            Self::Uuid(bytes) => Uid::Uuid(*bytes),
            Self::Other(text) => Uid::Other((*text).into()),
        }
    }
}

impl Uid {
    pub(crate) fn borrowed(&self) -> Uid<&str> {
        match self {
            Self::Uuid(bytes) => Uid::Uuid(*bytes),
            Self::Other(text) => Uid::Other(text),
        }
    }
}

impl<T: AsRef<str> + Hash> Uid<T> {
    pub(crate) fn hash(&self, hasher: &DefaultHashBuilder) -> u64 {
        hasher.hash_one(self)
    }

    pub(crate) fn is(&self, other: &Uid<&str>) -> bool {
        match (self, other) {
            (Self::Uuid(a), Uid::Uuid(b)) => a == b,
            (Self::Other(a), Uid::Other(b)) => a.as_ref() == *b,
            _ => false,
        }
    }

    pub(crate) fn text(&self) -> String {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        match self {
            Self::Other(text) => text.as_ref().to_owned(),
            Self::Uuid(bytes) => {
                let mut text = String::with_capacity(36);
                for (place, byte) in bytes.iter().enumerate() {
                    if matches!(place, 4 | 6 | 8 | 10) {
                        text.push('-');
                    }
                    text.push(char::from(DIGITS[usize::from(byte >> 4)]));
                    text.push(char::from(DIGITS[usize::from(byte & 15)]));
                }
                text
            }
        }
    }
}

/// Only lower-case digits with the usual hyphens, so that the text can be told from the bytes.
fn uuid(text: &str) -> Option<[u8; 16]> {
    let text: &[u8; 36] = text.as_bytes().try_into().ok()?;
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; 16];
    let mut next = 0;
    for byte in &mut bytes {
        if matches!(next, 8 | 13 | 18 | 23) {
            if text[next] != b'-' {
                return None;
            }
            next += 1;
        }
        *byte = digit(text[next])? << 4 | digit(text[next + 1])?;
        next += 2;
    }
    Some(bytes)
}

/// Longest end of a name that is kept with the pod.
const END: usize = 7;

/// A name: pods of one ReplicaSet share all of it but the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    stem: Symbol,
    end: [u8; END],
    length: u8,
}

impl Name {
    pub(crate) fn intern(symbols: &mut Interner, text: &str) -> Self {
        let (stem, end) = parts(text);
        let mut bytes = [0; END];
        bytes[..end.len()].copy_from_slice(end.as_bytes());
        Self { stem: symbols.intern(stem), end: bytes, length: u8::try_from(end.len()).unwrap_or_default() }
    }

    pub(crate) fn release(&self, symbols: &mut Interner) {
        symbols.release(self.stem);
    }

    pub(crate) fn text(&self, symbols: &Interner) -> String {
        [symbols.text(self.stem), std::str::from_utf8(self.end()).unwrap_or_default()].concat()
    }

    pub(crate) fn is(&self, symbols: &Interner, text: &str) -> bool {
        let (stem, end) = parts(text);
        symbols.text(self.stem) == stem && self.end() == end.as_bytes()
    }

    pub(crate) fn cmp(&self, other: &Self, symbols: &Interner) -> Ordering {
        let bytes = |name: &Self| symbols.text(name.stem).bytes().chain(name.end.into_iter().take(name.length.into()));
        if self.stem == other.stem { self.end().cmp(other.end()) } else { bytes(self).cmp(bytes(other)) }
    }

    fn end(&self) -> &[u8] {
        self.end.get(..self.length.into()).unwrap_or_default()
    }
}

/// A name before and from its last hyphen on, if that is short.
fn parts(text: &str) -> (&str, &str) {
    text.rfind('-').filter(|place| text.len() - place <= END).map_or((text, ""), |place| text.split_at(place))
}

/// Perhaps a time, in microseconds: twice as small as an `Option<Timestamp>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Time(i64);

impl Time {
    const NONE: i64 = i64::MIN;

    pub(crate) fn of(time: Option<Timestamp>) -> Self {
        Self(time.map_or(Self::NONE, Timestamp::as_microsecond))
    }

    pub(crate) fn get(self) -> Option<Timestamp> {
        Timestamp::from_microsecond(self.0).ok().filter(|_| self.0 != Self::NONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uid_is_told_as_it_was_given() {
        let uuid = "0f5e2b1c-9a77-4d3e-8b21-00ffee12ab90";
        for (text, is_short) in [
            (uuid, true),
            ("0F5e2b1c-9a77-4d3e-8b21-00ffee12ab90", false),
            ("0f5e2b1c-9a77-4d3e-8b21-00ffee12ab9", false),
            ("0f5e2b1c09a77-4d3e-8b21-00ffee12ab90", false),
            ("ü", false),
            ("", false),
        ] {
            let given = Uid::of(text);
            assert_eq!((given.text(), given.kept().text()), (text.to_owned(), text.to_owned()));
            assert_eq!(matches!(given, Uid::Uuid(_)), is_short, "{text}");
            assert!(given.kept().is(&given));
            let hasher = DefaultHashBuilder::default();
            assert_eq!(given.hash(&hasher), given.kept().hash(&hasher));
            assert!(!given.kept().is(&Uid::of("another")));
        }
    }

    #[test]
    fn a_name_is_told_as_it_was_given_and_ordered_as_text() {
        let mut symbols = Interner::default();
        let texts = [
            "",
            "-",
            "a",
            "a-",
            "web-0",
            "web-10",
            "web-2",
            "web-5d4f-x7k2p",
            "web-5d4f-x7k2q",
            "web-something",
            "ü-ü",
        ];
        let names: Vec<Name> = texts.iter().map(|text| Name::intern(&mut symbols, text)).collect();
        for (text, name) in texts.iter().zip(&names) {
            assert_eq!(name.text(&symbols), **text);
            assert!(name.is(&symbols, text) && !name.is(&symbols, "other"));
            for (other_text, other) in texts.iter().zip(&names) {
                assert_eq!(name.cmp(other, &symbols), text.cmp(other_text), "{text} {other_text}");
            }
        }
        for name in &names {
            name.release(&mut symbols);
        }
        assert_eq!(symbols.len(), 0);
    }

    #[test]
    fn a_time_may_be_missing() {
        for time in
            [None, Some(Timestamp::UNIX_EPOCH), Some(Timestamp::from_microsecond(1_795_000_000_123_456).unwrap())]
        {
            assert_eq!(Time::of(time).get(), time);
        }
        assert_eq!(Time::of(Some(Timestamp::MIN)).get(), Some(Timestamp::MIN));
        assert_eq!(std::mem::size_of::<Time>(), 8);
    }
}
