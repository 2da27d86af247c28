//! The smallest change that would unblock.

use super::Denies;
use crate::verdict::text::pods;

fn more(count: u64) -> String {
    if count == 1 { "1 more pod is".to_owned() } else { format!("{count} more pods are") }
}

impl Denies {
    /// The smallest change that would unblock, in words; `None` where nothing that is written would.
    #[must_use]
    pub fn unblock(&self) -> Option<String> {
        Some(match self {
            Self::MaxUnavailable { quota: 0, total, .. } => {
                format!("raise the maximum to at least 1 of {total}: as it is, no available pod can ever be updated")
            }
            Self::MaxUnavailable { quota, unavailable, .. } => {
                let back = more(unavailable - quota + 1);
                format!("wait until {back} available, or raise the maximum to {}", unavailable + 1)
            }
            Self::MinAvailable { quota, total, .. } if quota >= total => {
                format!("lower the minimum below {total}, or add {}", pods(quota - total + 1))
            }
            Self::MinAvailable { quota, available, .. } => {
                let lower = available.saturating_sub(1);
                format!("wait until {} available, or lower the minimum to {lower}", more(quota + 1 - available))
            }
            Self::MaxUnverified { most, unverified } => {
                let back = unverified.saturating_sub(*most) + 1;
                let back = if back == 1 { "1 of them is".to_owned() } else { format!("{back} of them are") };
                format!("wait until {back} Ready, or set a version that gets Ready")
            }
            Self::LabelsDiffer { requires } => format!("give the pod the labels {requires}"),
            Self::Paused => "set spec.paused to false".to_owned(),
            Self::OutsideWindow { opens: Some(opens) } => format!("wait until {opens}, or add a window"),
            Self::OutsideWindow { opens: None } => "add a window that opens".to_owned(),
            Self::Blackout { until, .. } => format!("wait until {until}, or end the blackout"),
            Self::WaveRunning { running } => format!("wait until {} are back", pods(*running)),
            Self::Soaking { until } => format!("wait until {until}, or lower soakSeconds"),
            Self::TooManyFailures { most: 0, .. } => "raise maxFailures to 1 at least".to_owned(),
            Self::TooManyFailures { failed, .. } => {
                format!("mend what failed and change the template (or back), or raise maxFailures to {}", failed + 1)
            }
            Self::MaxUnavailableNodes { quota: 0, .. } => "raise maxUnavailableNodes to 1 at least".to_owned(),
            Self::MaxUnavailableNodes { quota, unavailable, .. } => {
                let back = unavailable.saturating_sub(*quota) + 1;
                let back = if back == 1 { "1 more node is".to_owned() } else { format!("{back} more nodes are") };
                format!("wait until {back} whole, or raise maxUnavailableNodes to {}", unavailable + 1)
            }
            Self::MaxUnavailableDomains { most: 0, .. } => "raise maxUnavailableDomains to 1 at least".to_owned(),
            Self::MaxUnavailableDomains { most, unavailable, .. } => {
                let back = unavailable.saturating_sub(*most) + 1;
                let back = if back == 1 { "1 of them is".to_owned() } else { format!("{back} of them are") };
                format!("wait until {back} whole, or raise maxUnavailableDomains to {}", unavailable + 1)
            }
            Self::PerNodeMinAvailable { node, .. } if node.is_empty() => "wait until the pod has a node".to_owned(),
            Self::PerNodeMinAvailable { node, fewest, available } if available <= fewest => {
                format!("bring {} more to node {node}, or lower perNodeMinAvailable", pods(fewest + 1 - available))
            }
            Self::MaxConcurrent { most: 0, .. } => "raise maxConcurrent: as it is nobody ever goes".to_owned(),
            Self::MaxConcurrent { running, .. } => {
                format!("wait until operations end, or raise maxConcurrent to {}", running + 1)
            }
            Self::AwaitingApproval { .. } => "wait for the approver's answer".to_owned(),
            Self::ApprovalRefused { .. } => "satisfy the approver; it is asked again".to_owned(),
            Self::ApproverUnreachable { .. } => {
                "bring the approver back; it is asked again. failurePolicy: Ignore would let pods go meanwhile"
                    .to_owned()
            }
            Self::NoNodeHasLabel { .. } => "label the nodes, or take topology out of the budget".to_owned(),
            Self::Misconfigured { .. } => "mend the rule".to_owned(),
            Self::NoSuchPod | Self::PerNodeMinAvailable { .. } => return None,
        })
    }
}
