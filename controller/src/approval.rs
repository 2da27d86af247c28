//! Webhook rules of PodTransitionRules: external approvers are asked over HTTPS.
//!
//! The gate says who is to be asked about which pod ([`Ask`]); the [`requests::Requests`] knows what was asked and answered, and says
//! which requests are due; [`client::Approvers`] sends them. Requests is pure and takes the time. What it has to survive a
//! restart, the ids of running tasks, is in `PodTransitionRule.status.ruleStates`.
//!
//! The protocol is KusionStack kuperator's, so that an approver written for it works unchanged.

pub mod client;
pub mod parameter;
pub mod requests;
pub mod wire;

use std::collections::BTreeSet;

pub use hitless_rollout::Ask;

/// What a round wants to know.
#[derive(Clone, Debug, Default)]
pub struct Interest<'a> {
    /// Who is to be asked.
    pub asks: &'a [Ask],
    /// uids of pods that still wait: what was answered about them is kept even while nobody asks.
    pub waiting: BTreeSet<&'a str>,
    /// uids of pods that are being operated: what was answered before that is used up.
    pub running: BTreeSet<&'a str>,
}
