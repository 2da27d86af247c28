//! Licences, bans, sources and yanked versions of all dependencies, as deny.toml says.
//!
//! What `cargo deny check licenses bans sources` does with this file, without cargo-deny, which takes three minutes to build.
//! Licences are judged by the same parser, from `Cargo.toml` alone: a crate that has only a text is refused. A word in
//! deny.toml that nobody reads here is an error, so nobody relies on a rule that is not checked.

mod advisories;

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use anyhow::{Context as _, ensure};
use hitless_e2e::build::workspace;
use serde::Deserialize;
use spdx::{Expression, Licensee, ParseMode};

use advisories::{Advisories, Index};

/// Where cargo takes crates from if nothing else is said.
const CRATES_IO: &str = "https://github.com/rust-lang/crates.io-index";

/// deny.toml.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Policy {
    graph: Graph,
    advisories: Advisories,
    licenses: Licenses,
    bans: Bans,
    sources: Sources,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Graph {
    targets: Vec<String>,
    /// Also what is built only with a feature, such as libFuzzer.
    #[serde(default, rename = "all-features")]
    all_features: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Licenses {
    allow: Vec<String>,
    #[serde(default)]
    exceptions: Vec<Exception>,
    /// For licences that are told by their texts. No text is read here.
    #[serde(rename = "confidence-threshold")]
    _confidence_threshold: f64,
}

/// More licences for one crate.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Exception {
    #[serde(rename = "crate")]
    name: String,
    allow: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Bans {
    multiple_versions: Level,
    wildcards: Level,
    #[serde(default)]
    allow_wildcard_paths: bool,
    deny: Vec<Banned>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Banned {
    #[serde(rename = "crate")]
    name: String,
    reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Sources {
    unknown_registry: Level,
    unknown_git: Level,
    #[serde(default)]
    allow_registry: Vec<String>,
    #[serde(default)]
    allow_git: Vec<String>,
}

/// cargo-deny has `warn` too, which nobody would read.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    Allow,
    Deny,
}

/// `cargo metadata`.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    /// None for what lies in the workspace.
    source: Option<String>,
    dependencies: Vec<Dependency>,
    /// The registries that it may be published to; none means all.
    publish: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    req: String,
    path: Option<String>,
}

/// Checks the workspace; says how many packages were looked at.
pub(super) fn check() -> anyhow::Result<String> {
    let text = fs::read_to_string(workspace().join("deny.toml")).context("deny.toml")?;
    let policy = Policy::read(&text)?;
    let mut cargo = Command::new("cargo");
    cargo.args(["metadata", "--format-version", "1", "--locked"]).current_dir(workspace());
    cargo.args(policy.graph.targets.iter().flat_map(|target| ["--filter-platform", target]));
    cargo.args(policy.graph.all_features.then_some("--all-features"));
    let output = cargo.output().context("cargo metadata")?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim());
    let metadata: Metadata = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    let mut findings = policy.findings(&metadata.packages)?;
    let advisories = policy.advisories.check(&metadata.packages, &Index::of_cargo()?);
    findings.extend(advisories.findings);
    ensure!(findings.is_empty(), "deny.toml does not allow:\n  - {}", findings.join("\n  - "));
    let as_of = advisories.as_of.map_or_else(|| "no time".to_owned(), |as_of| as_of.strftime("%F").to_string());
    Ok(format!(
        "{} packages: licences, bans, sources, and no version that was yanked (as of {as_of}), as deny.toml says; the advisory database was \
         not asked: `cargo deny check advisories`",
        metadata.packages.len()
    ))
}

impl Policy {
    fn read(text: &str) -> anyhow::Result<Self> {
        toml::from_str(text)
            .context("deny.toml has a word that `cargo xtask test lint` does not check (xtask/src/test/deny.rs)")
    }

    /// Everything that is not allowed, in words.
    fn findings(&self, packages: &[Package]) -> anyhow::Result<Vec<String>> {
        let allowed = licensees(&self.licenses.allow)?;
        let mut findings = Vec::new();
        for package in packages {
            let problems =
                [self.license(package, &allowed)?, self.ban(package), self.wildcards(package), self.source(package)];
            let name = format!("{} {}", package.name, package.version);
            findings.extend(problems.into_iter().flatten().map(|problem| format!("{name}: {problem}")));
        }
        findings.extend(self.duplicates(packages));
        Ok(findings)
    }

