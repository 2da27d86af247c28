//! Which version of Kubernetes a cluster has.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A version that there is a Go module for in `modules`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
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
}

impl Kubernetes {
    const ALL: [(Self, &str); 4] =
        [(Self::V1_36, "1.36"), (Self::V1_37, "1.37"), (Self::V1_35, "1.35"), (Self::V1_35Beta, "1.35-beta")];

    /// The directory of its Go module.
    pub(crate) const fn module(self) -> &'static str {
        match self {
            Self::V1_36 => "kube",
            Self::V1_37 => "kube-1.37",
            Self::V1_35 | Self::V1_35Beta => "kube-1.35",
        }
    }

    /// Flags that the API server needs beside those of every version.
    pub(crate) const fn api_server_flags(self) -> &'static [&'static str] {
        match self {
            Self::V1_36 | Self::V1_37 | Self::V1_35 => &[],
            Self::V1_35Beta => &[
                "--feature-gates=MutatingAdmissionPolicy=true",
                "--runtime-config=admissionregistration.k8s.io/v1beta1=true",
            ],
        }
    }

    /// Whether its API server has mutating admission policies, in any version.
    #[must_use]
    pub const fn has_mutating_policies(self) -> bool {
        match self {
            Self::V1_36 | Self::V1_37 | Self::V1_35Beta => true,
            Self::V1_35 => false,
        }
    }
}

impl FromStr for Kubernetes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.iter().find(|(_, name)| *name == text);
        known.map(|(version, _)| *version).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|(_, name)| *name).collect();
            format!("there is no module for Kubernetes {text} in tests/cluster/modules; there are {}", names.join(", "))
        })
    }
}

impl fmt::Display for Kubernetes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(version, _)| version == self).map_or("", |(_, name)| *name);
        formatter.write_str(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_has_its_module_and_others_are_refused_by_name() {
        for (version, name) in Kubernetes::ALL {
            assert_eq!((name.parse(), version.to_string()), (Ok(version), name.to_owned()));
            let go_mod = crate::workspace::modules().join(version.module()).join("go.mod");
            let text = std::fs::read_to_string(go_mod).unwrap();
            let minor = name.trim_end_matches("-beta");
            assert!(text.contains(&format!("require k8s.io/kubernetes v{minor}.")), "{name}");
        }
        assert!("1.12".parse::<Kubernetes>().unwrap_err().contains("1.36, 1.37, 1.35, 1.35-beta"));
    }
}
