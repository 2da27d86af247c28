//! Room on the disk that all builds and clusters of a run share.

use std::path::Path;

use anyhow::{Context as _, ensure};
use hitless_e2e::build::workspace;

/// Bytes that a file system has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Space(u64);

/// What end-to-end tests need for images, file systems of containers, etcd and logs. Below, nodes tell of disk pressure or etcd stops, and
/// tests fail of what is no fault of theirs.
const NEEDED: Space = Space(4_000_000_000);

impl Space {
    /// Of the file system on which this workspace is built.
    pub(super) fn left() -> anyhow::Result<Self> {
        let directory = workspace();
        Self::on(&directory).with_context(|| format!("the file system of {}", directory.display()))
    }

    fn on(directory: &Path) -> rustix::io::Result<Self> {
        let of = rustix::fs::statvfs(directory)?;
        Ok(Self(of.f_bavail.saturating_mul(of.f_frsize)))
    }

    /// Fails where too little is left for a cluster.
    pub(super) fn ensure_enough(self) -> anyhow::Result<()> {
        ensure!(
            self >= NEEDED,
            "{} GB are left on the disk of {}, and end-to-end tests need {}: delete builds that nobody needs, and try again",
            self.gigabytes(),
            workspace().display(),
            NEEDED.gigabytes()
        );
        Ok(())
    }

    /// For people.
    pub(super) fn gigabytes(self) -> String {
        let tenths = self.0 / 100_000_000;
        format!("{}.{}", tenths / 10, tenths % 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_is_nearly_full_is_told_before_a_cluster_is_made() {
        let refusal = Space(3_999_999_999).ensure_enough().map_err(|error| error.to_string());
        assert!(refusal.is_err_and(|text| text.starts_with("3.9 GB are left") && text.contains("need 4.0")));
        assert!(NEEDED.ensure_enough().is_ok());
    }

    #[test]
    fn what_is_left_is_asked_of_the_file_system() -> anyhow::Result<()> {
        assert!(Space::left()? > Space(0));
        assert!(Space::on(Path::new("/nowhere/at/all")).is_err());
        Ok(())
    }
}