    fn license(&self, package: &Package, allowed: &[Licensee]) -> anyhow::Result<Option<String>> {
        let Some(text) = &package.license else { return Ok(Some("its Cargo.toml names no licence".to_owned())) };
        let Ok(expression) = Expression::parse_mode(text, ParseMode::LAX) else {
            return Ok(Some(format!("{text:?} is not a licence")));
        };
        let exceptions = self.licenses.exceptions.iter().filter(|exception| exception.name == package.name);
        let more = licensees(exceptions.flat_map(|exception| &exception.allow))?;
        let satisfied = expression.evaluate(|required| allowed.iter().chain(&more).any(|one| one.satisfies(required)));
        Ok((!satisfied).then(|| format!("the licence {text:?} is not allowed")))
    }

    fn ban(&self, package: &Package) -> Option<String> {
        let banned = self.bans.deny.iter().find(|banned| banned.name == package.name)?;
        Some(format!("it is banned: {}", banned.reason))
    }

    fn wildcards(&self, package: &Package) -> Option<String> {
        // A path needs no version in what is never published.
        let private = package.publish.as_ref().is_some_and(Vec::is_empty);
        let is_wild = |dependency: &&Dependency| {
            let excused = self.bans.allow_wildcard_paths && private && dependency.path.is_some();
            self.bans.wildcards == Level::Deny && dependency.req == "*" && !excused
        };
        let wild = package.dependencies.iter().find(is_wild)?;
        Some(format!("it takes any version of {}", wild.name))
    }

    fn source(&self, package: &Package) -> Option<String> {
        let source = package.source.as_deref()?;
        let (kind, address) = source.split_once('+').unwrap_or(("", source));
        // What follows tells which commit it is.
        let address = address.split(['?', '#']).next().unwrap_or(address);
        let (level, known) = match kind {
            "registry" | "sparse" => (self.sources.unknown_registry, &self.sources.allow_registry),
            _ => (self.sources.unknown_git, &self.sources.allow_git),
        };
        let by_default = kind == "registry" && known.is_empty() && address == CRATES_IO;
        let unknown = level == Level::Deny && !by_default && !known.iter().any(|known| known == address);
        unknown.then(|| format!("it comes from {source}"))
    }

    fn duplicates(&self, packages: &[Package]) -> Vec<String> {
        if self.bans.multiple_versions == Level::Allow {
            return Vec::new();
        }
        let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for package in packages {
            versions.entry(&package.name).or_default().push(&package.version);
        }
        let several = versions.into_iter().filter(|(_, versions)| versions.len() > 1);
        several.map(|(name, versions)| format!("{name}: several versions: {}", versions.join(", "))).collect()
    }
}

