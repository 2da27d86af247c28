//! Verdicts in words: what is in the way, and the smallest change that would unblock.

use std::fmt;

use super::{Decision, Reason, RuleVerdict, Verdict};

impl RuleVerdict {
    /// Why, in words and numbers. Where upstream has a text that operators look for, it begins with exactly that text.
    #[must_use]
    pub fn reason(&self) -> String {
        match &self.because {
            because @ Reason::MaxUnavailable { .. } => format!("[{}] {because}", self.rule_name()),
            because => because.to_string(),
        }
    }

    /// The smallest change that would unblock the pod, in words; `None` where nothing is in the way.
    #[must_use]
    pub fn unblock(&self) -> Option<String> {
        (self.verdict == Decision::Denied).then(|| self.because.unblock()).flatten()
    }
}

impl fmt::Display for RuleVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.reason())
    }
}

impl fmt::Display for Verdict {
    /// One line for the pod, one for each rule.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.pod.is_empty() { &self.pod_uid } else { &self.pod };
        write!(f, "{name}: {}", if self.allowed { "may go" } else { "waits" })?;
        for rule in &self.rules {
            let mark = if rule.verdict == Decision::Allowed { "+" } else { "-" };
            write!(f, "\n  {mark} {rule}")?;
        }
        Ok(())
    }
}

fn pods(count: u64) -> String {
    if count == 1 { "1 pod".to_owned() } else { format!("{count} pods") }
}

fn nodes(count: u64) -> String {
    if count == 1 { "1 node".to_owned() } else { format!("{count} nodes") }
}

fn more(count: u64) -> String {
    if count == 1 { "1 more pod is".to_owned() } else { format!("{count} more pods are") }
}

impl Reason {
    /// The smallest change that would unblock, of a reason why not, in words.
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
            Self::NoSuchPod
            | Self::AlreadyReserved
            | Self::AlreadyUnavailable
            | Self::FewUnverified { .. }
            | Self::WithinBudget { .. }
            | Self::LabelsMatch
            | Self::Disabled
            | Self::OtherStage { .. }
            | Self::FilteredOut
            | Self::ConditionsUnmet { .. }
            | Self::Skipped
            | Self::KindSkipped { .. }
            | Self::Empty
            | Self::InWindow
            | Self::Soaked
            | Self::FewFailures
            | Self::WithinNodes { .. }
            | Self::WithinDomains { .. }
            | Self::EnoughOnNode { .. }
            | Self::FewRunning { .. }
            | Self::Approved
            | Self::ApproverIgnored { .. }
            | Self::PerNodeMinAvailable { .. } => return None,
        })
    }
}

/// ` (<message>)`, or nothing.
fn said(message: &str) -> String {
    if message.is_empty() { String::new() } else { format!(": {message}") }
}

