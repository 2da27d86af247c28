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

pub(crate) fn yaml<T: Serialize>(value: &T) -> Result<String, Failure> {
    Ok(serde_saphyr::to_string(value).map_err(std::io::Error::other)?)
}
