//! Strings that come again and again (label names and values, namespaces, nodes), each kept once.

use std::collections::HashMap;
use std::sync::Arc;

use slab::Slab;

/// Stands for one string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Symbol(u32);

/// All strings in use, with the number of their uses: an unused one is forgotten.
#[derive(Clone, Debug, Default)]
pub(crate) struct Symbols {
    ids: HashMap<Arc<str>, Symbol>,
    entries: Slab<(Arc<str>, u32)>,
}

impl Symbols {
    /// The symbol of `text`, used once more.
    pub(crate) fn intern(&mut self, text: &str) -> Symbol {
        if let Some(symbol) = self.ids.get(text) {
            if let Some((_, uses)) = self.entries.get_mut(symbol.0 as usize) {
                *uses += 1;
            }
            return *symbol;
        }
        let text: Arc<str> = text.into();
        let symbol = Symbol(super::id(self.entries.insert((text.clone(), 1))));
        self.ids.insert(text, symbol);
        symbol
    }

    /// The symbol of `text` if it is in use.
    pub(crate) fn find(&self, text: &str) -> Option<Symbol> {
        self.ids.get(text).copied()
    }

    /// The string.
    pub(crate) fn text(&self, symbol: Symbol) -> &str {
        self.entries.get(symbol.0 as usize).map_or("", |(text, _)| text)
    }

    /// One use fewer.
    pub(crate) fn release(&mut self, symbol: Symbol) {
        let Some((_, uses)) = self.entries.get_mut(symbol.0 as usize) else { return };
        *uses -= 1;
        if *uses == 0 {
            let (text, _) = self.entries.remove(symbol.0 as usize);
            self.ids.remove(&text);
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
        let mut symbols = Symbols::default();
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
