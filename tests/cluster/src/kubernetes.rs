//! Which version of Kubernetes a cluster has.

use serde::{Deserialize, Serialize};

use crate::named::named;

/// A version that there is a Go module for in `modules`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Kubernetes {
    /// 1.36, which everything is tested on.
    #[default]
    V1_36,
    /// 1.37, the next one.
    V1_37,
    /// 1.35, whose API server has no mutating admission policies.
    V1_35,
    /// 1.35 with mutating admission policies switched on, as `v1beta1`.
    V1_35Beta,
    /// 1.34, whose API server has no mutating admission policies.
    V1_34,
    /// 1.34 with mutating admission policies switched on, as `v1beta1`.
    V1_34Beta,
    /// 1.33, whose API server has no mutating admission policies that hitless could use: `v1alpha1` only.
    V1_33,
}

impl Kubernetes {
    pub(crate) const ALL: [(Self, &str); 7] = [
        (Self::V1_36, "1.36"),
        (Self::V1_37, "1.37"),
        (Self::V1_35, "1.35"),
        (Self::V1_35Beta, "1.35-beta"),
        (Self::V1_34, "1.34"),
        (Self::V1_34Beta, "1.34-beta"),
        (Self::V1_33, "1.33"),
    ];

    /// The directory of its Go module.
    pub(crate) const fn module(self) -> &'static str {
        match self {
            Self::V1_36 => "kube",
            Self::V1_37 => "kube-1.37",
            Self::V1_35 | Self::V1_35Beta => "kube-1.35",
            Self::V1_34 | Self::V1_34Beta => "kube-1.34",
            Self::V1_33 => "kube-1.33",
        }
    }

    /// Flags that the API server needs beside those of every version.
    pub(crate) const fn api_server_flags(self) -> &'static [&'static str] {
        match self {
            Self::V1_36 | Self::V1_37 | Self::V1_35 | Self::V1_34 | Self::V1_33 => &[],
            Self::V1_35Beta | Self::V1_34Beta => &[
                "--feature-gates=MutatingAdmissionPolicy=true",
                "--runtime-config=admissionregistration.k8s.io/v1beta1=true",
            ],
        }
    }

    /// Whether its API server has mutating admission policies, in any version.
    #[must_use]
    pub const fn has_mutating_policies(self) -> bool {
        match self {
            Self::V1_36 | Self::V1_37 | Self::V1_35Beta | Self::V1_34Beta => true,
            Self::V1_35 | Self::V1_34 | Self::V1_33 => false,
        }
    }
}

named!(Kubernetes, "module in tests/cluster/modules for Kubernetes");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_has_its_module() {
        for (version, name) in Kubernetes::ALL {
            let go_mod = crate::workspace::modules().join(version.module()).join("go.mod");
            let text = std::fs::read_to_string(go_mod).unwrap();
            let minor = name.trim_end_matches("-beta");
            assert!(text.contains(&format!("require k8s.io/kubernetes v{minor}.")), "{name}");
        }
    }
}