fn licensees<'a>(names: impl IntoIterator<Item = &'a String>) -> anyhow::Result<Vec<Licensee>> {
    let parse = |name: &String| Licensee::parse(name).with_context(|| format!("deny.toml: {name:?} is not a licence"));
    names.into_iter().map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = r#"
        [graph]
        targets = ["x86_64-unknown-linux-gnu"]
        [advisories]
        yanked = "deny"
        [licenses]
        allow = ["Apache-2.0", "Apache-2.0 WITH LLVM-exception", "MIT"]
        exceptions = [{ crate = "odd", allow = ["MPL-2.0"] }]
        confidence-threshold = 0.9
        [bans]
        multiple-versions = "deny"
        wildcards = "deny"
        allow-wildcard-paths = true
        deny = [{ crate = "openssl", reason = "rustls everywhere" }]
        [sources]
        unknown-registry = "deny"
        unknown-git = "deny"
    "#;

    fn package(name: &str, license: Option<&str>) -> Package {
        Package {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            license: license.map(str::to_owned),
            source: Some(format!("registry+{CRATES_IO}")),
            dependencies: Vec::new(),
            publish: None,
        }
    }

    fn findings(packages: &[Package]) -> Vec<String> {
        Policy::read(POLICY).unwrap().findings(packages).unwrap()
    }

    fn license(text: &str) -> Vec<String> {
        findings(&[package("one", Some(text))])
    }

    fn from(source: &str) -> Vec<String> {
        findings(&[Package { source: Some(source.to_owned()), ..package("one", Some("MIT")) }])
    }

    fn depends(requirement: &str, path: Option<&str>, publish: Option<Vec<String>>) -> Vec<String> {
        let dependency =
            Dependency { name: "two".to_owned(), req: requirement.to_owned(), path: path.map(str::to_owned) };
        findings(&[Package { dependencies: vec![dependency], publish, ..package("one", Some("MIT")) }])
    }

    #[test]
    fn a_permissive_licence_is_enough_and_old_ways_of_writing_it_are_read() {
        for text in
            ["MIT", "MIT OR GPL-3.0-only", "MIT/Apache-2.0", "Apache-2.0 / MIT", "(MIT OR MPL-2.0) AND Apache-2.0"]
        {
            assert_eq!(license(text), Vec::<String>::new(), "{text}");
        }
        assert_eq!(license("Apache-2.0 WITH LLVM-exception"), Vec::<String>::new());
    }

    #[test]
    fn copyleft_unknown_and_missing_licences_are_refused() {
        let texts =
            ["GPL-3.0-only", "MPL-2.0", "MIT AND LGPL-2.1-or-later", "Something", "", "MIT WITH LLVM-exception"];
        for text in texts {
            assert_eq!(license(text).len(), 1, "{text}: {:?}", license(text));
        }
        assert_eq!(findings(&[package("one", None)]), ["one 1.0.0: its Cargo.toml names no licence"]);
    }

    #[test]
    fn an_exception_is_for_its_crate_only() {
        assert_eq!(findings(&[package("odd", Some("MPL-2.0"))]), Vec::<String>::new());
        assert_eq!(license("MPL-2.0"), ["one 1.0.0: the licence \"MPL-2.0\" is not allowed"]);
    }

    #[test]
    fn a_banned_crate_is_refused_with_its_reason() {
        assert_eq!(findings(&[package("openssl", Some("MIT"))]), ["openssl 1.0.0: it is banned: rustls everywhere"]);
    }

    #[test]
    fn only_the_registry_and_the_workspace_are_known_sources() {
        let local = Package { source: None, ..package("one", Some("MIT")) };
        assert_eq!(findings(&[local]), Vec::<String>::new());
        for source in [
            "registry+https://example.com/index",
            "sparse+https://example.com/index/",
            "git+https://example.com/one.git?rev=1#1",
            "elsewhere",
        ] {
            assert_eq!(from(source), [format!("one 1.0.0: it comes from {source}")]);
        }
    }

    #[test]
    fn any_version_is_allowed_of_a_path_in_what_is_never_published() {
        assert_eq!(depends("^1", None, None), Vec::<String>::new());
        assert_eq!(depends("*", Some("/two"), Some(Vec::new())), Vec::<String>::new());
        assert_eq!(depends("*", Some("/two"), None).len(), 1);
        assert_eq!(depends("*", None, Some(Vec::new())), ["one 1.0.0: it takes any version of two"]);
    }

    #[test]
    fn two_versions_are_refused_where_the_policy_says_so() {
        let other = Package { version: "2.0.0".to_owned(), ..package("one", Some("MIT")) };
        assert_eq!(findings(&[package("one", Some("MIT")), other]), ["one: several versions: 1.0.0, 2.0.0"]);
    }

    #[test]
    fn a_rule_that_is_not_checked_here_is_an_error_and_the_real_file_has_none() {
        assert!(Policy::read(&POLICY.replace("wildcards = \"deny\"", "wildcards = \"warn\"")).is_err());
        assert!(Policy::read(&format!("{POLICY}\nrequired-git-spec = \"rev\"")).is_err());
        let real = Policy::read(&fs::read_to_string(workspace().join("deny.toml")).unwrap()).unwrap();
        assert!(licensees(&real.licenses.allow).is_ok());
        assert!(real.graph.all_features, "what only a feature brings is looked at, too");
    }
}
