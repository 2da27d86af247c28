//! Errors of this crate: what was attempted, why it failed, and what to do.

use std::io;

use crate::{Capability, DumpError};

/// Why the kernel could not be asked or did not answer.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// The uid or container id holds characters that no Kubernetes id has; nothing was searched.
    #[error("{0:?} is not an id of Kubernetes (letters, digits, dashes, at most 128): nothing was searched for it")]
    InvalidId(String),
    /// No process belongs to the pod: it has not been started yet, has ended, or the agent does not see the node's
    /// processes.
    #[error("pod {pod_uid} has no process on this node: not started yet, or ended (the agent needs hostPID to see it)")]
    NotFound {
        /// The pod's uid.
        pod_uid: String,
    },
    /// The pod has processes, but none in this container.
    #[error("container {container_id} of pod {pod_uid} has no process: not started yet, or ended")]
    ContainerNotFound {
        /// The pod's uid.
        pod_uid: String,
        /// The container's id without the runtime's prefix.
        container_id: String,
    },
    /// The pod's network is the node's, or the agent's own. Counting there would count other people's connections.
    /// A sandbox that is just being set up looks the same for a moment.
    #[error("pod {pod_uid} is in the node's network namespace: hostNetwork pods are not drained")]
    HostNetwork {
        /// The pod's uid.
        pod_uid: String,
    },
    /// Somebody must listen in the pod, and nobody is seen to: its sockets are in another network stack, as with gVisor.
    #[error(
        "nobody is seen to listen in pod {pod_uid}, although a container is ready that has ports or probes, or a runtime class: another \
         network stack, such as gVisor's? Its connections can't be counted"
    )]
    NobodyListens {
        /// The pod's uid.
        pod_uid: String,
    },
    /// The pod serves by SCTP, and nobody counts that.
    #[error(
        "pod {pod_uid} declares port {port} for SCTP, whose connections can't be counted; where none has to be waited for, treat the port \
         as ignore"
    )]
    Sctp {
        /// The pod's uid.
        pod_uid: String,
        /// The port.
        port: u16,
    },
    /// A hold of no ports, of more than 1024, or one that lasts less than a millisecond.
    #[error("a hold needs 1 to 1024 ports (got {ports}) and limits of at least a millisecond")]
    HoldSpec {
        /// Ports in the spec.
        ports: usize,
    },
    /// The kernel refused for want of a capability.
    #[error("{action} was denied: the agent needs {} (securityContext.capabilities.add)", join(.needs))]
    Denied {
        /// What was attempted.
        action: String,
        /// Capabilities that allow it.
        needs: &'static [Capability],
    },
    /// Any other failed system call.
    #[error("{action} failed: {source}")]
    Io {
        /// What was attempted.
        action: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The kernel did not give a whole list of sockets; nothing is known about the connections.
    #[error("the list of sockets is not complete: {0}")]
    Dump(#[from] DumpError),
    /// `/proc/<pid>/net/snmp` has another form than any known kernel's.
    #[error("no counter {0} in /proc/<pid>/net/snmp: this kernel is not supported")]
    Counter(&'static str),
}

impl KernelError {
    /// Sorts a failed call: refusals become [`KernelError::Denied`] with the capabilities that would have helped.
    pub(crate) fn of_call(
        action: impl Into<String>,
        source: impl Into<io::Error>,
        needs: &'static [Capability],
    ) -> Self {
        let (action, source) = (action.into(), source.into());
        if source.kind() == io::ErrorKind::PermissionDenied && !needs.is_empty() {
            Self::Denied { action, needs }
        } else {
            Self::Io { action, source }
        }
    }
}

fn join(capabilities: &[Capability]) -> String {
    capabilities.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn a_refusal_names_the_capability_and_other_errors_do_not() {
        let needs = &[Capability::SysPtrace, Capability::DacReadSearch];
        for errno in [Errno::PERM, Errno::ACCESS] {
            let denied = KernelError::of_call("list /proc/7/fd", errno, needs);
            assert_eq!(
                denied.to_string(),
                "list /proc/7/fd was denied: the agent needs CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH \
                 (securityContext.capabilities.add)"
            );
        }
        assert!(matches!(KernelError::of_call("x", Errno::NOENT, needs), KernelError::Io { .. }));
        assert!(matches!(KernelError::of_call("x", Errno::PERM, &[]), KernelError::Io { .. }));
    }
}
