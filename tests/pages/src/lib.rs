//! The pages of documentation as data, for the tests that hold them true: what stands in their blocks, which commands they name,
//! where their links lead.

mod command;
mod page;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub use command::Command;
pub use page::{Code, Fence, Page, Step};

/// Folders with pages, from the root of the repository.
const FOLDERS: [&str; 6] = ["", "docs", "docs/decisions", "docs/runbooks", "docs/seams", "manifests"];

/// The root of the repository.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Whether the page of this path says what a test has made. `cargo xtask generate` sets `HITLESS_GENERATE`, and then it is written first.
///
/// # Errors
/// If it can't be written.
pub fn is_kept(page: &str, made: &str) -> std::io::Result<bool> {
    let path = root().join(page);
    if std::env::var_os("HITLESS_GENERATE").is_some() {
        std::fs::write(&path, made)?;
    }
    Ok(std::fs::read_to_string(&path).unwrap_or_default() == made)
}

/// All pages, in the order of their paths.
///
/// # Errors
/// If one can't be read.
pub fn pages() -> io::Result<Vec<Page>> {
    let mut pages = Vec::new();
    for folder in FOLDERS {
        for entry in fs::read_dir(root().join(folder))? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if Path::new(&name).extension().is_none_or(|extension| extension != "md") {
                continue;
            }
            let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            let text = fs::read_to_string(root().join(&path))?;
            pages.push(Page::new(path, &text));
        }
    }
    pages.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(pages)
}
