//! How one input is made into several texts.

/// Stands between the texts.
pub(crate) const BETWEEN: &str = "\n----\n";

/// The texts of an input.
pub(crate) fn parts(input: &[u8]) -> Vec<&[u8]> {
    let (mut parts, mut rest) = (Vec::new(), input);
    while let Some(at) = rest.windows(BETWEEN.len()).position(|window| window == BETWEEN.as_bytes()) {
        parts.push(&rest[..at]);
        rest = &rest[at + BETWEEN.len()..];
    }
    parts.push(rest);
    parts
}

/// The same as text; what is not UTF-8 is replaced, as production does with what is not its own.
pub(crate) fn texts(input: &[u8]) -> Vec<String> {
    parts(input).into_iter().map(|part| String::from_utf8_lossy(part).into_owned()).collect()
}

/// An input of several texts.
pub(crate) fn joined(texts: &[&str]) -> Vec<u8> {
    texts.join(BETWEEN).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_has_the_texts_of_which_it_was_made() {
        assert_eq!(texts(&joined(&["a", "", "b\n"])), ["a", "", "b\n"]);
        assert_eq!(parts(b""), [b""]);
    }
}
