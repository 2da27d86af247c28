//! CloneSets, whose controller we are: step by step, as OpenKruise's own sequences go, and in any order of stale views, crashes and other
//! people's deletions.

#[cfg(test)]
#[path = "."]
mod clone_set {
    mod claims;
    mod cluster;
    mod hooks;
    mod in_place;
    mod orders;
    mod recreate;
    mod reports;
    mod scaling;
    mod sequences;
}
