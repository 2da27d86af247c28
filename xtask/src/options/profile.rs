//! Sets of options that have a name: files of tests/cluster/profiles.

use std::fs;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::Context as _;
use hitless_cluster::{Kubernetes, Options};
use hitless_e2e::build::workspace;

/// A set of options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Profile {
    /// The file's name without `.toml`.
    pub(crate) name: String,
    pub(crate) options: Options,
}

impl Profile {
    /// All of them, by name.
    pub(crate) fn all() -> anyhow::Result<Vec<Self>> {
        let directory = directory();
        let entries = fs::read_dir(&directory).with_context(|| format!("read {}", directory.display()))?;
        let mut names = Vec::new();
        for entry in entries {
            let path = entry?.path();
            names.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
        }
        names.sort();
        names.iter().map(|name| name.parse().map_err(anyhow::Error::msg)).collect()
    }

    /// The one that a run of all tests takes besides the default: another one for each commit, whose number `commit` is. Those with
    /// another Kubernetes are left out: to build one takes longer than all the tests that run on it.
    pub(crate) fn of_commit(commit: u64) -> anyhow::Result<Option<Self>> {
        let mut all = Self::all()?;
        all.retain(|profile| profile.options.kubernetes == Kubernetes::default());
        let count = u64::try_from(all.len())?;
        let turn = commit.checked_rem(count).map(usize::try_from).transpose()?;
        Ok(turn.map(|turn| all.swap_remove(turn)))
    }
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
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_profile_can_be_read_and_is_another_one_than_the_default() {
        let all = Profile::all().unwrap();
        assert!(all.iter().any(|profile| profile.name == "managed-1.34"), "{all:?}");
        assert!(all.iter().all(|profile| profile.options != Options::default()), "{all:?}");
        assert!("no-such".parse::<Profile>().unwrap_err().contains("no-such.toml"));
    }

    #[test]
    fn commits_take_turns_among_the_profiles_with_the_same_kubernetes() {
        let all = Profile::all().unwrap();
        let same = all.iter().filter(|profile| profile.options.kubernetes == Kubernetes::default()).count();
        let taken: BTreeSet<String> =
            (0..8).filter_map(|commit| Some(Profile::of_commit(commit).unwrap()?.name)).collect();
        assert_eq!(taken.len(), same, "{taken:?}");
        assert_eq!(Profile::of_commit(0).unwrap(), Profile::of_commit(u64::try_from(same).unwrap()).unwrap());
    }
}
