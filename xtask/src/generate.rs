//! `cargo xtask generate`: the files that are made from code.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, ensure};
use hitless_e2e::build::cargo;
use hitless_workloads::rights;

use crate::{chart, features};

/// Writes the definitions in `manifests` from the types of crate `hitless-api`, the kinds' part of the roles in `manifests` from crate
/// `hitless-workloads`, the chart in `charts` from `manifests`, the tables of features in `docs/compatibility.md` and `docs/kruise.md` from `docs/features.toml` and `docs/features-kruise.toml`, `docs/openapi.json` from the
/// types of the agent's endpoint, `docs/messages.md` and `docs/cli.md` from what the command line says, and `docs/reasons.md` from the reasons in crate `hitless-api`. A test of each of them, `generated` in the first two, compares what is committed.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask has no parent directory")?;
    let folder = root.join("manifests");
    for (name, text) in hitless_api::crds::all().context("a definition cannot be written as YAML")? {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        println!("wrote manifests/{name}");
    }
    for (name, rights) in rights::manifests() {
        let path = root.join(&name);
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let text = rights::with_rights(&text, &rights)
            .with_context(|| format!("{name} has no marks around its generated part"))?;
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        println!("wrote {name}");
    }
    // Of the manifests as they are now.
    chart::write(root)?;
    for table in features::TABLES {
        let page = table.page;
        fs::write(root.join(page), features::page(root, table)?).with_context(|| format!("cannot write {page}"))?;
        println!("wrote {page}");
    }
    // The command line's tests can see what it says, and nothing else can.
    let written = cargo()
        .args(["test", "--quiet", "--package", "kubectl-hitless", "the_page_of_"])
        .env("HITLESS_GENERATE", "1")
        .output()
        .context("cannot run cargo")?;
    ensure!(
        written.status.success(),
        "docs/messages.md, docs/reasons.md or docs/cli.md is not made: {}",
        String::from_utf8_lossy(&written.stdout)
    );
    println!("wrote docs/messages.md, docs/reasons.md and docs/cli.md");
    // A program of its own, because the agent with all it needs is much to build for the sake of the other verbs.
    let printed = cargo()
        .args(["run", "--quiet", "--package", "hitless-agent", "--example", "openapi"])
        .output()
        .context("cannot run cargo")?;
    ensure!(printed.status.success(), "the endpoint is not described: {}", String::from_utf8_lossy(&printed.stderr));
    fs::write(root.join("docs/openapi.json"), printed.stdout).context("cannot write docs/openapi.json")?;
    println!("wrote docs/openapi.json");
    Ok(ExitCode::SUCCESS)
}
