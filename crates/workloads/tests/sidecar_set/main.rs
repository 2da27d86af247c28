//! SidecarSets: what pods get, and what is written for them.

#[cfg(test)]
#[path = "."]
mod sidecar_set {
    mod plan;
    mod render;
    mod update;
}
