//! Circles of imports between the files of a crate: whoever reads one file of a circle has to read all of them.
//!
//! An import is a path from one file to another, in a `use` or in the code. Tests do not count, nor does what a module takes from its own
//! children, which are its parts.

mod imports;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use hitless_e2e::build::workspace;

/// A file of a crate, by its path in `src` without `.rs`; empty: the crate's root.
type Module = Vec<String>;
/// What each file imports.
type Imports = BTreeMap<Module, BTreeSet<Module>>;

/// Most files in a circle.
const MOST: usize = 4;
/// Crates that are not there yet. A number may only become smaller.
const EXCEPTIONS: [(&str, usize); 1] = [("agent", 7)];

/// Fails if a crate of the product has a larger circle than it may have; returns a line for people.
pub(super) fn check() -> anyhow::Result<String> {
    let root = workspace();
    let mut found = Vec::new();
    let mut largest = 0;
    for name in crates(&root)? {
        let most = EXCEPTIONS.iter().find(|(exception, _)| *exception == name).map_or(MOST, |(_, most)| *most);
        let imports = imports(&root.join(&name).join("src")).with_context(|| name.clone())?;
        for circle in circles(&imports) {
            largest = largest.max(circle.len());
            if circle.len() > most {
                let files: Vec<String> = circle.iter().map(file_name).collect();
                found.push(format!("{name}: {} files, at most {most}: {}", files.len(), files.join(", ")));
            }
        }
    }
    if !found.is_empty() {
        bail!(
            "files import each other in a circle; move what they share into a file below:\n  - {}",
            found.join("\n  - ")
        );
    }
    Ok(format!("the largest circle of imports has {largest} files"))
}

/// Folders of the product's crates.
fn crates(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut names = vec!["agent".to_owned(), "cli".to_owned(), "controller".to_owned()];
    for entry in fs::read_dir(root.join("crates"))? {
        names.push(format!("crates/{}", entry?.file_name().to_string_lossy()));
    }
    names.sort();
    Ok(names)
}

fn file_name(module: &Module) -> String {
    if module.is_empty() { "lib".to_owned() } else { module.join("/") }
}

fn imports(source: &Path) -> anyhow::Result<Imports> {
    let mut files = BTreeMap::new();
    list(source, &mut Vec::new(), &mut files)?;
    let known: BTreeSet<Module> = files.keys().cloned().collect();
    let read = |(module, path): (&Module, &PathBuf)| {
        let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        let file = syn::parse_file(&text).with_context(|| format!("parse {}", path.display()))?;
        Ok((module.clone(), imports::of(&file, module, &known)))
    };
    files.iter().map(read).collect()
}

/// All files below a folder that are no tests, by their modules.
fn list(folder: &Path, at: &mut Vec<String>, files: &mut BTreeMap<Module, PathBuf>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if name == "tests" {
            continue;
        }
        at.push(name.clone());
        if path.is_dir() {
            list(&path, at, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let is_root = at.len() == 1 && (name == "lib" || name == "main");
            files.insert(if is_root { Vec::new() } else { at.clone() }, path);
        }
        at.pop();
    }
    Ok(())
}

/// Files that lead to each other, the largest circle first.
fn circles(imports: &Imports) -> Vec<BTreeSet<Module>> {
    let reached: BTreeMap<&Module, BTreeSet<&Module>> =
        imports.keys().map(|module| (module, reached_from(module, imports))).collect();
    let mut circles = BTreeSet::new();
    for (module, from_it) in &reached {
        let circle: BTreeSet<Module> =
            from_it.iter().filter(|other| reached[**other].contains(module)).map(|other| (*other).clone()).collect();
        if circle.len() > 1 {
            circles.insert(circle);
        }
    }
    let mut circles: Vec<_> = circles.into_iter().collect();
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    circles
}

fn reached_from<'i>(module: &'i Module, imports: &'i Imports) -> BTreeSet<&'i Module> {
    let mut reached = BTreeSet::new();
    let mut next = VecDeque::from([module]);
    while let Some(module) = next.pop_front() {
        let of_module = imports.get(module).into_iter().flatten();
        next.extend(of_module.filter(|other| reached.insert(*other)));
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(path: &str) -> Module {
        path.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect()
    }

    #[test]
    fn files_that_lead_to_each_other_are_a_circle_and_others_are_not() {
        let rows =
            [("a", &["b"] as &[&str]), ("b", &["c"]), ("c", &["a", "d"]), ("d", &["e"]), ("e", &["d"]), ("f", &["a"])];
        let imports: Imports = rows
            .into_iter()
            .map(|(name, others)| (module(name), others.iter().map(|other| module(other)).collect()))
            .collect();
        let found: Vec<Vec<String>> =
            circles(&imports).iter().map(|circle| circle.iter().map(file_name).collect()).collect();
        assert_eq!(found, [vec!["a", "b", "c"], vec!["d", "e"]]);
    }

    #[test]
    fn every_exception_is_a_crate_and_needed() {
        for (name, most) in EXCEPTIONS {
            let imports = imports(&workspace().join(name).join("src")).unwrap();
            let largest = circles(&imports).first().map_or(0, BTreeSet::len);
            assert_eq!(largest, most, "{name}: write the smaller number down, or take the line out");
        }
    }
}
