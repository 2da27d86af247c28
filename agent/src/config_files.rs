//! Whether the volumes of a pod have the content that its grant names: the proof that the kubelet has written what a ConfigMap or
//! Secret contains now (docs/contract.md#config-reload). Only hashes leave this file.
//!
//! What is below a volume is not trusted to be what the kubelet has written: no link is followed but the kubelet's own `..data`, and that
//! only to a directory beside it. Each name is opened by itself, beneath the directory that was opened before (`O_NOFOLLOW`): the same as
//! `openat2` with `RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS`, on every kernel. Number, size and time are limited.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use hitless_api::config::{self, Files};
use hitless_api::{MountedConfig, digest};
use hitless_kernel::pod_directory;
use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, fstat, openat, readlinkat};

/// The kubelet's plugins whose volumes have such content.
const PLUGINS: [&str; 3] = ["configmap", "secret", "projected"];
/// Larger than any value that the API server takes, in bytes.
const LARGEST: u64 = 4 << 20;
/// Most files of all volumes of a pod. An object has at most 1.5 MiB, keys included.
const MOST_FILES: usize = 10_000;
/// Most bytes of all files of a pod.
const MOST_BYTES: u64 = 64 << 20;
/// Most directories below each other; the API server's limit for a path is longer than anybody uses.
const DEEPEST: usize = 32;
/// How long a look may take.
pub const LONGEST: Duration = Duration::from_secs(2);

/// Whether they have it.
///
/// # Errors
/// Why that can't be told, for people.
pub fn are_as_expected(proc_root: &Path, pod_uid: &str, expected: &MountedConfig) -> Result<bool, String> {
    let directory = pod_directory(proc_root, pod_uid).map_err(|error| error.to_string())?;
    let Some(directory) = directory else {
        return Err("no container of the pod runs through which its volumes could be found".to_owned());
    };
    let mut look = Look::new(MOST_FILES, MOST_BYTES);
    let read = |(name, others): (&String, &Vec<String>)| {
        let files = look.volume(&directory, name, others).map_err(|error| format!("volume {name}: {error}"))?;
        Ok((name.clone(), files))
    };
    let files: Files = expected.volumes.iter().map(read).collect::<Result<_, String>>()?;
    Ok(config::digest_of(&files) == expected.digest)
}

/// What is left of the limits.
struct Look {
    files: usize,
    bytes: u64,
    until: Instant,
}

impl Look {
    fn new(files: usize, bytes: u64) -> Self {
        Self { files, bytes, until: Instant::now() + LONGEST }
    }

    /// The hashes of its files by path, without those that come from elsewhere.
    fn volume(&mut self, directory: &Path, name: &str, others: &[String]) -> io::Result<BTreeMap<String, String>> {
        if name.contains(['/', '\0']) || name.starts_with('.') {
            return Err(io::Error::new(ErrorKind::InvalidInput, "this is no name of a volume"));
        }
        let open = |plugin: &str| {
            let parent = directory.join(format!("volumes/kubernetes.io~{plugin}"));
            let parent = openat(CWD, &parent, DIRECTORY, Mode::empty()).ok()?;
            below(parent.as_fd(), name, DIRECTORY).ok()
        };
        let Some(place) = PLUGINS.iter().find_map(|plugin| open(plugin)) else {
            return Err(io::Error::new(ErrorKind::NotFound, "the kubelet has no such directory"));
        };
        let mut files = BTreeMap::new();
        // The kubelet writes nothing where there is nothing.
        if let Some(content) = content(place.as_fd())? {
            self.add(&mut files, content.as_fd(), "", 0)?;
        }
        files.retain(|path, _| !others.contains(path));
        Ok(files)
    }

