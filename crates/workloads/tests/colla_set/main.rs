//! CollaSets, whose controller we are: step by step, and in any order of stale views, crashes and other people's deletions.

#[cfg(test)]
mod claims;
#[cfg(test)]
mod cluster;
#[cfg(test)]
mod decorations;
#[cfg(test)]
mod decorations_at_rest;
#[cfg(test)]
mod deletion;
#[cfg(test)]
mod orders;
#[cfg(test)]
mod removals;
#[cfg(test)]
mod replace;
#[cfg(test)]
mod reports;
#[cfg(test)]
mod steps;
#[cfg(test)]
mod upstream;
