//! `cargo xtask generate`: the files of `manifests` that are made from code.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;

/// Writes `manifests/crds` from the types of crate `hitless-api`, whose test `generated` compares the two.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask has no parent directory")?;
    let folder = root.join("manifests/crds");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    for (name, text) in hitless_api::crds::all().context("a definition cannot be written as YAML")? {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        println!("wrote manifests/crds/{name}");
    }
    Ok(ExitCode::SUCCESS)
}
