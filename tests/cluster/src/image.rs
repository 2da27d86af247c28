//! OCI images without a builder: from a static binary, a directory, or the last stage of a Dockerfile.
//!
//! The same content always makes the same digest: entries are sorted, and times, owners and the host's modes are not
//! taken over.

mod dockerfile;
mod layer;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

pub use dockerfile::from_dockerfile;
pub use layer::Ballast;

use crate::{Error, Result};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

/// What goes into an image.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageSpec {
    /// Files and directories of this machine, and the absolute paths they get in the image.
    pub files: Vec<(PathBuf, String)>,
    /// The program and its first arguments.
    pub entrypoint: Vec<String>,
    /// User, as in a Dockerfile: `0`, `65532:65532`. Empty: root.
    pub user: String,
    /// Environment variables.
    pub env: BTreeMap<String, String>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Working directory. Empty: `/`.
    pub working_directory: String,
    /// A second layer of nothing but bytes, if any: what makes pulling it take time.
    pub ballast: Option<Ballast>,
}

impl ImageSpec {
    /// An image of one static binary, which is its entrypoint.
    pub fn from_binary(path: &Path) -> Result<Self> {
        let name = path.file_name().map(|name| format!("/{}", name.to_string_lossy()));
        let name = name.filter(|_| path.is_file());
        let name = name.ok_or_else(|| Error::Invalid(format!("{} is not a file", path.display())))?;
        Ok(Self { files: vec![(path.to_path_buf(), name.clone())], entrypoint: vec![name], ..Self::default() })
    }

    /// An image of a directory tree, without an entrypoint: a pod that uses it says its `command`.
    pub fn from_directory(path: &Path) -> Result<Self> {
        if !path.is_dir() {
            return Err(Error::Invalid(format!("{} is not a directory", path.display())));
        }
        Ok(Self { files: vec![(path.to_path_buf(), "/".into())], ..Self::default() })
    }

    /// Adds an environment variable.
    #[must_use]
    pub fn with_env(mut self, name: &str, value: &str) -> Self {
        self.env.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Adds a layer of so many bytes that cannot be compressed. The same number and seed make the same layer; another seed
    /// makes one that no node has yet.
    #[must_use]
    pub fn with_ballast(mut self, bytes: usize, seed: u64) -> Self {
        self.ballast = Some(Ballast { bytes, seed });
        self
    }

    /// Reads the files and makes the image.
    pub fn build(&self) -> Result<Image> {
        let ballast = self.ballast.as_ref().map(Ballast::tar).transpose()?;
        let layers = std::iter::once(layer::tar(&self.files)?).chain(ballast);
        let layers: Vec<Blob> = layers.map(|bytes| Blob::new(LAYER, bytes)).collect();
        let config = json!({
            "architecture": architecture(),
            "os": "linux",
            "config": self.config(),
            "rootfs": {"type": "layers", "diff_ids": layers.iter().map(|layer| &layer.digest).collect::<Vec<_>>()},
        });
        let config = Blob::new(CONFIG, config.to_string().into_bytes());
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": config.descriptor(),
            "layers": layers.iter().map(Blob::descriptor).collect::<Vec<_>>(),
        });
        let manifest = Blob::new(MANIFEST, manifest.to_string().into_bytes());
        Ok(Image { manifest, config, layers })
    }

    fn config(&self) -> Value {
        let path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned();
        let own = self.env.iter().map(|(key, value)| format!("{key}={value}"));
        let default = (!self.env.contains_key("PATH")).then_some(path);
        json!({
            "Entrypoint": self.entrypoint,
            "User": self.user,
            "Env": default.into_iter().chain(own).collect::<Vec<_>>(),
            "Labels": self.labels,
            "WorkingDir": self.working_directory,
        })
    }
}

/// An image, complete in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    pub(crate) manifest: Blob,
    pub(crate) config: Blob,
    pub(crate) layers: Vec<Blob>,
}

