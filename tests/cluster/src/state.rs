//! What is written down about a cluster, and what can be said about it from outside.

use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::part::Parts;
use crate::{Error, Options, Result, Tools, network, workspace};

/// `cluster.json` in a cluster's directory.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct State {
    pub(crate) name: String,
    pub(crate) nodes: u8,
    /// The default where an earlier version of this library wrote the state.
    #[serde(default)]
    pub(crate) options: Options,
    pub(crate) created: Timestamp,
    /// False until everything is up: a cluster whose `up` was killed stays so.
    pub(crate) complete: bool,
    /// What it runs, whatever versions the checkout pins by now.
    pub(crate) tools: Tools,
}

/// One line of `cluster list`.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// The cluster's name.
    pub name: String,
    /// How many nodes it has; 0 when that is not known any more.
    pub nodes: u8,
    /// When it was made.
    pub created: Option<Timestamp>,
    /// Whether it was ever completely up.
    pub complete: bool,
    /// The parts that have died since.
    pub dead: Vec<DeadPart>,
}

/// A process of a cluster that is no more.
#[derive(Debug, Clone, Serialize)]
pub struct DeadPart {
    /// Which one, for instance `n1/kubelet`.
    pub part: String,
    /// Its log file.
    pub log: PathBuf,
}

impl State {
    /// Reads the state of a cluster; none if there is no such cluster, or if this version of the library cannot read
    /// its state: then only `down` can be of help.
    pub(crate) fn read(name: &str) -> Result<Option<Self>> {
        let path = file(&directory(name));
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::file("read", path)(error)),
        };
        Ok(serde_json::from_str(&text).ok())
    }

    /// Writes the state, as a whole or not at all.
    pub(crate) fn write(&self) -> Result<()> {
        let path = file(&directory(&self.name));
        let unfinished = path.with_extension("unfinished");
        let text = serde_json::to_string(self).map_err(|source| Error::Json { path: path.clone(), source })?;
        fs::write(&unfinished, text).map_err(Error::file("write", &unfinished))?;
        fs::rename(&unfinished, &path).map_err(Error::file("write", &path))
    }
}

/// Where the files of a cluster are.
pub(crate) fn directory(name: &str) -> PathBuf {
    workspace::clusters().join(name)
}

fn file(directory: &Path) -> PathBuf {
    directory.join("cluster.json")
}

/// All clusters of this workspace, by name.
pub(crate) fn list() -> Result<Vec<Summary>> {
    let entries = fs::read_dir(workspace::clusters()).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names.iter().map(|name| summary(name)).collect()
}

fn summary(name: &str) -> Result<Summary> {
    let state = State::read(name)?;
    Ok(Summary {
        name: name.to_owned(),
        nodes: state.as_ref().map_or(0, |state| state.nodes),
        created: state.as_ref().map(|state| state.created),
        complete: state.is_some_and(|state| state.complete) && !network::namespaces(name).is_empty(),
        dead: dead(name)?,
    })
}

/// The dead parts of a cluster.
pub(crate) fn dead(name: &str) -> Result<Vec<DeadPart>> {
    let parts = Parts::of(name, &directory(name))?;
    let gone = parts.names().into_iter().filter(|part| parts.alive(part).is_err());
    Ok(gone.map(|part| DeadPart { log: parts.log(&part), part }).collect())
}

/// A name may become part of paths, namespaces and cgroups.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let valid = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty() || name.len() > 30 || !name.chars().all(valid) || name.starts_with('-') {
        let message = format!("{name:?} is no name for a cluster: use 1 to 30 of a-z, 0-9 and -, not beginning with -");
        return Err(Error::Invalid(message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_leave_its_directory_or_meet_another_clusters_namespace() {
        assert!(check_name("demo-2").is_ok());
        for bad in ["", "../x", "a.n1", "Demo", "-x", "a b", &"x".repeat(31)] {
            assert!(check_name(bad).is_err(), "{bad:?}");
        }
    }
}
