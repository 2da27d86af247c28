//! What one file imports of its own crate.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};
use syn::{Attribute, ItemMod, UseTree};

use super::Module;

/// The files that `file` has paths to. `known` are all files of the crate.
pub(super) fn of(file: &syn::File, module: &Module, known: &BTreeSet<Module>) -> BTreeSet<Module> {
    let mut reader = Reader { module, known, names: BTreeMap::new(), found: BTreeSet::new() };
    // First what is imported by name: paths in the code begin with that.
    reader.names_only(file);
    reader.visit_file(file);
    let is_part = |other: &Module| other.len() == module.len() + 1 && other.starts_with(module);
    reader.found.retain(|other| other != module && !is_part(other));
    reader.found
}

struct Reader<'r> {
    module: &'r Module,
    known: &'r BTreeSet<Module>,
    /// Files that `use` has given a name.
    names: BTreeMap<String, Module>,
    found: BTreeSet<Module>,
}

impl Reader<'_> {
    fn names_only(&mut self, file: &syn::File) {
        for item in &file.items {
            if let syn::Item::Use(item) = item
                && !is_test(&item.attrs)
            {
                self.tree(&mut Vec::new(), &item.tree);
            }
        }
    }

    fn tree(&mut self, before: &mut Vec<String>, tree: &UseTree) {
        match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.tree(before, &path.tree);
                before.pop();
            }
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.tree(before, tree)),
            UseTree::Name(name) => self.named(before, &name.ident.to_string(), &name.ident.to_string()),
            UseTree::Rename(rename) => self.named(before, &rename.ident.to_string(), &rename.rename.to_string()),
            UseTree::Glob(_) => self.keep(before),
        }
    }

    fn named(&mut self, before: &[String], last: &str, name: &str) {
        let mut path = before.to_vec();
        let mut name = name.to_owned();
        if last == "self" {
            // `use crate::a::{self}`: its name is `a`, if it is no other.
            if name == "self" {
                name = before.last().cloned().unwrap_or_default();
            }
        } else {
            path.push(last.to_owned());
        }
        if let Some(file) = self.file(&path) {
            if file.last() == path.last() {
                self.names.insert(name, file.clone());
            }
            self.found.insert(file);
        }
    }

    fn keep(&mut self, path: &[String]) {
        let file = self.file(path);
        self.found.extend(file);
    }

    /// The file in which a path ends.
    fn file(&self, path: &[String]) -> Option<Module> {
        let (first, mut rest) = path.split_first()?;
        let mut at = match first.as_str() {
            "crate" => Module::new(),
            "self" => self.module.clone(),
            "super" => {
                let more = rest.iter().take_while(|name| *name == "super").count();
                rest = rest.split_at(more).1;
                let parents = self.module.len().saturating_sub(1 + more);
                self.module.iter().take(parents).cloned().collect()
            }
            name => self.names.get(name).or(self.own(name).as_ref())?.clone(),
        };
        for name in rest {
            at.push(name.clone());
            if !self.known.contains(&at) {
                at.pop();
                break;
            }
        }
        Some(at)
    }

    /// A child of this module, which its file names without more.
    fn own(&self, name: &str) -> Option<Module> {
        let mut own = self.module.clone();
        own.push(name.to_owned());
        self.known.contains(&own).then_some(own)
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let attributes = match item {
            syn::Item::Fn(item) => &item.attrs,
            syn::Item::Impl(item) => &item.attrs,
            syn::Item::Mod(item) => &item.attrs,
            syn::Item::Use(item) => &item.attrs,
            _ => &Vec::new(),
        };
        if !is_test(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.tree(&mut Vec::new(), &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 {
            let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            self.keep(&names);
        }
        visit::visit_path(self, path);
    }
}

/// `#[cfg(test)]`.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg") && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(path: &str) -> Module {
        path.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect()
    }

    fn found(text: &str) -> Vec<String> {
        let known = ["", "a", "a/b", "a/b/c", "d", "e", "e/f", "g"].map(module).into();
        let file = syn::parse_file(text).unwrap();
        of(&file, &module("a/b"), &known).iter().map(|module| module.join("/")).collect()
    }

    #[test]
    fn paths_in_use_and_in_the_code_are_imports() {
        assert_eq!(found("use crate::d::Thing; use crate::{e::{self, Other}, g as h};"), ["d", "e", "g"]);
        assert_eq!(found("use crate::e; fn f() -> e::f::Type { crate::g::make() }"), ["e", "e/f", "g"]);
        assert_eq!(found("use super::Type; use super::super::d::*;"), ["a", "d"]);
        assert_eq!(found("use serde::Deserialize; fn f() { std::fs::read(\"crate::d\") }"), [""; 0]);
    }

    #[test]
    fn tests_and_parts_of_the_module_itself_are_none() {
        assert_eq!(found("mod c; use c::Part; pub use self::c::Other;"), [""; 0]);
        assert_eq!(found("#[cfg(test)] mod tests { use crate::d::Thing; }"), [""; 0]);
        assert_eq!(found("#[cfg(test)] use crate::d::Thing; #[cfg(test)] impl crate::g::Made {}"), [""; 0]);
    }
}
