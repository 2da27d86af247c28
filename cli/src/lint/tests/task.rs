//! The annotation `hitless.dev/task`.

use super::endpoint::{said, web};

#[test]
fn a_permission_that_allows_nothing_is_named() {
    assert_eq!(said(&web("", "hitless.dev/task: allowed", "")), []);
    for wrong in ["'true'", "Allowed", "''"] {
        let found = said(&web("", &format!("hitless.dev/task: {wrong}"), ""));
        assert_eq!((found.len(), found[0].0), (1, 9), "{wrong}: {found:?}");
        assert!(found[0].1.ends_with("write allowed, or remove it"), "{found:?}");
    }
    let found = said(&web("hitless.dev/task: allowed", "", ""));
    assert_eq!((found.len(), found[0].0), (1, 5), "{found:?}");
    assert!(found[0].1.ends_with("move it to spec.template.metadata.annotations"), "{found:?}");
}