impl Image {
    /// The digest by which a registry knows it: `sha256:…`.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.manifest.digest
    }

    /// An OCI image layout in a tar archive, in which the image has this reference: what `ctr images import` takes.
    pub(crate) fn archive(&self, reference: &str) -> Result<Vec<u8>> {
        let mut manifest = self.manifest.descriptor();
        manifest["annotations"] = json!({"io.containerd.image.name": reference});
        let index = json!({"schemaVersion": 2, "manifests": [manifest]}).to_string();
        let layout = json!({"imageLayoutVersion": "1.0.0"}).to_string();
        let blobs = [&self.manifest, &self.config].into_iter().chain(&self.layers);
        let path = |blob: &Blob| format!("blobs/{}", blob.digest.replace(':', "/"));
        let mut files = vec![("oci-layout".to_owned(), layout.as_bytes()), ("index.json".to_owned(), index.as_bytes())];
        files.extend(blobs.map(|blob| (path(blob), &blob.bytes[..])));
        layer::archive(&files)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Blob {
    pub(crate) media_type: &'static str,
    pub(crate) digest: String,
    pub(crate) bytes: Vec<u8>,
}

impl Blob {
    fn new(media_type: &'static str, bytes: Vec<u8>) -> Self {
        Self { media_type, digest: format!("sha256:{:x}", Sha256::digest(&bytes)), bytes }
    }

    fn descriptor(&self) -> Value {
        json!({"mediaType": self.media_type, "digest": self.digest, "size": self.bytes.len()})
    }
}

/// Go's name of this machine's architecture, which images use.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn the_same_content_has_the_same_digest_whenever_and_wherever_it_was_written() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for (directory, names) in [(&first, ["a", "b"]), (&second, ["b", "a"])] {
            for name in names {
                fs::write(directory.path().join(name), name).unwrap();
            }
        }
        let hour_ago = SystemTime::now() - Duration::from_hours(1);
        fs::File::options().write(true).open(first.path().join("a")).unwrap().set_modified(hour_ago).unwrap();
        let image = |path: &Path| ImageSpec::from_directory(path).unwrap().build().unwrap();
        assert_eq!(image(first.path()).digest(), image(second.path()).digest());
    }

    #[test]
    fn images_that_differ_in_one_variable_share_their_layer_and_differ_in_digest() {
        let directory = tempfile::tempdir().unwrap();
        let binary = directory.path().join("server");
        fs::write(&binary, "x").unwrap();
        let spec = ImageSpec::from_binary(&binary).unwrap();
        let (one, two) = (spec.clone().with_env("VERSION", "v1"), spec.with_env("VERSION", "v2"));
        let (one, two) = (one.build().unwrap(), two.build().unwrap());
        assert_eq!(one.layers, two.layers);
        assert_ne!(one.digest(), two.digest());
        assert!(String::from_utf8(one.config.bytes).unwrap().contains("VERSION=v1"));
    }

    #[test]
    fn ballast_is_a_second_layer_that_depends_on_its_seed_only() {
        let spec = ImageSpec::default();
        let image = |seed| spec.clone().with_ballast(1_000_000, seed).build().unwrap();
        assert_eq!(image(1), image(1));
        assert_ne!(image(1).layers[1], image(2).layers[1]);
        assert_eq!(image(1).layers[0], spec.build().unwrap().layers[0]);
        let bytes = &image(1).layers[1].bytes;
        assert!((1_000_000..1_010_000).contains(&bytes.len()), "{}", bytes.len());
        // No byte is much more frequent than another one.
        let mut counts = [0_u32; 256];
        bytes.iter().skip(512).take(1_000_000).for_each(|byte| counts[usize::from(*byte)] += 1);
        assert!(counts.iter().all(|count| (3_400..4_400).contains(count)), "{counts:?}");
    }

    #[test]
    fn a_missing_binary_is_refused_by_name() {
        let error = ImageSpec::from_binary(Path::new("/nowhere/x")).unwrap_err();
        assert_eq!(error.to_string(), "/nowhere/x is not a file");
    }
}
