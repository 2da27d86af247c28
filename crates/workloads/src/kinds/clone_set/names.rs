//! Labels and names of OpenKruise's (upstream v1.9; docs/contract.md#cloneset).

use crate::pod_set::naming::{ClaimFor, LETTERS};

/// API group of OpenKruise's workloads.
pub(crate) const GROUP: &str = "apps.kruise.io";

/// On a pod or claim: its instance id, five letters.
pub(super) const INSTANCE_ID: &str = "apps.kruise.io/cloneset-instance-id";
/// On a pod, with any value: it is deleted, and made anew where the number of pods stays.
pub(super) const SPECIFIED_DELETE: &str = "apps.kruise.io/specified-delete";
/// On a CloneSet, value `true`: what v1beta1 says by `scaleStrategy.excludePreparingDelete`.
pub(super) const EXCLUDES_PREPARING_DELETE: &str = "apps.kruise.io/cloneset-scaling-exclude-preparing-delete";
/// On a pod: where it is in its life ([`super::hooks::State`]). Absent or `Normal`: it counts as available.
pub(super) const LIFECYCLE_STATE: &str = "lifecycle.apps.kruise.io/state";
/// On a claim, ours: name of its template.
pub(super) const CLAIM_TEMPLATE: &str = "hitless.dev/claim-template";
/// On a claim, ours: hash of its template.
pub(super) const CLAIM_HASH: &str = "hitless.dev/claim-hash";
/// On a claim, ours: a set has let it go. CloneSets let no claim go.
pub(super) const ORPHANED: &str = "hitless.dev/orphaned";

/// Letters of an id.
const LENGTH: u32 = 5;
/// So many ids there are.
const IDS: u64 = 27_u64.pow(LENGTH);
/// The same as a number of an id.
pub(super) const MOST: i32 = 14_348_907;
const _: () = assert!(IDS == 14_348_907);
/// Neighbouring numbers give ids that do not look alike. It and the number of ids have no common factor, so each number has one id.
const STEP: u64 = 5_000_011;
/// What undoes a multiplication by [`STEP`].
const BACK: u64 = power(STEP, IDS / 3 * 2 - 1);

/// By Euler's theorem the inverse of a number is a power of it.
const fn power(base: u64, mut exponent: u64) -> u64 {
    let (mut result, mut square) = (1, base % IDS);
    while exponent > 0 {
        if exponent % 2 == 1 {
            result = result * square % IDS;
        }
        square = square * square % IDS;
        exponent /= 2;
    }
    result
}

/// The letters of the id with this number.
pub(super) fn id_text(id: i32) -> String {
    let mut number = u64::try_from(id).unwrap_or_default() % IDS * STEP % IDS;
    let mut text = String::new();
    for _ in 0..LENGTH {
        let letter = usize::try_from(number % 27).unwrap_or_default();
        text.push(char::from(LETTERS[letter]));
        number /= 27;
    }
    text
}

/// The number of the id with these letters; `None`: it is none.
pub(super) fn read_id(text: &str) -> Option<i32> {
    if text.len() != LENGTH as usize {
        return None;
    }
    let mut number = 0;
    for letter in text.bytes().rev() {
        let digit = LETTERS.iter().position(|known| *known == letter)?;
        number = number * 27 + u64::try_from(digit).ok()?;
    }
    i32::try_from(number * BACK % IDS).ok()
}

/// Name of the pod with this id.
pub(super) fn pod(set: &str, id: i32) -> String {
    format!("{set}-{}", id_text(id))
}

/// Name of a claim: its template, its set and its id, which are the end of the pod's name.
pub(super) fn claim(claim: &ClaimFor<'_>) -> String {
    format!("{}-{}", claim.template, claim.pod)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_number_has_one_id_and_every_id_one_number() {
        let texts: BTreeSet<String> = (0..20_000).map(id_text).collect();
        assert_eq!(texts.len(), 20_000);
        for id in [0, 1, 2, 26, 27, 19_999, 14_348_906] {
            let text = id_text(id);
            assert_eq!(read_id(&text), Some(id), "{text}");
        }
        // As Kruise's own manager makes them.
        for text in ["4pvwz", "bbbbb", "99999", "x7kqd"] {
            let id = read_id(text);
            assert_eq!(
                id.map(id_text).as_deref(),
                text.bytes().all(|letter| LETTERS.contains(&letter)).then_some(text)
            );
        }
        assert_eq!((read_id("a1b2c"), read_id("bbbb"), read_id("")), (None, None, None));
    }

    #[test]
    fn names_are_upstreams() {
        assert_eq!(pod("web", 0), format!("web-{}", id_text(0)));
        let names = ClaimFor { set: "web", uid: "u", pod: "web-bbbbb", template: "data", hash: "h" };
        assert_eq!(claim(&names), "data-web-bbbbb");
    }
}
