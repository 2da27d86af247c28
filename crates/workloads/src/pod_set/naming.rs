//! Names of a set's pods, revisions and claims.

use hitless_api::digest;
use serde_json::json;

/// As the API server's own random names: no vowels, nothing that is easily taken for something else.
pub(crate) const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// Longest value of a label, and longest name of a host.
const LONGEST: usize = 63;
/// Letters at the end of a pod's name.
const SUFFIX: usize = 5;

/// The name that follows `previous` (empty: none) for this instance id.
pub(crate) fn next_pod(set: &str, uid: &str, id: i32, previous: &str) -> String {
    let hash = digest::short(&json!([uid, id, previous]));
    let mut number = u64::from_str_radix(&hash, 16).unwrap_or_default();
    let mut suffix = String::with_capacity(SUFFIX);
    for _ in 0..SUFFIX {
        let letter = usize::try_from(number % 27).unwrap_or_default();
        suffix.push(char::from(LETTERS[letter]));
        number /= 27;
    }
    format!("{}-{suffix}", beginning(set, SUFFIX))
}

/// The one name of this instance id, where pods are named in sequence.
pub(crate) fn in_sequence(set: &str, id: i32) -> String {
    format!("{set}-{id}")
}

/// Name of the ControllerRevision of a template with this hash. It is the value of a label, too.
pub(crate) fn revision(set: &str, hash: &str) -> String {
    let hash = hash.get(..10).unwrap_or(hash);
    format!("{}-{hash}", beginning(set, hash.len()))
}

/// What a claim is made for.
pub(crate) struct ClaimFor<'n> {
    /// Name and uid of the set.
    pub(crate) set: &'n str,
    pub(crate) uid: &'n str,
    /// Name of the pod.
    pub(crate) pod: &'n str,
    /// Name of the claim's template, and its hash.
    pub(crate) template: &'n str,
    pub(crate) hash: &'n str,
}

/// Name of the claim for a template that is made for the pod of this name: the same for the same, so it is made once. A pod that was
/// let go keeps its name and its claims.
pub(crate) fn claim(ClaimFor { set, uid, pod, template, hash }: &ClaimFor<'_>) -> String {
    let hash = digest::short(&json!([uid, pod, template, hash]));
    format!("{set}-{template}-{}", hash.get(..10).unwrap_or(&hash))
}

/// As much of the set's name as leaves room for a dash and so many letters.
fn beginning(set: &str, letters: usize) -> &str {
    let end = set.len().min(LONGEST - 1 - letters);
    set.get(..end).unwrap_or(set).trim_end_matches(['-', '.'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_same_for_the_same_past_and_differ_else() {
        let first = next_pod("web", "u", 0, "");
        assert_eq!(first, next_pod("web", "u", 0, ""));
        assert!(first.starts_with("web-") && first.len() == 9, "{first}");
        let others = [next_pod("web", "u", 1, ""), next_pod("web", "v", 0, ""), next_pod("web", "u", 0, &first)];
        assert!(others.iter().all(|other| *other != first), "{others:?}");
    }

    #[test]
    fn names_are_never_too_long() {
        let long = "a-name-that-is-much-too-long-for-a-host-name-or-for-the-value-of-a-label";
        assert_eq!(next_pod(long, "u", 0, "").len(), LONGEST);
        assert!(revision(long, "0123456789abcdef").len() <= LONGEST);
        assert_eq!(revision("web", "0123456789abcdef"), "web-0123456789");
    }
}
