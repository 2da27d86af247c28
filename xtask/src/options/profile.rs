//! Sets of options that have a name: files of tests/cluster/profiles.

use std::fs;
use std::path::PathBuf;
use std::str::FromStr;

use hitless_cluster::Options;
use hitless_e2e::build::workspace;

/// A set of options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Profile {
    /// The file's name without `.toml`.
    pub(crate) name: String,
    pub(crate) options: Options,
}

impl FromStr for Profile {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let path = directory().join(format!("{name}.toml"));
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let options = toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self { name: name.to_owned(), options })
    }
}

fn directory() -> PathBuf {
    workspace().join("tests/cluster/profiles")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Profile> {
        let entries = fs::read_dir(directory()).unwrap();
        let names = entries.map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned());
        names.map(|name| name.parse().unwrap()).collect()
    }

    #[test]
    fn every_profile_can_be_read_and_is_another_one_than_the_default() {
        let all = all();
        assert!(all.iter().any(|profile| profile.name == "managed-1.34"), "{all:?}");
        assert!(all.iter().all(|profile| profile.options != Options::default()), "{all:?}");
        assert!("no-such".parse::<Profile>().unwrap_err().contains("no-such.toml"));
    }
}
