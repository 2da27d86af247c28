//! Strings that come again and again (label names and values, namespaces, nodes), each kept once.

use std::hash::BuildHasher;
use std::num::NonZeroU32;

use hashbrown::{DefaultHashBuilder, HashTable};
use slab::Slab;

/// Stands for one string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Symbol(NonZeroU32);

impl Symbol {
    fn new(index: usize) -> Self {
        Self(NonZeroU32::MIN.saturating_add(super::id(index)))
    }

    fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

#[derive(Clone, Debug)]
struct Entry {
    text: Box<str>,
    uses: u32,
}

/// All strings in use, with the number of their uses: an unused one is forgotten.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interner {
    ids: HashTable<Symbol>,
    hasher: DefaultHashBuilder,
    entries: Slab<Entry>,
}

impl Interner {
    /// The symbol of `text`, used once more.
    pub(crate) fn intern(&mut self, text: &str) -> Symbol {
        if let Some(symbol) = self.find(text) {
            self.reuse(symbol);
            return symbol;
        }
        let symbol = Symbol::new(self.entries.insert(Entry { text: text.into(), uses: 1 }));
        let Self { ids, hasher, entries } = self;
        let rehash = |known: &Symbol| entries.get(known.index()).map_or(0, |entry| hasher.hash_one(&*entry.text));
        ids.insert_unique(hasher.hash_one(text), symbol, rehash);
        symbol
    }

    /// The symbol is used once more.
    pub(crate) fn reuse(&mut self, symbol: Symbol) {
        if let Some(entry) = self.entries.get_mut(symbol.index()) {
            entry.uses += 1;
        }
    }

    /// The symbol of `text` if it is in use.
    pub(crate) fn find(&self, text: &str) -> Option<Symbol> {
        self.ids.find(self.hasher.hash_one(text), |known| self.text(*known) == text).copied()
    }

    /// The string.
    pub(crate) fn text(&self, symbol: Symbol) -> &str {
        self.entries.get(symbol.index()).map_or("", |entry| &entry.text)
    }

    /// One use fewer.
    pub(crate) fn release(&mut self, symbol: Symbol) {
        let Some(entry) = self.entries.get_mut(symbol.index()) else { return };
        entry.uses -= 1;
        if entry.uses > 0 {
            return;
        }
        let entry = self.entries.remove(symbol.index());
        if let Ok(found) = self.ids.find_entry(self.hasher.hash_one(&*entry.text), |known| *known == symbol) {
            found.remove();
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_is_kept_once_and_as_long_as_it_is_used() {
        let mut symbols = Interner::default();
        let (a, b) = (symbols.intern("a"), symbols.intern("b"));
        assert_ne!(a, b);
        assert_eq!(symbols.intern("a"), a);
        symbols.release(a);
        assert_eq!((symbols.find("a"), symbols.text(a), symbols.len()), (Some(a), "a", 2));
        symbols.release(a);
        assert_eq!((symbols.find("a"), symbols.len()), (None, 1));
        assert_eq!(symbols.text(b), "b");
    }
}
