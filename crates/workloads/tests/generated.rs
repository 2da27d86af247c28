//! The roles in `manifests` have what the kinds need.

use std::fs;
use std::path::Path;

use hitless_workloads::rights;

#[test]
fn committed_roles_are_what_the_kinds_say() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (path, rights) in rights::manifests() {
        let committed = fs::read_to_string(root.join(&path)).unwrap();
        let wanted = rights::with_rights(&committed, &rights).unwrap();
        assert!(committed == wanted, "{path} is stale: run `cargo xtask generate` and commit the result");
    }
}
