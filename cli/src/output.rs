//! How answers are printed.

use serde::Serialize;

use crate::args::Format;
use crate::failure::Failure;
use crate::say;

/// As it was asked for.
pub(crate) fn show<T: Serialize>(value: &T, format: Format, text: impl FnOnce() -> String) -> Result<(), Failure> {
    match format {
        Format::Text => say(text().trim_end()),
        Format::Json => say(&serde_json::to_string_pretty(value).map_err(std::io::Error::from)?),
        Format::Yaml => say(yaml(value)?.trim_end()),
    }
}

/// `a, b, c and 2 more`, where so many are named at most.
pub(crate) fn names<T: AsRef<str>>(all: &[T], most: usize) -> String {
    let shown = all.iter().take(most).map(AsRef::as_ref).collect::<Vec<_>>().join(", ");
    if all.len() > most { format!("{shown} and {} more", all.len() - most) } else { shown }
}

pub(crate) fn yaml<T: Serialize>(value: &T) -> Result<String, Failure> {
    Ok(serde_saphyr::to_string(value).map_err(std::io::Error::other)?)
}
