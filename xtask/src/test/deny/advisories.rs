//! `[advisories]` of deny.toml, as far as it can be checked without the advisory database: versions that their authors have taken
//! back (yanked), and that nothing is ignored without a reason.
//!
//! The database is not here: `cargo deny check advisories` asks it, where there is an internet. What is yanked stands in the copy of the
//! registry's index that cargo keeps of every crate in Cargo.lock. It is as old as cargo's last look, and the check says how old.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::Context as _;
use jiff::Timestamp;
use serde::Deserialize;

use super::{CRATES_IO, Level, Package};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Advisories {
    yanked: Level,
    #[serde(default)]
    ignore: Vec<Ignored>,
}

/// What is known and accepted.
#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Ignored {
    Advisory {
        id: String,
        reason: String,
    },
    Yanked {
        /// `name@version`.
        #[serde(rename = "crate")]
        package: String,
        reason: String,
    },
}

/// What the index says of a crate, one of these for each version.
#[derive(Deserialize)]
struct Published {
    vers: String,
    yanked: bool,
}

/// The index as cargo has it.
pub(super) struct Index {
    /// One folder for each registry with such an index.
    folders: Vec<PathBuf>,
}

/// What was found.
#[derive(Default)]
pub(super) struct Found {
    /// What is not allowed, in words.
    pub findings: Vec<String>,
    /// When the oldest entry was read that was looked at.
    pub as_of: Option<Timestamp>,
}

impl Index {
    /// The one of this user's cargo.
    pub(super) fn of_cargo() -> anyhow::Result<Self> {
        let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
        let home = home.or_else(|| Some(std::env::home_dir()?.join(".cargo"))).context("no home directory")?;
        let folder = home.join("registry/index");
        let entries = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
        let names = entries.collect::<Result<Vec<_>, _>>()?.into_iter().map(|entry| entry.path());
        let is_sparse = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("index.crates.io-"))
        };
        Ok(Self { folders: names.filter(is_sparse).map(|path| path.join(".cache")).collect() })
    }

    /// All versions of this crate, and when cargo has read them.
    fn versions(&self, name: &str) -> Option<(Vec<Published>, SystemTime)> {
        let path = self.folders.iter().map(|folder| folder.join(place(name))).find(|path| path.is_file())?;
        let read = fs::metadata(&path).and_then(|metadata| metadata.modified()).ok()?;
        let bytes = fs::read(&path).ok()?;
        // A header, and then version and entry in turn, each with a zero behind it. Only entries are JSON objects with a version.
        let entries = bytes.split(|byte| *byte == 0).filter_map(|part| serde_json::from_slice(part).ok());
        Some((entries.collect(), read))
    }
}

/// Where the entry of a crate is in a sparse index (The Cargo Book, "Index Format").
fn place(name: &str) -> PathBuf {
    let name = name.to_lowercase();
    let folder = match (name.len(), name.get(..1), name.get(..2), name.get(2..4)) {
        (1 | 2, ..) => name.len().to_string(),
        (3, Some(first), ..) => format!("3/{first}"),
        (_, _, Some(first), Some(second)) => format!("{first}/{second}"),
        _ => String::new(),
    };
    Path::new(&folder).join(name)
}

impl Advisories {
    pub(super) fn check(&self, packages: &[Package], index: &Index) -> Found {
        let mut found = Found::default();
        let mut yanked = BTreeSet::new();
        let is_foreign = |package: &&Package| {
            package.source.as_deref().and_then(|source| source.split_once('+')).is_some_and(|(_, at)| at == CRATES_IO)
        };
        for package in packages.iter().filter(is_foreign) {
            let name = format!("{}@{}", package.name, package.version);
            let known = index.versions(&package.name).and_then(|(versions, read)| {
                found.as_of = found.as_of.into_iter().chain(Timestamp::try_from(read).ok()).min();
                versions.into_iter().find(|published| published.vers == package.version)
            });
            match known {
                Some(published) if published.yanked => _ = yanked.insert(name),
                Some(_) => {}
                None => found.findings.push(format!("{name}: cargo's copy of the index does not have it")),
            }
        }
        found.findings.extend(self.ignore.iter().filter_map(|ignored| ignored.problem(packages, &yanked)));
        for name in yanked.iter().filter(|name| self.yanked == Level::Deny && !self.ignores(name)) {
            found.findings.push(format!("{name}: its author has taken this version back (yanked)"));
        }
        found
    }

    fn ignores(&self, name: &str) -> bool {
        self.ignore.iter().any(|ignored| match ignored {
            Ignored::Yanked { package, .. } => package == name,
            Ignored::Advisory { .. } => false,
        })
    }
}

