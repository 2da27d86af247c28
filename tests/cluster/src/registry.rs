//! The image registry: pushing to it, and faults of its pulls.

mod fault;
mod push;

use std::net::SocketAddr;

use crate::http::{self, Response};
use crate::{Error, Result};

pub use fault::{Fault, FaultGuard};

/// A registry that this repository's program `registry` serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registry {
    address: SocketAddr,
}

impl Registry {
    /// The registry at that address. Whoever uses it must be in a network namespace that reaches it.
    #[must_use]
    pub fn at(address: SocketAddr) -> Self {
        Self { address }
    }

    fn send(&self, method: &str, path: &str, content_type: &str, body: &[u8], expected: u16) -> Result<Response> {
        let response = self.request(method, path, content_type, body)?;
        if response.status == expected {
            return Ok(response);
        }
        Err(Error::Registry { request: format!("{method} {path}"), status: response.status, body: response.body })
    }

    fn request(&self, method: &str, path: &str, content_type: &str, body: &[u8]) -> Result<Response> {
        http::request(self.address, method, path, content_type, body).map_err(|error| Error::Registry {
            request: format!("{method} {path}"),
            status: 0,
            body: error.to_string(),
        })
    }
}

/// Where a repository is in the registry. One without a slash is below `library/` as well.
fn paths(repository: &str) -> Vec<String> {
    let library = (!repository.contains('/')).then(|| format!("library/{repository}"));
    std::iter::once(repository.to_owned()).chain(library).collect()
}
