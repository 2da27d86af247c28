//! Where this repository keeps what it builds for its clusters.

use std::path::{Path, PathBuf};

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}

/// The pinned Go modules, one directory each.
pub(crate) fn modules() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("modules")
}

/// Built tools, by version.
pub(crate) fn bin() -> PathBuf {
    root().join(".cache/bin")
}

/// Debian packages that are unpacked and not installed, by name.
pub(crate) fn packages() -> PathBuf {
    root().join(".cache/packages")
}

/// One directory for each cluster, named after it.
pub(crate) fn clusters() -> PathBuf {
    root().join(".cache/clusters")
}

/// One file for each cluster, locked while somebody makes or removes it.
pub(crate) fn locks() -> PathBuf {
    root().join(".cache/locks")
}
