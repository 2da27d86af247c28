//! The chart: what it renders, and an installation by each version of Helm.

mod installed;
mod rendered;
