//! What is remembered of how long a workload's containers are away: image patch → LISTEN of the new process, and → Ready
//! (docs/contract.md#learned-gap).

use serde::de::{Deserializer, MapAccess, Visitor};
use serde::ser::{SerializeMap as _, Serializer};
use serde::{Deserialize, Serialize};

/// The gaps of so many revisions are kept.
const KEPT: usize = 5;
/// Gaps are kept rounded up to this, in milliseconds, so that not every operation is a new record.
const STEP: u32 = 100;

/// The longest gap of each of the last revisions, the newest last: the value of the annotations `hitless.dev/gap` and
/// `hitless.dev/gap-to-ready`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gaps(Vec<(String, u32)>);

impl Gaps {
    /// Reads the annotation; what is not understood counts as nothing known.
    #[must_use]
    pub fn parse(annotation: Option<&str>) -> Self {
        annotation.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// The longest of all, in milliseconds.
    #[must_use]
    pub fn longest(&self) -> Option<u32> {
        self.0.iter().map(|(_, gap)| *gap).max()
    }

    /// That of this revision, in milliseconds, if pods were brought to it of late.
    #[must_use]
    pub fn of(&self, revision: &str) -> Option<u32> {
        self.0.iter().find(|(known, _)| known == revision).map(|(_, gap)| *gap)
    }

    /// How much longer than these that of this revision is, in milliseconds.
    #[must_use]
    pub fn since(&self, gaps: &Self, revision: &str) -> Option<u32> {
        Some(self.of(revision)?.saturating_sub(gaps.of(revision)?))
    }

    /// Whether pods were brought to this revision of late.
    #[must_use]
    pub fn knows(&self, revision: &str) -> bool {
        self.of(revision).is_some()
    }

    /// The gaps with one more; `None` if that is nothing new.
    #[must_use]
    pub fn with(&self, revision: &str, milliseconds: u32) -> Option<Self> {
        let gap = milliseconds.div_ceil(STEP).saturating_mul(STEP);
        if self.of(revision).is_some_and(|known| known >= gap) {
            return None;
        }
        let others = self.0.iter().filter(|(known, _)| known != revision).cloned();
        let mut all: Vec<_> = others.chain([(revision.to_owned(), gap)]).collect();
        all.drain(..all.len().saturating_sub(KEPT));
        Some(Self(all))
    }

    /// The annotation.
    #[must_use]
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl Serialize for Gaps {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (revision, gap) in &self.0 {
            map.serialize_entry(revision, gap)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Gaps {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Gaps;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("milliseconds by revision")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Gaps, A::Error> {
                let mut all = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    all.push(entry);
                }
                Ok(Gaps(all))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_five_revisions_are_kept_in_their_order() {
        let mut gaps = Gaps::parse(None);
        for (revision, gap) in [("z", 900), ("y", 310), ("x", 300), ("w", 1), ("v", 2), ("u", 3)] {
            gaps = gaps.with(revision, gap).unwrap();
        }
        assert_eq!(gaps.text(), r#"{"y":400,"x":300,"w":100,"v":100,"u":100}"#);
        assert_eq!(Gaps::parse(Some(&gaps.text())), gaps);
        assert_eq!(gaps.longest(), Some(400), "the oldest one is forgotten");
        assert_eq!((gaps.of("w"), gaps.of("z")), (Some(100), None));
        let ready = Gaps::default().with("w", 900).unwrap().with("z", 900).unwrap();
        assert_eq!((ready.since(&gaps, "w"), ready.since(&gaps, "z")), (Some(800), None));
    }

    #[test]
    fn only_a_longer_gap_is_worth_a_write() {
        let gaps = Gaps::default().with("a", 230).unwrap();
        assert_eq!((gaps.with("a", 300), gaps.with("a", 10)), (None, None));
        assert_eq!(gaps.with("a", 301).unwrap().longest(), Some(400));
        assert_eq!(Gaps::parse(Some("nonsense")).longest(), None);
    }
}
