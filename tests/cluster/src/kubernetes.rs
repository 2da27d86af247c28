//! Which version of Kubernetes a cluster has.

use std::fmt;
use std::str::FromStr;

/// A version that there is a Go module for in `modules`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Kubernetes {
    /// 1.36, which everything is tested on.
    #[default]
    V1_36,
    /// 1.37, the next one.
    V1_37,
    /// 1.35, whose API server has no mutating admission policies.
    V1_35,
}

impl Kubernetes {
    const ALL: [(Self, &str); 3] = [(Self::V1_36, "1.36"), (Self::V1_37, "1.37"), (Self::V1_35, "1.35")];

    /// The directory of its Go module.
    pub(crate) const fn module(self) -> &'static str {
        match self {
            Self::V1_36 => "kube",
            Self::V1_37 => "kube-1.37",
            Self::V1_35 => "kube-1.35",
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
            assert!(text.contains(&format!("require k8s.io/kubernetes v{name}.")), "{name}");
        }
        assert!("1.12".parse::<Kubernetes>().unwrap_err().contains("1.36, 1.37, 1.35"));
    }
}
