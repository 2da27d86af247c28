//! Putting an image into a registry, by its HTTP API (OCI distribution specification, 1.1).

use std::net::SocketAddr;

use super::{Registry, paths};
use crate::image::{Blob, Image};
use crate::{Error, Result};

impl Registry {
    /// Pushes an image as `name:tag`; the reference with its digest. The calling thread must reach the registry.
    ///
    /// A name without a slash is also pushed below `library/`, where container runtimes look for it.
    pub fn push(&self, name_and_tag: &str, image: &Image) -> Result<String> {
        let (name, tag) = split(name_and_tag, self.address)?;
        for path in paths(name) {
            self.push_to(&path, tag, image)?;
        }
        Ok(format!("{}/{name}@{}", self.address, image.digest()))
    }

    fn push_to(&self, name: &str, tag: &str, image: &Image) -> Result<()> {
        for blob in image.layers.iter().chain([&image.config]) {
            self.push_blob(name, blob)?;
        }
        let path = format!("/v2/{name}/manifests/{tag}");
        self.send("PUT", &path, image.manifest.media_type, &image.manifest.bytes, 201).map(drop)
    }

    fn push_blob(&self, name: &str, blob: &Blob) -> Result<()> {
        let known = self.request("HEAD", &format!("/v2/{name}/blobs/{}", blob.digest), "", &[])?;
        if known.status == 200 {
            return Ok(());
        }
        let uploads = format!("/v2/{name}/blobs/uploads/");
        let begun = self.send("POST", &uploads, "application/octet-stream", &[], 202)?;
        // An absolute URL or a path; either may carry the upload's state.
        let location = begun.header("Location").unwrap_or_default();
        let path = location.strip_prefix(&format!("http://{}", self.address)).unwrap_or(location);
        let joint = if path.contains('?') { '&' } else { '?' };
        let path = format!("{path}{joint}digest={}", blob.digest);
        self.send("PUT", &path, "application/octet-stream", &blob.bytes, 201).map(drop)
    }
}

/// Takes `name:tag` apart. The registry's address in front is allowed and left away.
fn split(name_and_tag: &str, registry: SocketAddr) -> Result<(&str, &str)> {
    let registry = format!("{registry}/");
    let plain = name_and_tag.strip_prefix(&registry).unwrap_or(name_and_tag);
    let name_character = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-/".contains(c);
    let tag_character = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let parts = plain.split_once(':').filter(|(name, tag)| {
        !name.is_empty() && !tag.is_empty() && name.chars().all(name_character) && tag.chars().all(tag_character)
    });
    parts.ok_or_else(|| {
        let message = format!("{name_and_tag:?} is no name of an image: use NAME:TAG, for instance web:v1");
        Error::Invalid(message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_needs_a_tag_and_the_letters_a_registry_allows() {
        let v4: SocketAddr = "172.31.255.1:5000".parse().unwrap();
        let split = |text| split(text, v4);
        assert_eq!(split("web:v1").unwrap(), ("web", "v1"));
        assert_eq!(split("172.31.255.1:5000/team/web:v1").unwrap(), ("team/web", "v1"));
        let v6 = "[fd00::1]:5000".parse().unwrap();
        assert_eq!(super::split("[fd00::1]:5000/team/web:v1", v6).unwrap(), ("team/web", "v1"));
        for bad in ["web", "web:", ":v1", "Web:v1", "web:v1:v2", "a b:v1"] {
            assert!(split(bad).is_err(), "{bad:?}");
        }
    }
}
