//! How answers are printed.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{Write as _, stderr, stdout};

use serde::Serialize;

use crate::args::Format;
use crate::failure::Failure;

/// As it was asked for.
pub(crate) fn show<T: Serialize>(value: &T, format: Format, text: impl FnOnce() -> String) -> Result<(), Failure> {
    match format {
        Format::Text => say(text().trim_end()),
        Format::Json => say(&serde_json::to_string_pretty(value).map_err(std::io::Error::from)?),
        Format::Yaml => say(yaml(value)?.trim_end()),
    }
}

/// Prints a line, or several. Names and texts of objects are other people's: they move no cursor.
pub(crate) fn say(text: &str) -> Result<(), Failure> {
    let mut out = stdout().lock();
    writeln!(out, "{}", printable(text))?;
    out.flush()?;
    Ok(())
}

/// The same for what is no answer. Nobody may read it any more, as in `kubectl hitless why web 2>&1 | head`: that is no reason to fail.
pub(crate) fn remark(text: &str) {
    let _ = writeln!(stderr().lock(), "{}", printable(text));
}

/// With all control characters but tabs and the ends of lines written out, in the form that JSON has for them.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    written_out(text, |letter| is_control(letter) && !matches!(letter, '\n' | '\t'))
}

/// The same with the ends of lines: a text of an object that stands within a line of ours.
pub(crate) fn one_line(text: &str) -> String {
    written_out(text, is_control).into_owned()
}

/// Those of Unicode, and what turns the direction of writing round.
fn is_control(letter: char) -> bool {
    letter.is_control() || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}')
}

fn written_out(text: &str, is_meant: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_meant) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        match letter {
            '\n' if is_meant('\n') => out.push_str("\\n"),
            letter if is_meant(letter) => {
                let _ = write!(out, "\\u{:04x}", u32::from(letter));
            }
            letter => out.push(letter),
        }
    }
    Cow::Owned(out)
}

/// `1 error`, `2 errors`.
pub(crate) fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// `a, b, c and 2 more`, where so many are named at most.
pub(crate) fn names<T: AsRef<str>>(all: &[T], most: usize) -> String {
    let shown = all.iter().take(most).map(AsRef::as_ref).collect::<Vec<_>>().join(", ");
    if all.len() > most { format!("{shown} and {} more", all.len() - most) } else { shown }
}

pub(crate) fn yaml<T: Serialize>(value: &T) -> Result<String, Failure> {
    Ok(serde_saphyr::to_string(value).map_err(std::io::Error::other)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_objects_move_no_cursor() {
        assert_eq!(printable("a\n  b — ü"), "a\n  b — ü");
        assert_eq!(printable("\u{1b}[31mred\r\u{9b}2J\u{7f}\tend\n"), "\\u001b[31mred\\u000d\\u009b2J\\u007f\tend\n");
        assert_eq!(printable("a\u{202e}b"), "a\\u202eb");
        assert_eq!(one_line("a\nnote: all is well"), "a\\nnote: all is well");
    }

    #[test]
    fn one_is_not_many() {
        assert_eq!([0, 1, 2].map(|number| count(number, "error")), ["0 errors", "1 error", "2 errors"]);
    }

    #[test]
    fn what_is_written_out_is_still_json() {
        let value = "x\u{1b}\u{9b}\u{7f}";
        let text = serde_json::to_string_pretty(value).unwrap();
        let printed = printable(&text);
        assert!(!printed.contains(char::is_control), "{printed:?}");
        assert_eq!(serde_json::from_str::<String>(&printed).unwrap(), value);
    }
}