impl Ignored {
    fn problem(&self, packages: &[Package], yanked: &BTreeSet<String>) -> Option<String> {
        let (what, reason) = match self {
            Self::Advisory { id, reason } => (id, reason),
            Self::Yanked { package, reason } => (package, reason),
        };
        if reason.trim().is_empty() {
            return Some(format!("[advisories] ignore {what}: say why"));
        }
        match self {
            Self::Advisory { id, .. } => {
                (!is_advisory(id)).then(|| format!("[advisories] ignore {id}: this is no id of an advisory"))
            }
            Self::Yanked { package, .. } if yanked.contains(package) => None,
            Self::Yanked { package, .. } => {
                let is_here = packages.iter().any(|each| format!("{}@{}", each.name, each.version) == *package);
                let why = if is_here { "it is not yanked" } else { "there is no such package" };
                Some(format!("[advisories] ignore {package}: {why} any more; take it off"))
            }
        }
    }
}

/// `RUSTSEC-2024-0001`.
fn is_advisory(id: &str) -> bool {
    let parts: Vec<&str> = id.split('-').collect();
    let is_number = |text: &&str| text.len() == 4 && text.bytes().all(|byte| byte.is_ascii_digit());
    matches!(parts.as_slice(), ["RUSTSEC", year, number] if is_number(year) && is_number(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(folder: &Path, name: &str, versions: &[(&str, bool)]) -> Index {
        let path = folder.join(place(name));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let entry = |(version, yanked): &(&str, bool)| {
            format!("{version}\0{{\"name\":\"{name}\",\"vers\":\"{version}\",\"yanked\":{yanked},\"deps\":[]}}\0")
        };
        let entries: String = versions.iter().map(entry).collect();
        fs::write(path, format!("\u{3}\u{2}\0\0\0etag\0{entries}")).unwrap();
        Index { folders: vec![folder.to_owned()] }
    }

    fn package(name: &str, version: &str) -> Package {
        Package {
            name: name.to_owned(),
            version: version.to_owned(),
            license: None,
            source: Some(format!("registry+{CRATES_IO}")),
            dependencies: Vec::new(),
            publish: None,
        }
    }

    fn findings(text: &str, packages: &[Package], index: &Index) -> Vec<String> {
        let advisories: Advisories = toml::from_str(text).unwrap();
        advisories.check(packages, index).findings
    }

    #[test]
    fn a_version_that_was_taken_back_is_refused_unless_somebody_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let index = index(folder.path(), "some-crate", &[("1.0.0", true), ("1.0.1", false)]);
        let old = [package("some-crate", "1.0.0")];
        let new = [package("some-crate", "1.0.1")];
        let yanked = ["some-crate@1.0.0: its author has taken this version back (yanked)"];
        assert_eq!(findings("yanked = \"deny\"", &old, &index), yanked);
        assert_eq!(findings("yanked = \"deny\"", &new, &index), Vec::<String>::new());
        assert_eq!(findings("yanked = \"allow\"", &old, &index), Vec::<String>::new());
        let ignored =
            "yanked = \"deny\"\nignore = [{ crate = \"some-crate@1.0.0\", reason = \"the fix is under way\" }]";
        assert_eq!(findings(ignored, &old, &index), Vec::<String>::new());
        assert_eq!(findings(ignored, &new, &index).len(), 1, "what is ignored has to be there");
        let of_no_index = [package("other", "1.0.0")];
        assert_eq!(
            findings("yanked = \"deny\"", &of_no_index, &index).len(),
            1,
            "what can't be told is not passed over"
        );
        let local = [Package { source: None, ..package("other", "1.0.0") }];
        assert_eq!(findings("yanked = \"deny\"", &local, &index), Vec::<String>::new());
    }

    #[test]
    fn nothing_is_ignored_without_a_reason_or_by_a_name_that_means_nothing() {
        let index = Index { folders: Vec::new() };
        let of = |ignored: &str| findings(&format!("yanked = \"deny\"\nignore = [{ignored}]"), &[], &index);
        assert_eq!(of("{ id = \"RUSTSEC-2024-0436\", reason = \"only in tests\" }"), Vec::<String>::new());
        for bad in [
            "{ id = \"RUSTSEC-2024-0436\", reason = \" \" }",
            "{ id = \"CVE-2024-1\", reason = \"x\" }",
            "{ crate = \"gone@1.0.0\", reason = \"x\" }",
        ] {
            assert_eq!(of(bad).len(), 1, "{bad}");
        }
        assert!(toml::from_str::<Advisories>("yanked = \"deny\"\nignore = [\"RUSTSEC-2024-0436\"]").is_err());
        assert!(toml::from_str::<Advisories>("yanked = \"deny\"\nunsound = \"all\"").is_err(), "nobody checks that");
    }

    #[test]
    fn names_are_where_cargo_keeps_them() {
        for (name, path) in
            [("a", "1/a"), ("ab", "2/ab"), ("abc", "3/a/abc"), ("Abcd", "ab/cd/abcd"), ("tokio", "to/ki/tokio")]
        {
            assert_eq!(place(name), Path::new(path), "{name}");
        }
    }
}
