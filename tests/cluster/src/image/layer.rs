//! The layers of an image: tar archives that depend on content only.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tar::{Builder, EntryType, Header};

use crate::{Error, Result};

/// What is at one path of the image.
enum Entry {
    Directory,
    File { from: PathBuf, executable: bool },
    Link(PathBuf),
}

/// Packs files and whole directories of this machine under the given absolute paths.
pub(crate) fn tar(files: &[(PathBuf, String)]) -> Result<Vec<u8>> {
    // Sorted by path, so that a directory comes before what is in it.
    let mut entries = BTreeMap::new();
    for (from, to) in files {
        collect(from, to.trim_start_matches('/').trim_end_matches('/'), &mut entries)?;
    }
    let mut archive = Builder::new(Vec::new());
    for (path, entry) in &entries {
        append(&mut archive, path, entry)?;
    }
    archive.into_inner().map_err(Error::file("pack", "the image's layer"))
}

/// Packs files of this content.
pub(crate) fn archive(files: &[(String, &[u8])]) -> Result<Vec<u8>> {
    let failed = Error::file("pack", "the image's archive");
    let mut archive = Builder::new(Vec::new());
    let mut append = |path: &str, content: &[u8]| {
        let mut header = Header::new_gnu();
        header.set_mtime(0);
        header.set_entry_type(EntryType::Regular);
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, path, content)
    };
    let packed = files.iter().try_for_each(|(path, content)| append(path, content));
    packed.and_then(|()| archive.into_inner()).map_err(failed)
}

fn collect(from: &Path, to: &str, entries: &mut BTreeMap<String, Entry>) -> Result<()> {
    for (end, _) in to.match_indices('/') {
        entries.entry(to[..end].to_owned()).or_insert(Entry::Directory);
    }
    let metadata = fs::symlink_metadata(from).map_err(Error::file("read", from))?;
    if metadata.is_symlink() {
        let target = fs::read_link(from).map_err(Error::file("read", from))?;
        entries.insert(to.to_owned(), Entry::Link(target));
    } else if metadata.is_dir() {
        if !to.is_empty() {
            entries.insert(to.to_owned(), Entry::Directory);
        }
        for child in fs::read_dir(from).map_err(Error::file("list", from))? {
            let child = child.map_err(Error::file("list", from))?;
            let name = child.file_name();
            let below = format!("{to}/{}", name.to_string_lossy());
            collect(&child.path(), below.trim_start_matches('/'), entries)?;
        }
    } else {
        let executable = metadata.permissions().mode() & 0o111 != 0;
        entries.insert(to.to_owned(), Entry::File { from: from.to_path_buf(), executable });
    }
    Ok(())
}

fn append(archive: &mut Builder<Vec<u8>>, path: &str, entry: &Entry) -> Result<()> {
    let mut header = Header::new_gnu();
    header.set_mtime(0);
    header.set_size(0);
    header.set_mode(0o755);
    let failed = |source| Error::File { action: "pack", path: path.into(), source };
    match entry {
        Entry::Directory => {
            header.set_entry_type(EntryType::Directory);
            archive.append_data(&mut header, format!("{path}/"), std::io::empty()).map_err(failed)
        }
        Entry::Link(target) => {
            header.set_entry_type(EntryType::Symlink);
            archive.append_link(&mut header, path, target).map_err(failed)
        }
        Entry::File { from, executable } => {
            let content = fs::read(from).map_err(Error::file("read", from))?;
            header.set_entry_type(EntryType::Regular);
            header.set_size(content.len() as u64);
            header.set_mode(if *executable { 0o755 } else { 0o644 });
            archive.append_data(&mut header, path, content.as_slice()).map_err(failed)
        }
    }
}

/// Bytes that cannot be compressed, as a layer with one file `/ballast`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ballast {
    /// How many.
    pub bytes: usize,
    /// Which: the same seed makes the same bytes.
    pub seed: u64,
}

impl Ballast {
    pub(crate) fn tar(&self) -> Result<Vec<u8>> {
        let mut content = Vec::with_capacity(self.bytes + 8);
        let mut state = self.seed;
        while content.len() < self.bytes {
            content.extend(split_mix(&mut state).to_le_bytes());
        }
        content.truncate(self.bytes);
        archive(&[("ballast".to_owned(), &content)])
    }
}

/// The next number of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_file_brings_its_directories_and_a_tree_keeps_its_links() {
        let directory = tempfile::tempdir().unwrap();
        let tree = directory.path().join("tree");
        fs::create_dir_all(tree.join("sub")).unwrap();
        fs::write(tree.join("sub/data"), "1").unwrap();
        symlink("sub/data", tree.join("link")).unwrap();
        let files = [(tree.clone(), "/".to_owned()), (tree.join("sub/data"), "/etc/app/data".to_owned())];
        let bytes = tar(&files).unwrap();
        let mut archive = ::tar::Archive::new(bytes.as_slice());
        let paths: Vec<String> =
            archive.entries().unwrap().map(|e| e.unwrap().path().unwrap().to_string_lossy().into_owned()).collect();
        assert_eq!(paths, ["etc/", "etc/app/", "etc/app/data", "link", "sub/", "sub/data"]);
    }
}