impl Reason {
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

fn others(count: u64) -> String {
    if count == 1 { "1 other is".to_owned() } else { format!("{count} others are") }
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

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(text) = self.of_none() {
            return f.write_str(&text);
        }
        match self {
            Self::AlreadyReserved => write!(f, "the pod is reserved already"),
            Self::AlreadyUnavailable => write!(f, "the pod is unavailable anyway, operating it costs nothing"),
            Self::FewUnverified { most, unverified } => {
                write!(f, "the pod is unavailable, and {} being tried (at most {most})", others(*unverified))
            }
            Self::MaxUnverified { most, unverified } => {
                write!(f, "{} being tried (at most {most}), and this pod may get Ready by itself", others(*unverified))
            }
            Self::WithinBudget { total, unavailable, max_unavailable, available, min_available } => {
                write!(f, "there is room: of {total} pods {unavailable} unavailable")?;
                if let Some(max) = max_unavailable {
                    write!(f, " (at most {max})")?;
                }
                write!(f, ", {available} available")?;
                min_available.map_or(Ok(()), |min| write!(f, " (at least {min})"))
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
            Self::LabelsMatch => write!(f, "the pod has the labels asked for"),
            Self::LabelsDiffer { requires } => write!(f, "the pod's labels do not match {requires}"),
            Self::Disabled => write!(f, "the rule is disabled"),
            Self::OtherStage { stage } => write!(f, "the rule is for stage {stage:?}, not for PreCheck"),
            Self::FilteredOut => write!(f, "the rule's filter leaves this pod out"),
            Self::ConditionsUnmet { conditions } => {
                write!(f, "the rule is for pods with condition {}", conditions.join(" or "))
            }
            Self::Skipped => write!(f, "the pod's annotation excuses it from the rule"),
            Self::KindSkipped { kind } => write!(f, "rules of kind {kind} are switched off for the whole cluster"),
            Self::Empty => write!(f, "the rule asks for nothing"),
            Self::Paused => write!(f, "the budget is paused"),
            Self::InWindow => write!(f, "operations may begin now"),
            Self::OutsideWindow { opens: Some(opens) } => write!(f, "no window is open; the next one opens at {opens}"),
            Self::OutsideWindow { opens: None } => write!(f, "no window is open, and none will"),
            Self::Blackout { until, reason } => write!(f, "nothing begins before {until}{}", said(reason)),
            Self::Soaked => write!(f, "the last wave has soaked"),
            Self::WaveRunning { running } => write!(f, "a wave is under way ({})", pods(*running)),
            Self::Soaking { until } => write!(f, "the last wave soaks until {until}"),
            Self::FewFailures => write!(f, "few operations have failed"),
            Self::TooManyFailures { most, failed } => {
                let have =
                    if *failed == 1 { "1 operation has".to_owned() } else { format!("{failed} operations have") };
                write!(f, "{have} failed, and the budget stops at {most}")
            }
            Self::WithinNodes { quota, unavailable, total } => {
                write!(f, "of {total} nodes {unavailable} have an unavailable pod (at most {quota})")
            }
            Self::MaxUnavailableNodes { quota, unavailable, total } => {
                let have = if *unavailable == 1 { "has" } else { "have" };
                write!(f, "of {} {unavailable} {have} an unavailable pod, and at most {quota} may", nodes(*total))
            }
            Self::WithinDomains { key } => write!(f, "there is room by {key}"),
            Self::MaxUnavailableDomains { key, most, domains, .. } => {
                let name = |domain: &String| if domain.is_empty() { "(not set)".to_owned() } else { domain.clone() };
                let domains = domains.iter().map(name).collect::<Vec<_>>().join(", ");
                write!(f, "pods are unavailable where {key} is {domains}, and at most {most} may be at a time")
            }
            Self::EnoughOnNode { node, fewest, available } => {
                write!(f, "{available} are available on node {node} (at least {fewest} must stay)")
            }
            Self::PerNodeMinAvailable { node, fewest, .. } if node.is_empty() => {
                write!(f, "the pod has no node yet, and at least {fewest} must stay on it")
            }
            Self::PerNodeMinAvailable { node, fewest, available } => {
                let are = if *available == 1 { "1 is".to_owned() } else { format!("{available} are") };
                write!(f, "{are} available on node {node}, and at least {fewest} must stay")
            }
            Self::FewRunning { most, running } => write!(f, "{running} are being operated (at most {most})"),
            Self::MaxConcurrent { most, running } => {
                write!(f, "{running} are being operated, and at most {most} may be")
            }
            Self::Approved => write!(f, "the approver agrees"),
            Self::AwaitingApproval { message } => write!(f, "the approver has not answered yet{}", said(message)),
            Self::ApprovalRefused { message } => write!(f, "the approver refuses{}", said(message)),
            Self::ApproverUnreachable { message } => write!(f, "the approver can't be asked{}", said(message)),
            Self::ApproverIgnored { message } => {
                write!(f, "the approver can't be asked, and the rule's failurePolicy is Ignore{}", said(message))
            }
            Self::NoNodeHasLabel { key } => write!(f, "no node has the label {key}, so this limit can never be kept"),
            Self::Misconfigured { text } => write!(f, "the rule can't be understood: {text}"),
            Self::NoSuchPod => write!(f, "there is no such pod (any more)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(because: &Reason) -> (String, String) {
        (because.to_string(), because.unblock().unwrap_or_default())
    }

    #[test]
    fn a_limit_of_0_is_said_and_not_what_it_is_compared_with() {
        let failures = said(&Reason::TooManyFailures { most: 0, failed: 0 });
        assert_eq!(failures.0, "maxFailures is 0, so nobody ever goes");
        assert_eq!(failures.1, "raise maxFailures to 1 at least");
        let domains = |most, domains: &[&str]| Reason::MaxUnavailableDomains {
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
        let nodes = said(&Reason::MaxUnavailableNodes { quota: 0, unavailable: 0, total: 2 });
        assert_eq!(
            nodes.0,
            "at most 0 of 2 nodes may have an unavailable pod (a percentage rounds down); so no available pod can ever be updated"
        );
        assert_eq!(nodes.1, "raise maxUnavailableNodes to 1 at least");
    }

    #[test]
    fn one_is_not_several() {
        let nodes = said(&Reason::MaxUnavailableNodes { quota: 1, unavailable: 1, total: 3 });
        assert_eq!(nodes.0, "of 3 nodes 1 has an unavailable pod, and at most 1 may");
        assert_eq!(nodes.1, "wait until 1 more node is whole, or raise maxUnavailableNodes to 2");
        let failures = Reason::TooManyFailures { most: 1, failed: 1 };
        assert_eq!(failures.to_string(), "1 operation has failed, and the budget stops at 1");
        let node = Reason::PerNodeMinAvailable { node: "a".to_owned(), fewest: 1, available: 1 };
        assert_eq!(node.to_string(), "1 is available on node a, and at least 1 must stay");
    }

    #[test]
    fn a_pod_without_a_node_is_told_so() {
        let said = said(&Reason::PerNodeMinAvailable { node: String::new(), fewest: 1, available: 1 });
        assert_eq!(said.0, "the pod has no node yet, and at least 1 must stay on it");
        assert_eq!(said.1, "wait until the pod has a node");
    }
}
