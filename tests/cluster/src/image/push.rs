//! Putting an image into the cluster's registry, by the registry's HTTP API (OCI distribution specification, 1.1).

use crate::http::{self, Response};
use crate::image::{Blob, Image};
use crate::{Error, Result, address};

/// Pushes an image as `name:tag`; the reference with its digest. Must run in the control plane's namespace.
///
/// A name without a slash is also pushed below `library/`, where container runtimes look for it.
pub(crate) fn push(name_and_tag: &str, image: &Image) -> Result<String> {
    let (name, tag) = split(name_and_tag)?;
    push_to(name, tag, image)?;
    if !name.contains('/') {
        push_to(&format!("library/{name}"), tag, image)?;
    }
    Ok(format!("{}/{name}@{}", address::REGISTRY, image.digest()))
}

/// Takes `name:tag` apart. The registry's own address in front is allowed and left away.
fn split(name_and_tag: &str) -> Result<(&str, &str)> {
    let registry = format!("{}/", address::REGISTRY);
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

fn push_to(name: &str, tag: &str, image: &Image) -> Result<()> {
    for blob in [&image.layer, &image.config] {
        push_blob(name, blob)?;
    }
    let path = format!("/v2/{name}/manifests/{tag}");
    send("PUT", &path, image.manifest.media_type, &image.manifest.bytes, 201).map(drop)
}

fn push_blob(name: &str, blob: &Blob) -> Result<()> {
    let known = request("HEAD", &format!("/v2/{name}/blobs/{}", blob.digest), "", &[])?;
    if known.status == 200 {
        return Ok(());
    }
    let uploads = format!("/v2/{name}/blobs/uploads/");
    let begun = send("POST", &uploads, "application/octet-stream", &[], 202)?;
    // An absolute URL or a path; either may carry the upload's state.
    let location = begun.header("Location").unwrap_or_default();
    let path = location.strip_prefix(&format!("http://{}", address::REGISTRY)).unwrap_or(location);
    let joint = if path.contains('?') { '&' } else { '?' };
    let path = format!("{path}{joint}digest={}", blob.digest);
    send("PUT", &path, "application/octet-stream", &blob.bytes, 201).map(drop)
}

fn send(method: &str, path: &str, content_type: &str, body: &[u8], expected: u16) -> Result<Response> {
    let response = request(method, path, content_type, body)?;
    if response.status == expected {
        return Ok(response);
    }
    Err(Error::Registry { request: format!("{method} {path}"), status: response.status, body: response.body })
}

fn request(method: &str, path: &str, content_type: &str, body: &[u8]) -> Result<Response> {
    http::request(address::REGISTRY, method, path, content_type, body).map_err(|error| Error::Registry {
        request: format!("{method} {path}"),
        status: 0,
        body: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_needs_a_tag_and_the_letters_a_registry_allows() {
        assert_eq!(split("web:v1").unwrap(), ("web", "v1"));
        assert_eq!(split("172.31.255.1:5000/team/web:v1").unwrap(), ("team/web", "v1"));
        for bad in ["web", "web:", ":v1", "Web:v1", "web:v1:v2", "a b:v1"] {
            assert!(split(bad).is_err(), "{bad:?}");
        }
    }
}
