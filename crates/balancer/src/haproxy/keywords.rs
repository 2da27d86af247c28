//! Settings of dynamic servers, in the words of HAProxy's `add server`.

/// Longest list of keywords, in bytes.
const LONGEST: usize = 1024;

/// Settings of all servers that are registered in a pool, such as `check inter 2s maxconn 200`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keywords {
    text: String,
    check: bool,
}

/// Why keywords are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKeywords {
    /// They could be taken for another command.
    #[error(
        "the keywords {0:?} have other characters than letters, digits and . : / - _ @ , + % = or are longer than 1024 bytes"
    )]
    Characters(String),
    /// They say what is ours to say.
    #[error(
        "the keyword {0:?} can't be set: weight and state of the servers follow the pods, and all pods serve alike"
    )]
    Ours(String),
}

impl Keywords {
    /// Takes HAProxy's keywords. HAProxy itself judges them when a server is registered.
    pub fn new(text: &str) -> Result<Self, InvalidKeywords> {
        let character = |byte: u8| byte.is_ascii_alphanumeric() || b" .:/-_@,+%=".contains(&byte);
        if text.len() > LONGEST || !text.bytes().all(character) {
            return Err(InvalidKeywords::Characters(text.to_owned()));
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        match words.iter().find(|word| ["weight", "backup", "disabled", "enabled"].contains(word)) {
            Some(word) => Err(InvalidKeywords::Ours((*word).to_owned())),
            None => Ok(Self { text: words.join(" "), check: words.contains(&"check") }),
        }
    }

    /// Whether servers have a health check.
    pub(super) const fn check(&self) -> bool {
        self.check
    }

    /// As the end of a command.
    pub(super) fn after_a_space(&self) -> String {
        if self.text.is_empty() { String::new() } else { format!(" {}", self.text) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_end_the_command() {
        let keywords = Keywords::new(" check  inter 2s ").unwrap();
        assert_eq!((keywords.after_a_space().as_str(), keywords.check()), (" check inter 2s", true));
        assert_eq!((Keywords::default().after_a_space().as_str(), Keywords::default().check()), ("", false));
    }

    #[test]
    fn keywords_that_begin_another_command_or_decide_for_us_are_refused() {
        for text in ["check; del server a/b", "check\ndel server a/b", "check \\", &"a".repeat(1025)] {
            assert!(matches!(Keywords::new(text), Err(InvalidKeywords::Characters(_))), "{text:?}");
        }
        for text in ["weight 3", "check backup", "disabled"] {
            assert!(matches!(Keywords::new(text), Err(InvalidKeywords::Ours(_))), "{text:?}");
        }
    }
}
