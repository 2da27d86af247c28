//! The committed definitions are the ones that the types say.

use std::fs;
use std::path::Path;

#[test]
fn committed_crds_are_what_the_types_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../manifests");
    for (name, text) in hitless_api::crds::all().unwrap() {
        let committed = fs::read_to_string(folder.join(name)).unwrap_or_default();
        assert!(committed == text, "manifests/{name} is stale: run `cargo xtask generate` and commit the result");
    }
}
