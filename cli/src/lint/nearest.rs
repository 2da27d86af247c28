//! Names that are nearly other ones.

/// How many letters have to be changed, added or left out to make one name of the other; upper and lower case are the same.
pub(super) fn distance(one: &str, other: &str) -> usize {
    strsim::levenshtein(&one.to_lowercase(), &other.to_lowercase())
}

/// The one of these names that is meant by `name`, if one is near enough.
pub(crate) fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let (lower, same) = (name.to_lowercase(), |text: &str| text.to_lowercase());
    let is_part =
        |known: &str| !lower.is_empty() && (same(known).starts_with(&lower) || lower.starts_with(&same(known)));
    let near = known.iter().map(|known| (distance(known, name), *known));
    let near = near.filter(|(away, known)| *away <= 2.max(name.len() / 4) || is_part(known));
    near.min_by_key(|(away, known)| (*away, known.len())).map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_that_differ_are_counted() {
        for (one, other, away) in
            [("", "abc", 3), ("abc", "abc", 0), ("ABC", "abc", 0), ("abcd", "acd", 1), ("kitten", "sitting", 3)]
        {
            assert_eq!((distance(one, other), distance(other, one)), (away, away), "{one} {other}");
        }
    }

    #[test]
    fn the_nearest_is_meant() {
        let known = ["maxUnavailablePolicy", "maxUnavailableValue", "minAvailableValue"];
        assert_eq!(nearest("maxUnavailable", &known), Some("maxUnavailableValue"));
        assert_eq!(nearest("minavailablevalue", &known), Some("minAvailableValue"));
        assert_eq!(nearest("windows", &known), None);
        assert_eq!(nearest("availabelPolicy", &["availablePolicy", "labelCheck"]), Some("availablePolicy"));
    }
}