    fn add(
        &mut self,
        files: &mut BTreeMap<String, String>,
        directory: BorrowedFd<'_>,
        path: &str,
        depth: usize,
    ) -> io::Result<()> {
        for entry in Dir::read_from(directory)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy();
            let is_read = matches!(entry.file_type(), FileType::Directory | FileType::RegularFile | FileType::Unknown);
            if !is_read || name == "." || name == ".." {
                continue;
            }
            let path = format!("{path}{name}");
            if Instant::now() >= self.until {
                return Err(io::Error::new(ErrorKind::TimedOut, format!("reading takes longer than {LONGEST:?}")));
            }
            self.files =
                self.files.checked_sub(1).ok_or_else(|| too_large("there are too many files to be compared"))?;
            // A fifo that somebody has put there must not block.
            let file = below(directory, entry.file_name(), OFlags::RDONLY | OFlags::NONBLOCK)?;
            match FileType::from_raw_mode(fstat(&file)?.st_mode) {
                FileType::Directory if depth >= DEEPEST => return Err(too_large(&format!("{path} is too deep"))),
                FileType::Directory => self.add(files, file.as_fd(), &format!("{path}/"), depth + 1)?,
                FileType::RegularFile => {
                    let content = self.read(File::from(file), &path)?;
                    files.insert(path, digest::of_bytes(&content));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn read(&mut self, file: File, path: &str) -> io::Result<Vec<u8>> {
        let most = LARGEST.min(self.bytes);
        let mut content = Vec::new();
        file.take(most + 1).read_to_end(&mut content)?;
        let length = content.len() as u64;
        if length > most {
            return Err(too_large(&format!("{path} is too large to be compared")));
        }
        self.bytes -= length;
        Ok(content)
    }
}

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

/// Opens what has this name in the directory; no link.
fn below(directory: BorrowedFd<'_>, name: impl rustix::path::Arg, flags: OFlags) -> io::Result<OwnedFd> {
    Ok(openat(directory, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?)
}

/// The directory of the present content: `..data` is a link to it, and it lies beside that link. `None`: there is none.
fn content(volume: BorrowedFd<'_>) -> io::Result<Option<OwnedFd>> {
    let target = match readlinkat(volume, "..data", Vec::new()) {
        Ok(target) => target.to_string_lossy().into_owned(),
        Err(error) if io::Error::from(error).kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if target.contains('/') || target == "." || target == ".." {
        return Err(io::Error::new(ErrorKind::InvalidData, "..data leads out of the volume"));
    }
    below(volume, target.as_str(), DIRECTORY).map(Some)
}

fn too_large(text: &str) -> io::Error {
    io::Error::new(ErrorKind::FileTooLarge, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn volume(directory: &Path, name: &str, others: &[String]) -> io::Result<BTreeMap<String, String>> {
        Look::new(MOST_FILES, MOST_BYTES).volume(directory, name, others)
    }

    /// A volume as the kubelet writes it: the content in a directory of its own, and links to it.
    fn write(pod: &Path, plugin: &str, name: &str, version: &str, files: &[(&str, &str)]) {
        let volume = pod.join(format!("volumes/kubernetes.io~{plugin}")).join(name);
        for (path, content) in files {
            let file = volume.join(version).join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, content).unwrap();
        }
        fs::create_dir_all(volume.join(version)).unwrap();
        _ = fs::remove_file(volume.join("..data"));
        symlink(version, volume.join("..data")).unwrap();
    }

    fn hashes(files: &[(&str, &str)]) -> BTreeMap<String, String> {
        files.iter().map(|(path, content)| ((*path).to_owned(), digest::of_bytes(content.as_bytes()))).collect()
    }

    #[test]
    fn the_present_files_count_and_neither_old_ones_nor_those_of_other_sources() {
        let pod = tempfile::tempdir().unwrap();
        write(pod.path(), "configmap", "config", "..1", &[("app.ini", "old"), ("gone", "x")]);
        write(pod.path(), "configmap", "config", "..2", &[("app.ini", "new")]);
        assert_eq!(volume(pod.path(), "config", &[]).unwrap(), hashes(&[("app.ini", "new")]));
        write(pod.path(), "projected", "all", "..1", &[("certs/tls.crt", "c"), ("token", "t")]);
        assert_eq!(volume(pod.path(), "all", &["token".to_owned()]).unwrap(), hashes(&[("certs/tls.crt", "c")]));
        write(pod.path(), "secret", "empty", "..1", &[]);
        assert_eq!(volume(pod.path(), "empty", &[]).unwrap(), hashes(&[]));
        assert!(volume(pod.path(), "other", &[]).is_err());
        assert!(volume(pod.path(), "../configmap/config", &[]).is_err());
    }

    /// What a volume has must not lead the agent, which is root, to anything outside of it, nor keep it busy.
    #[test]
    fn no_link_is_followed_and_nothing_blocks_or_has_no_end() {
        let (pod, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir_all(outside.path().join("..1")).unwrap();
        fs::write(outside.path().join("..1/secret"), "s").unwrap();
        write(pod.path(), "configmap", "config", "..1", &[("a", "1")]);
        let place = pod.path().join("volumes/kubernetes.io~configmap/config");
        symlink(outside.path().join("..1/secret"), place.join("..1/link")).unwrap();
        symlink(outside.path(), place.join("..1/directory")).unwrap();
        rustix::fs::mknodat(CWD, place.join("..1/fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        assert_eq!(volume(pod.path(), "config", &[]).unwrap(), hashes(&[("a", "1")]));
        for target in [outside.path().join("..1").to_str().unwrap(), "../config/..1", "..", "."] {
            fs::remove_file(place.join("..data")).unwrap();
            symlink(target, place.join("..data")).unwrap();
            assert!(volume(pod.path(), "config", &[]).is_err(), "{target}");
        }
        // A link to a link, and a volume that is a link.
        fs::remove_file(place.join("..data")).unwrap();
        symlink(outside.path().join("..1"), place.join("..2")).unwrap();
        symlink("..2", place.join("..data")).unwrap();
        assert!(volume(pod.path(), "config", &[]).is_err());
        symlink(outside.path(), pod.path().join("volumes/kubernetes.io~configmap/elsewhere")).unwrap();
        symlink("..1", outside.path().join("..data")).unwrap();
        assert!(volume(pod.path(), "elsewhere", &[]).is_err());
    }

    #[test]
    fn number_size_and_time_have_an_end() {
        let pod = tempfile::tempdir().unwrap();
        write(pod.path(), "secret", "many", "..1", &[("a", "12"), ("b", "34"), ("c", "56")]);
        let failed = |mut look: Look| look.volume(pod.path(), "many", &[]).unwrap_err().to_string();
        assert!(failed(Look::new(2, MOST_BYTES)).contains("too many files"));
        assert!(failed(Look::new(3, 5)).contains("too large"));
        assert_eq!(Look::new(3, 6).volume(pod.path(), "many", &[]).unwrap().len(), 3);
        let late = Look { until: Instant::now(), ..Look::new(3, 6) };
        assert!(failed(late).contains("longer than"));
        write(pod.path(), "secret", "large", "..1", &[("a", &"x".repeat(5 << 20))]);
        assert!(volume(pod.path(), "large", &[]).unwrap_err().to_string().contains("a is too large"));
        let deep = "d/".repeat(DEEPEST + 1) + "a";
        write(pod.path(), "secret", "deep", "..1", &[(&deep, "1")]);
        assert!(volume(pod.path(), "deep", &[]).unwrap_err().to_string().contains("too deep"));
    }
}
