//! Commands in a text, as a shell would take them apart.

/// A command that a page names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Page and line.
    pub at: String,
    /// Its words behind the program, without quotes.
    pub words: Vec<String>,
    /// It can be typed as it stands; else it may leave out what it does not speak of.
    pub whole: bool,
}

/// The words behind each place where the text calls this program. A program that is only named has none and is left out.
pub(crate) fn all(text: &str, program: &str) -> Vec<Vec<String>> {
    let begins = |at: usize| {
        text[..at].chars().next_back().is_none_or(|before| before.is_whitespace() || "(\"'".contains(before))
    };
    let places = text.match_indices(program).filter(|(at, _)| begins(*at));
    let rests = places.map(|(at, _)| &text[at + program.len()..]);
    let called = rests.filter(|rest| rest.starts_with(char::is_whitespace));
    called.map(words).filter(|words| !words.is_empty()).collect()
}

/// Up to the end of the command. What people write for a reader is taken off: brackets around what may be left out, dots for more.
fn words(rest: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for each in rest.chars() {
        match (quote, each) {
            (Some(open), _) if each == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(each);
                word.get_or_insert_default();
            }
            (None, ';' | '|' | '&' | ')' | '<' | '>' | '\n') => break,
            (None, '#') if word.is_none() => break,
            (None, '[' | ']' | '…') => {}
            (None, _) if each.is_whitespace() => words.extend(word.take()),
            (Some(_) | None, _) => word.get_or_insert_default().push(each),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Vec<String> {
        let mut found = all(text, "kubectl hitless");
        assert_eq!(found.len(), 1, "{text}");
        found.remove(0)
    }

    #[test]
    fn words_are_those_of_a_shell() {
        assert_eq!(one("kubectl hitless status -n shop -w      # a remark"), ["status", "-n", "shop", "-w"]);
        assert_eq!(one("source <(kubectl hitless completion bash)"), ["completion", "bash"]);
        assert_eq!(one("kubectl hitless pause -l 'app in (a, b)' && true"), ["pause", "-l", "app in (a, b)"]);
        assert_eq!(one("kubectl hitless undo [--to-revision N]"), ["undo", "--to-revision", "N"]);
        assert_eq!(one("kubectl hitless set image WORKLOAD C=IMAGE…"), ["set", "image", "WORKLOAD", "C=IMAGE"]);
    }

    #[test]
    fn what_only_names_the_program_is_no_command() {
        for text in ["kubectl hitless", "kubectl hitless …", "my-kubectl hitless why", "kubectl hitlessly go"] {
            assert_eq!(all(text, "kubectl hitless"), Vec::<Vec<String>>::new(), "{text}");
        }
        assert_eq!(all("kubectl hitless a; kubectl hitless b", "kubectl hitless"), [["a"], ["b"]]);
    }
}
