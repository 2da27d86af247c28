//! What happens to the cluster while it rolls.

use std::fmt;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::ensure;
use hitless_e2e::Stack;
use serde::Serialize;

/// So long a part stands still.
const STILL: Duration = Duration::from_secs(8);

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) enum Fault {
    None,
    /// The agent's process on that node is killed.
    AgentKilled(String),
    /// The leading controller's process is killed.
    LeaderKilled,
    /// The kubelet of that node stands still for a while.
    KubeletStopped(String),
    /// The API server stands still for a while.
    ApiServerStopped,
}

impl Fault {
    /// Every second rollout has none.
    pub(super) fn choose(random: &mut fastrand::Rng, nodes: &[String]) -> Self {
        let node = nodes[random.usize(..nodes.len())].clone();
        match random.u8(..8) {
            0 => Self::AgentKilled(node),
            1 => Self::LeaderKilled,
            2 => Self::KubeletStopped(node),
            3 => Self::ApiServerStopped,
            _ => Self::None,
        }
    }

    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::None => "without a fault",
            Self::AgentKilled(_) => "an agent killed",
            Self::LeaderKilled => "the leader killed",
            Self::KubeletStopped(_) => "a kubelet stopped for 8 s",
            Self::ApiServerStopped => "the API server stopped for 8 s",
        }
    }

    /// Returns when it is over.
    pub(super) fn happen(&self, stack: &Stack) -> anyhow::Result<()> {
        match self {
            Self::None => Ok(()),
            Self::AgentKilled(node) => stack.kill_agent(node),
            Self::LeaderKilled => stack.kill_leader(),
            Self::KubeletStopped(node) => stand_still(stack.cluster.process(&format!("{node}/kubelet"))?),
            Self::ApiServerStopped => stand_still(stack.cluster.process("kube-apiserver")?),
        }
    }

    /// A container that was killed a few times in a row would wait for the kubelet's back-off, which is not what is tried here.
    pub(super) fn mend(&self, stack: &Stack) -> anyhow::Result<()> {
        match self {
            Self::None | Self::KubeletStopped(_) | Self::ApiServerStopped => Ok(()),
            Self::AgentKilled(node) => stack.renew_agent(node),
            Self::LeaderKilled => {
                let selector = "app.kubernetes.io/name=hitless-controller";
                stack.system().run(&["delete", "pods", "-l", selector, "--wait=true"])?;
                stack.wait_ready()
            }
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AgentKilled(node) | Self::KubeletStopped(node) => write!(formatter, "{} ({node})", self.kind()),
            Self::None | Self::LeaderKilled | Self::ApiServerStopped => formatter.write_str(self.kind()),
        }
    }
}

fn stand_still(pid: i32) -> anyhow::Result<()> {
    signal("-STOP", pid)?;
    thread::sleep(STILL);
    signal("-CONT", pid)
}

fn signal(name: &str, pid: i32) -> anyhow::Result<()> {
    let sent = Command::new("kill").args([name, &pid.to_string()]).status()?;
    ensure!(sent.success(), "kill {name} {pid} failed");
    Ok(())
}
