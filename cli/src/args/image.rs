//! References of images, as registries and runtimes take them (github.com/distribution/reference).

use std::sync::LazyLock;

use regex::Regex;

/// Most characters of a name without tag and digest.
const LONGEST_NAME: usize = 255;

/// `None` if the pattern itself were wrong: then nothing is refused.
static REFERENCE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    const LABEL: &str = "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?";
    const PART: &str = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*";
    let host = format!(r"(?:{LABEL}(?:\.{LABEL})*|\[[0-9a-fA-F:]+\])(?::[0-9]+)?");
    let name = format!("(?:{host}/)?{PART}(?:/{PART})*");
    let tag = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}";
    let digest = "(?:sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128})";
    Regex::new(&format!("^({name})(?::{tag})?(?:@{digest})?$")).ok()
});

/// Whether a text can be the image of a container.
pub(super) fn is_reference(text: &str) -> bool {
    let Some(reference) = &*REFERENCE else { return true };
    let name = reference.captures(text).and_then(|found| found.get(1));
    name.is_some_and(|name| name.len() <= LONGEST_NAME)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_an_image_is_told_from_what_can_not() {
        let digest = format!("sha256:{}", "0a".repeat(32));
        for image in [
            "web".to_owned(),
            "web:v2".to_owned(),
            "localhost:5000/web:V2_rc.1-x".to_owned(),
            "r.io/team/my_web/a__b--c.d:v1.hitless-0a".to_owned(),
            "Registry.Example:443/web".to_owned(),
            "[::1]:5000/web:v1".to_owned(),
            format!("web@{digest}"),
            format!("r.io:5000/web:v2@{digest}"),
        ] {
            assert!(is_reference(&image), "{image}");
        }
        for image in [
            "UPPER case:v3".to_owned(),
            "WEB:v3".to_owned(),
            "web:".to_owned(),
            "web:v1:v2".to_owned(),
            "r.io//web".to_owned(),
            "/web".to_owned(),
            "https://r.io/web:v1".to_owned(),
            "web:-v1".to_owned(),
            format!("web:{}", "v".repeat(129)),
            "web@sha256:1".to_owned(),
            format!("web@md5:{}", "0".repeat(32)),
            " web:v1".to_owned(),
            "web:v1\n".to_owned(),
            "w".repeat(256),
        ] {
            assert!(!is_reference(&image), "{image}");
        }
    }
}
