//! What the ConfigMaps and Secrets contain that are mounted into a pod, as a hash: the controller says it, the agent compares it
//! with the files on the node (docs/contract.md#config-reload).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::digest;

/// What volumes of a pod have to contain before its containers are restarted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MountedConfig {
    /// Names of the volumes that have the content of ConfigMaps and Secrets, each with the paths in it that have another source.
    #[schemars(extend("maxProperties" = 64))]
    pub volumes: BTreeMap<String, Vec<String>>,
    /// [`digest_of`] all their other files.
    pub digest: String,
}

impl MountedConfig {
    /// Most volumes that are compared; of a pod with more nothing is asked.
    pub const MOST_VOLUMES: usize = 64;
    /// How long the kubelet has for it, in seconds. The grant may be begun that much later.
    pub const WAIT_SECONDS: u32 = 120;
}

/// The files of volumes: by name of the volume and path, [`digest::of_bytes`] the content.
pub type Files = BTreeMap<String, BTreeMap<String, String>>;

/// One hash of the content of all files.
#[must_use]
pub fn digest_of(files: &Files) -> String {
    digest::short(&json!(files))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_and_every_content_counts() {
        let files = |volume: &str, path: &str, content: &[u8]| -> Files {
            [(volume.to_owned(), [(path.to_owned(), digest::of_bytes(content))].into())].into()
        };
        let one = digest_of(&files("config", "a", b"1"));
        assert_eq!(one, digest_of(&files("config", "a", b"1")));
        for other in [files("other", "a", b"1"), files("config", "b", b"1"), files("config", "a", b"2"), Files::new()] {
            assert_ne!(one, digest_of(&other));
        }
    }
}
