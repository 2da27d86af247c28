//! The products, and in what the API's tests of them differ.

use hitless_balancer::alibaba::Product;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Nlb,
    Alb,
    Clb,
}

impl Kind {
    pub(crate) const fn product(self) -> Product {
        match self {
            Self::Nlb => Product::Nlb,
            Self::Alb => Product::Alb,
            Self::Clb => Product::Clb { vpc: None },
        }
    }

    pub(crate) const fn version(self) -> &'static str {
        match self {
            Self::Nlb => "2022-04-30",
            Self::Alb => "2020-06-16",
            Self::Clb => "2014-05-15",
        }
    }

    /// The id of the one group that there is.
    pub(crate) const fn group(self) -> &'static str {
        match self {
            Self::Nlb | Self::Alb => "sgp-atstuj3rtoptyui",
            Self::Clb => "rsp-cige6j5e7p",
        }
    }

    pub(crate) const fn other_group(self) -> &'static str {
        match self {
            Self::Nlb | Self::Alb => "sgp-other",
            Self::Clb => "rsp-other",
        }
    }

    /// Where the documentation places parameters.
    pub(crate) const fn has_form(self) -> bool {
        match self {
            Self::Nlb => true,
            Self::Alb | Self::Clb => false,
        }
    }

    /// Whether writes take effect a while after their answers, and have client tokens.
    pub(crate) const fn is_asynchronous(self) -> bool {
        match self {
            Self::Nlb | Self::Alb => true,
            Self::Clb => false,
        }
    }

    /// What a pod is there, by id and type.
    pub(crate) const fn server(self) -> (&'static str, &'static str) {
        match self {
            Self::Nlb | Self::Alb => ("10.0.0.1", "Ip"),
            Self::Clb => (crate::interfaces::SHARED, "eni"),
        }
    }

    /// An action that the key has to be allowed.
    pub(crate) const fn right(self) -> &'static str {
        match self {
            Self::Nlb => "nlb:AddServersToServerGroup",
            Self::Alb => "alb:AddServersToServerGroup",
            Self::Clb => "slb:AddVServerGroupBackendServers",
        }
    }
}
