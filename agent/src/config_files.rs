//! Whether the volumes of a pod have the content that its grant names: the proof that the kubelet has written what a ConfigMap or
//! Secret contains now (docs/contract.md 35). Only hashes leave this file.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use hitless_api::config::{self, Files};
use hitless_api::{MountedConfig, digest};
use hitless_kernel::pod_directory;

/// The kubelet's plugins whose volumes have such content.
const PLUGINS: [&str; 3] = ["configmap", "secret", "projected"];
/// Larger than any value that the API server takes.
const LARGEST: u64 = 4 << 20;

/// Whether they have it.
///
/// # Errors
/// Why that can't be told, for people.
pub fn are_as_expected(proc_root: &Path, pod_uid: &str, expected: &MountedConfig) -> Result<bool, String> {
    let directory = pod_directory(proc_root, pod_uid).map_err(|error| error.to_string())?;
    let Some(directory) = directory else {
        return Err("no container of the pod runs through which its volumes could be found".to_owned());
    };
    let read = |(name, others): (&String, &Vec<String>)| {
        let files = volume(&directory, name, others).map_err(|error| format!("volume {name}: {error}"))?;
        Ok((name.clone(), files))
    };
    let files: Files = expected.volumes.iter().map(read).collect::<Result<_, String>>()?;
    Ok(config::digest_of(&files) == expected.digest)
}

/// The hashes of its files by path, without those that come from elsewhere.
fn volume(directory: &Path, name: &str, others: &[String]) -> io::Result<BTreeMap<String, String>> {
    if name.contains(['/', '\0']) || name.starts_with('.') {
        return Err(io::Error::new(ErrorKind::InvalidInput, "this is no name of a volume"));
    }
    let places = PLUGINS.map(|plugin| directory.join(format!("volumes/kubernetes.io~{plugin}")).join(name));
    let Some(place) = places.iter().find(|place| place.is_dir()) else {
        return Err(io::Error::new(ErrorKind::NotFound, "the kubelet has no such directory"));
    };
    let mut files = BTreeMap::new();
    match add(&mut files, &place.join("..data"), "") {
        // The kubelet writes nothing where there is nothing.
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        result => result?,
    }
    files.retain(|path, _| !others.contains(path));
    Ok(files)
}

fn add(files: &mut BTreeMap<String, String>, directory: &Path, below: &str) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let path = format!("{below}{}", entry.file_name().to_string_lossy());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            add(files, &entry.path(), &format!("{path}/"))?;
        } else if kind.is_file() {
            if entry.metadata()?.len() > LARGEST {
                return Err(io::Error::new(ErrorKind::FileTooLarge, format!("{path} is too large to be compared")));
            }
            files.insert(path, digest::of_bytes(&fs::read(entry.path())?));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

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
}
