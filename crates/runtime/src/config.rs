//! Settings from the environment, each read once and refused by its name when it makes no sense.

use std::fmt::Display;
use std::str::FromStr;

use hitless_api::names::{SYSTEM_NAMESPACE_SETTING, set_system_namespace};

/// Exit code of a daemon whose settings make no sense (docs/contract.md#units-and-exit-codes; `EX_USAGE` of sysexits).
pub const EXIT_CONFIGURATION: u8 = 64;

/// A setting that is missing or makes no sense.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ConfigError {
    /// A required setting is absent or empty.
    #[error("environment variable {0} is not set; set it in the pod's env and start again")]
    Missing(&'static str),
    /// A setting does not parse.
    #[error("environment variable {name} has the value {value:?}, which is not usable: {why}")]
    Unusable {
        /// The setting.
        name: &'static str,
        /// What it was set to.
        value: String,
        /// What the parser said.
        why: String,
    },
}

/// A source of settings: the process environment, or a map in tests.
pub struct Settings<F>(F);

impl Settings<fn(&str) -> Option<String>> {
    /// The environment of this process.
    #[must_use]
    pub fn from_environment() -> Self {
        Self(|name| std::env::var(name).ok())
    }
}

impl<F: Fn(&str) -> Option<String>> Settings<F> {
    /// Settings that `lookup` knows.
    pub const fn new(lookup: F) -> Self {
        Self(lookup)
    }

    /// The value of `name`; an empty value counts as absent.
    pub fn optional(&self, name: &'static str) -> Option<String> {
        (self.0)(name).filter(|value| !value.is_empty())
    }

    /// The value of `name`.
    pub fn required(&self, name: &'static str) -> Result<String, ConfigError> {
        self.optional(name).ok_or(ConfigError::Missing(name))
    }

    /// The value of `name`, or `default` where it is absent. Set to nothing, it is off.
    pub fn or_off(&self, name: &'static str, default: &str) -> Option<String> {
        Some((self.0)(name).unwrap_or_else(|| default.to_owned())).filter(|value| !value.is_empty())
    }

    /// The parsed value of `name`, or `default` where it is absent.
    pub fn parsed<T>(&self, name: &'static str, default: T) -> Result<T, ConfigError>
    where
        T: FromStr<Err: Display>,
    {
        Ok(self.optional_parsed(name)?.unwrap_or(default))
    }

    /// Obeys [`SYSTEM_NAMESPACE_SETTING`]. A program does that before anything else.
    pub fn obey_system_namespace(&self) -> Result<(), ConfigError> {
        let Some(value) = self.optional(SYSTEM_NAMESPACE_SETTING) else { return Ok(()) };
        let is_label = |each: u8| each.is_ascii_lowercase() || each.is_ascii_digit() || each == b'-';
        if value.len() > 63 || !value.bytes().all(is_label) || value.starts_with('-') || value.ends_with('-') {
            let why = "it is no name of a namespace; set it to the one that hitless runs in".to_owned();
            return Err(ConfigError::Unusable { name: SYSTEM_NAMESPACE_SETTING, value, why });
        }
        set_system_namespace(value);
        Ok(())
    }

    /// The parsed value of `name`, if it is there.
    pub fn optional_parsed<T>(&self, name: &'static str) -> Result<Option<T>, ConfigError>
    where
        T: FromStr<Err: Display>,
    {
        let Some(value) = self.optional(name) else { return Ok(None) };
        let parsed = value.parse();
        parsed.map(Some).map_err(|why: T::Err| ConfigError::Unusable { name, value, why: why.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings<impl Fn(&str) -> Option<String>> {
        Settings::new(|name| match name {
            "EMPTY" => Some(String::new()),
            "PORT" => Some("99999".into()),
            "NODE" => Some("a".into()),
            _ => None,
        })
    }

    #[test]
    fn an_empty_setting_is_a_missing_one() {
        assert_eq!(settings().required("EMPTY"), Err(ConfigError::Missing("EMPTY")));
        assert_eq!(settings().required("NODE").as_deref(), Ok("a"));
        assert_eq!(settings().parsed("OTHER", 7_u16), Ok(7));
        let or_off = |name| settings().or_off(name, "default");
        assert_eq!(
            (or_off("EMPTY"), or_off("OTHER").as_deref(), or_off("NODE").as_deref()),
            (None, Some("default"), Some("a"))
        );
    }

    #[test]
    fn an_unusable_setting_is_refused_by_name_and_value() {
        let error = settings().parsed("PORT", 1_u16).unwrap_err().to_string();
        assert!(error.contains("PORT") && error.contains("99999"), "{error}");
    }

    #[test]
    fn a_namespace_that_can_not_be_one_is_refused() {
        for value in ["Hitless", "a/b", "-a", "a-", "a.b"] {
            let settings = Settings::new(|_: &str| Some(value.to_owned()));
            let error = settings.obey_system_namespace().unwrap_err().to_string();
            assert!(error.contains("HITLESS_NAMESPACE") && error.contains("no name of a namespace"), "{error}");
        }
        // Tests of one process share the namespace, so no other one is set here.
        Settings::new(|_: &str| None).obey_system_namespace().unwrap();
        assert_eq!(hitless_api::names::system_namespace(), "hitless-system");
    }
}
