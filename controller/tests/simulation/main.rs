//! The real round against a cluster in miniature: an API with resourceVersions, agents that take their time, caches that are
//! old and old in different places, two controllers that both believe to lead, writes that arrive late, processes that are
//! killed between two writes.

#[cfg(test)]
mod cluster;
#[cfg(test)]
mod companions;
mod deleted;
mod holds;
mod images;
#[cfg(test)]
mod late_writes;
#[cfg(test)]
mod lifecycle;
#[cfg(test)]
mod losses;
#[cfg(test)]
mod made_meanwhile;
#[cfg(test)]
mod native;
#[cfg(test)]
mod node;
mod node_local;
#[cfg(test)]
mod pools;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod scenarios;
mod sidecars;
#[cfg(test)]
mod test_controller;
