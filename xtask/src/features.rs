//! The tables of features of other projects, made from docs/features….toml.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};
use serde::Deserialize;

/// One table: what it is made from, and where it goes.
#[derive(Clone, Copy)]
pub(crate) struct Table {
    source: &'static str,
    pub(crate) page: &'static str,
}

/// All of them: KusionStack's and OpenKruise's.
pub(crate) const TABLES: [Table; 2] = [
    Table { source: "docs/features.toml", page: "docs/compatibility.md" },
    Table { source: "docs/features-kruise.toml", page: "docs/kruise.md" },
];
const END: &str = "<!-- End of what is made. -->\n";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Source {
    feature: Vec<Feature>,
}

/// What a user of upstream's sees.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Feature {
    name: String,
    state: State,
    #[serde(default)]
    why: String,
    /// `<file>::<function>`; `*`: all of the file.
    #[serde(default)]
    tests: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
enum State {
    #[serde(rename = "works")]
    Works,
    #[serde(rename = "differs")]
    Differs,
    #[serde(rename = "not done")]
    NotDone,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            Self::Works => "works",
            Self::Differs => "differs",
            Self::NotDone => "not done",
        }
    }
}

/// The page with the table as the source has it.
///
/// # Errors
/// If the source can't be read or says what is not so, or the page has no place for the table.
pub(crate) fn page(root: &Path, Table { source: from, page: to }: Table) -> anyhow::Result<String> {
    let read = |file: &str| fs::read_to_string(root.join(file)).with_context(|| format!("cannot read {file}"));
    let source: Source = toml::from_str(&read(from)?).with_context(|| format!("{from} is not understood"))?;
    check(root, from, &source.feature)?;
    let page = read(to)?;
    let name = from.trim_start_matches("docs/");
    let begin = format!("<!-- Made from {name} by `cargo xtask generate`. Do not edit. -->\n");
    let (before, rest) = page.split_once(&begin).with_context(|| format!("{to} has no place for the table"))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("the table in {to} has no end"))?;
    Ok(format!("{before}{begin}{}{END}{after}", table(&source.feature)))
}

/// Each row that claims something names tests that are there.
fn check(root: &Path, source: &str, features: &[Feature]) -> anyhow::Result<()> {
    for Feature { name, state, tests, .. } in features {
        let claims = *state != State::NotDone;
        ensure!(claims != tests.is_empty(), "{source}: {name:?} is {:?} and names {} tests", state.word(), tests.len());
        for test in tests {
            let (file, function) = test.rsplit_once("::").with_context(|| format!("{source}: {test} names no test"))?;
            let text =
                fs::read_to_string(root.join(file)).with_context(|| format!("{source}: {name:?} names {file}"))?;
            let is_there = if function == "*" { text.contains("#[test]") } else { has_test(&text, function) };
            ensure!(is_there, "{source}: {name:?} is proved by {function}, and {file} has no such test");
        }
    }
    Ok(())
}

/// Whether the file has a test of this name: a function right after an attribute `#[test]` or one like it, or inside of `proptest!`.
fn has_test(text: &str, function: &str) -> bool {
    let begin = format!("fn {function}(");
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    lines.iter().enumerate().any(|(index, line)| {
        let is_it = line.trim_start_matches("async ").starts_with(&begin);
        let mut above = lines[..index].iter().rev().take_while(|line| line.starts_with("#["));
        is_it && above.any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"))
    })
}

fn table(features: &[Feature]) -> String {
    let count = |state: State| features.iter().filter(|each| each.state == state).count();
    let (works, differs, missing) = (count(State::Works), count(State::Differs), count(State::NotDone));
    let mut text = format!(
        "Of {} features {works} work, {differs} differ, {missing} are not done.\n\n| # | Feature | Here | Why, or what instead | \
         Tests |\n| --- | --- | --- | --- | --- |\n",
        features.len()
    );
    for (index, Feature { name, state, why, tests }) in features.iter().enumerate() {
        let tests: Vec<String> = tests.iter().map(|test| link(test)).collect();
        // Writing to a String does not fail.
        let _ = writeln!(text, "| {} | {name} | {} | {why} | {} |", index + 1, state.word(), tests.join(", "));
    }
    text
}

/// A link to the file, with the test's name for people.
fn link(test: &str) -> String {
    let (file, function) = test.rsplit_once("::").unwrap_or((test, "*"));
    let words = if function == "*" { file.to_owned() } else { function.replace('_', " ") };
    format!("[{words}](../{file})")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
    }

    #[test]
    fn every_feature_that_is_claimed_has_its_tests_and_the_page_says_the_same() {
        for table in TABLES {
            let committed = fs::read_to_string(root().join(table.page)).unwrap();
            assert!(page(root(), table).unwrap() == committed, "run `cargo xtask generate` and commit {}", table.page);
        }
    }

    #[test]
    fn a_test_that_is_not_there_or_no_test_is_an_error() {
        let feature = |state, tests: &[&str]| Feature {
            name: "x".into(),
            state,
            why: String::new(),
            tests: tests.iter().map(ToString::to_string).collect(),
        };
        let fault = |state, tests: &[&str]| check(root(), "rows", &[feature(state, tests)]).unwrap_err().to_string();
        assert!(fault(State::Works, &[]).contains("names 0 tests"));
        assert!(fault(State::NotDone, &["a::b"]).contains("names 1 tests"));
        let own = "xtask/src/features.rs";
        assert!(fault(State::Works, &[&format!("{own}::no_such_test")]).contains("no such test"));
        assert!(fault(State::Works, &[&format!("{own}::table")]).contains("no such test"), "a function, and no test");
        assert!(fault(State::Works, &["no/such/file.rs::a"]).contains("no/such/file.rs"));
        check(
            root(),
            "rows",
            &[feature(State::Works, &[&format!("{own}::a_test_that_is_not_there_or_no_test_is_an_error")])],
        )
        .unwrap();
    }
}
