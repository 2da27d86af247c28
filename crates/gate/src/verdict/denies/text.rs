//! What is in the way, in words and numbers.

use std::fmt;

use super::Denies;
use crate::verdict::text::{others, pods, said};

fn nodes(count: u64) -> String {
    if count == 1 { "1 node".to_owned() } else { format!("{count} nodes") }
}

impl Denies {
    /// Of a limit that lets nobody go, whatever there is: what it is compared with says nothing.
    fn of_none(&self) -> Option<String> {
        match self {
            Self::TooManyFailures { most: 0, .. } => Some("maxFailures is 0, so nobody ever goes".to_owned()),
            Self::MaxUnavailableDomains { most: 0, .. } => {
                Some("maxUnavailableDomains is 0, so no available pod can ever be updated".to_owned())
            }
            // A count of 0 is meant so. A percentage that is too low for the nodes is not.
            Self::MaxUnavailableNodes { quota: 0, total, .. } => Some(format!(
                "at most 0 of {} may have an unavailable pod (a percentage rounds down); so no available pod can ever be updated",
                nodes(*total)
            )),
            _ => None,
        }
    }
}

fn min_available(f: &mut fmt::Formatter<'_>, quota: u64, available: u64, total: u64) -> fmt::Result {
    write!(
        f,
        "blocked by min available policy: [min available]={quota}/{total}, [current keep available]={available}/{total}"
    )?;
    if quota >= total {
        write!(f, "; this rule never lets an available pod go, lower its minimum")?;
    }
    Ok(())
}

impl fmt::Display for Denies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(text) = self.of_none() {
            return f.write_str(&text);
        }
        match self {
            Self::MaxUnverified { most, unverified } => {
                write!(f, "{} being tried (at most {most}), and this pod may get Ready by itself", others(*unverified))
            }
            Self::MaxUnavailable { quota, unavailable, missing, total } => {
                write!(
                    f,
                    "blocked by max unavailable policy: [max unavailable]={quota}/{total}, [current unavailable]={unavailable}/{total}"
                )?;
                if *missing > 0 {
                    write!(f, " ({missing} of them not created yet)")?;
                }
                if *quota == 0 && *total > 0 {
                    write!(f, "; this rule never lets an available pod go, raise its maximum")?;
                }
                Ok(())
            }
            Self::MinAvailable { quota, available, total } => min_available(f, *quota, *available, *total),
            Self::LabelsDiffer { requires } => write!(f, "the pod's labels do not match {requires}"),
            Self::Paused => write!(f, "the budget is paused"),
            Self::OutsideWindow { opens: Some(opens) } => write!(f, "no window is open; the next one opens at {opens}"),
            Self::OutsideWindow { opens: None } => write!(f, "no window is open, and none will"),
            Self::Blackout { until, reason } => write!(f, "nothing begins before {until}{}", said(reason)),
            Self::WaveRunning { running } => write!(f, "a wave is under way ({})", pods(*running)),
            Self::Soaking { until } => write!(f, "the last wave soaks until {until}"),
            Self::TooManyFailures { most, failed } => {
                let have =
                    if *failed == 1 { "1 operation has".to_owned() } else { format!("{failed} operations have") };
                write!(f, "{have} failed, and the budget stops at {most}")
            }
            Self::MaxUnavailableNodes { quota, unavailable, total } => {
                let have = if *unavailable == 1 { "has" } else { "have" };
                write!(f, "of {} {unavailable} {have} an unavailable pod, and at most {quota} may", nodes(*total))
            }
            Self::MaxUnavailableDomains { key, most, domains, .. } => {
                let name = |domain: &String| if domain.is_empty() { "(not set)".to_owned() } else { domain.clone() };
                let domains = domains.iter().map(name).collect::<Vec<_>>().join(", ");
                write!(f, "pods are unavailable where {key} is {domains}, and at most {most} may be at a time")
            }
            Self::PerNodeMinAvailable { node, fewest, .. } if node.is_empty() => {
                write!(f, "the pod has no node yet, and at least {fewest} must stay on it")
            }
            Self::PerNodeMinAvailable { node, fewest, available } => {
                let are = if *available == 1 { "1 is".to_owned() } else { format!("{available} are") };
                write!(f, "{are} available on node {node}, and at least {fewest} must stay")
            }
            Self::MaxConcurrent { most, running } => {
                write!(f, "{running} are being operated, and at most {most} may be")
            }
            Self::AwaitingApproval { message } => write!(f, "the approver has not answered yet{}", said(message)),
            Self::ApprovalRefused { message } => write!(f, "the approver refuses{}", said(message)),
            Self::ApproverUnreachable { message } => write!(f, "the approver can't be asked{}", said(message)),
            Self::NoNodeHasLabel { key } => write!(f, "no node has the label {key}, so this limit can never be kept"),
            Self::Misconfigured { text } => write!(f, "the rule can't be understood: {text}"),
            Self::NoSuchPod => write!(f, "there is no such pod (any more)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(because: &Denies) -> (String, String) {
        (because.to_string(), because.unblock().unwrap_or_default())
    }

    #[test]
    fn a_limit_of_0_is_said_and_not_what_it_is_compared_with() {
        let failures = said(&Denies::TooManyFailures { most: 0, failed: 0 });
        assert_eq!(failures.0, "maxFailures is 0, so nobody ever goes");
        assert_eq!(failures.1, "raise maxFailures to 1 at least");
        let domains = |most, domains: &[&str]| Denies::MaxUnavailableDomains {
            key: "zone".to_owned(),
            most,
            unavailable: domains.len() as u64,
            domains: domains.iter().map(|domain| (*domain).to_owned()).collect(),
        };
        let none = said(&domains(0, &[]));
        assert_eq!(none.0, "maxUnavailableDomains is 0, so no available pod can ever be updated");
        assert_eq!(none.1, "raise maxUnavailableDomains to 1 at least");
        let unnamed = said(&domains(1, &["", "b"]));
        assert_eq!(unnamed.0, "pods are unavailable where zone is (not set), b, and at most 1 may be at a time");
        assert_eq!(unnamed.1, "wait until 2 of them are whole, or raise maxUnavailableDomains to 3");
        let nodes = said(&Denies::MaxUnavailableNodes { quota: 0, unavailable: 0, total: 2 });
        assert_eq!(
            nodes.0,
            "at most 0 of 2 nodes may have an unavailable pod (a percentage rounds down); so no available pod can ever be updated"
        );
        assert_eq!(nodes.1, "raise maxUnavailableNodes to 1 at least");
    }

    #[test]
    fn one_is_not_several() {
        let nodes = said(&Denies::MaxUnavailableNodes { quota: 1, unavailable: 1, total: 3 });
        assert_eq!(nodes.0, "of 3 nodes 1 has an unavailable pod, and at most 1 may");
        assert_eq!(nodes.1, "wait until 1 more node is whole, or raise maxUnavailableNodes to 2");
        let failures = Denies::TooManyFailures { most: 1, failed: 1 };
        assert_eq!(failures.to_string(), "1 operation has failed, and the budget stops at 1");
        let node = Denies::PerNodeMinAvailable { node: "a".to_owned(), fewest: 1, available: 1 };
        assert_eq!(node.to_string(), "1 is available on node a, and at least 1 must stay");
    }

    #[test]
    fn a_pod_without_a_node_is_told_so() {
        let said = said(&Denies::PerNodeMinAvailable { node: String::new(), fewest: 1, available: 1 });
        assert_eq!(said.0, "the pod has no node yet, and at least 1 must stay on it");
        assert_eq!(said.1, "wait until the pod has a node");
    }
}
