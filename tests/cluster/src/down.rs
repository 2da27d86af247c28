//! Taking a cluster down, whatever state it is in.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::cgroup::Hierarchies;
use crate::{Error, Result, network, node, run, state};

/// Killed processes go at once; one that waits for a disk may take a moment.
const END: Duration = Duration::from_secs(20);

/// Removes processes, mounts, namespaces, cgroups and files of a cluster. It is no error if there is nothing.
pub(crate) fn remove(name: &str) -> Result<()> {
    let hierarchies = Hierarchies::find()?;
    // All at once: whoever is asked to end first would only see the others fail. The mount namespaces of the nodes,
    // with all mounts in them, go with their last process.
    hierarchies.kill(name, END)?;
    network::remove(name)?;
    hierarchies.remove(name)?;
    let directory = state::directory(name);
    for mount in mounts_below(&directory)? {
        run::output(Command::new("umount").arg("--lazy").arg(&mount))?;
    }
    if directory.exists() {
        fs::remove_dir_all(&directory).map_err(Error::file("remove", &directory))?;
    }
    node::remove_mount_points();
    Ok(())
}

/// Mounts under a directory in our own mount namespace, deepest first. Normally none: somebody has made them by hand.
fn mounts_below(directory: &Path) -> Result<Vec<PathBuf>> {
    let path = "/proc/self/mountinfo";
    let text = fs::read_to_string(path).map_err(Error::file("read", path))?;
    let points = text.lines().filter_map(|line| line.split(' ').nth(4)).map(PathBuf::from);
    let mut found: Vec<PathBuf> = points.filter(|point| point.starts_with(directory)).collect();
    found.reverse();
    Ok(found)
}
