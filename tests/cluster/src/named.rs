//! Names of the values of an option, as people write them on the command line and in profiles.

/// Gives a type with `ALL`, pairs of a value and its name, the traits by which its values are read and written: by name everywhere,
/// also in `cluster.json`.
macro_rules! named {
    ($option:ty, $what:literal) => {
        impl std::str::FromStr for $option {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let known = Self::ALL.iter().find(|(_, name)| *name == text);
                known.map(|(value, _)| *value).ok_or_else(|| {
                    let names: Vec<&str> = Self::ALL.iter().map(|(_, name)| *name).collect();
                    format!("there is no {} {text}; there are {}", $what, names.join(", "))
                })
            }
        }

        impl std::fmt::Display for $option {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let name = Self::ALL.iter().find(|(value, _)| value == self).map_or("", |(_, name)| *name);
                formatter.write_str(name)
            }
        }

        impl TryFrom<String> for $option {
            type Error = String;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                text.parse()
            }
        }

        impl From<$option> for String {
            fn from(value: $option) -> Self {
                value.to_string()
            }
        }
    };
}

pub(crate) use named;

#[cfg(test)]
mod tests {
    use crate::{IpFamily, Kubernetes, Proxy};

    #[test]
    fn every_value_has_a_name_and_others_are_refused_with_a_list() {
        for (value, name) in Proxy::ALL {
            assert_eq!((name.parse(), value.to_string()), (Ok(value), name.to_owned()));
            assert_eq!(serde_json::to_value(value).unwrap(), name);
        }
        assert_eq!(
            "ipvs".parse::<Proxy>().unwrap_err(),
            "there is no mode of kube-proxy ipvs; there are nftables, iptables"
        );
        assert!("ipv5".parse::<IpFamily>().unwrap_err().contains("ipv4, ipv6, dual"));
        assert!(
            "1.12".parse::<Kubernetes>().unwrap_err().contains("1.36, 1.37, 1.35, 1.35-beta, 1.34, 1.34-beta, 1.33")
        );
        assert!(serde_json::from_str::<Proxy>("\"ipvs\"").unwrap_err().to_string().contains("nftables"));
    }
}
