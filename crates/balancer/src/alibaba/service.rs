//! The APIs that are called, and in what they differ. How a request is signed, sent and repeated is the same for all.

use super::account::Region;

/// An earlier change is still being put into effect.
const BUSY_SLB: [&str; 8] = [
    "backendserver.configuring",
    "backendserverprocessing",
    "operationbusy",
    "operationfailed.servicegroupprocessing",
    "processingsamerequest",
    "serviceisconfiguring",
    "serviceisstopping",
    "vservergroupprocessing",
];

/// An API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Service {
    /// Network Load Balancer.
    Nlb,
    /// Application Load Balancer.
    Alb,
    /// Classic Load Balancer, which the API calls SLB.
    Slb,
    /// Elastic Compute Service: it knows which network interface has an address.
    Ecs,
}

/// Where an API expects the parameters of its operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placement {
    Form,
    Query,
}

/// What a refusal says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    NoPool,
    NoServer,
    Exists,
    /// Something else is under way there.
    Busy,
    Other,
}

impl Service {
    pub(super) const fn version(self) -> &'static str {
        match self {
            Self::Nlb => "2022-04-30",
            Self::Alb => "2020-06-16",
            Self::Slb => "2014-05-15",
            Self::Ecs => "2014-05-26",
        }
    }

    /// The public address in a region.
    pub(super) fn host(self, region: &Region) -> String {
        match self {
            Self::Nlb => format!("nlb.{region}.aliyuncs.com"),
            Self::Alb => format!("alb.{region}.aliyuncs.com"),
            // Its oldest region has the address without a region.
            Self::Slb if region.to_string() == "cn-hangzhou" => "slb.aliyuncs.com".to_owned(),
            Self::Slb => format!("slb.{region}.aliyuncs.com"),
            Self::Ecs => format!("ecs.{region}.aliyuncs.com"),
        }
    }

    pub(super) const fn placement(self) -> Placement {
        match self {
            Self::Nlb => Placement::Form,
            Self::Alb | Self::Slb | Self::Ecs => Placement::Query,
        }
    }

    /// What to do about a refusal for want of rights.
    pub(super) const fn rights(self) -> &'static str {
        match self {
            Self::Nlb => {
                "let the RAM user or role call nlb:ListServerGroupServers, nlb:AddServersToServerGroup, \
                 nlb:UpdateServerGroupServersAttribute and nlb:RemoveServersFromServerGroup"
            }
            Self::Alb => {
                "let the RAM user or role call alb:ListServerGroupServers, alb:AddServersToServerGroup, \
                 alb:UpdateServerGroupServersAttribute and alb:RemoveServersFromServerGroup"
            }
            Self::Slb => {
                "let the RAM user or role call slb:DescribeVServerGroupAttribute, slb:DescribeHealthStatus, \
                 slb:AddVServerGroupBackendServers, slb:SetVServerGroupAttribute and slb:RemoveVServerGroupBackendServers"
            }
            Self::Ecs => "let the RAM user or role call ecs:DescribeNetworkInterfaces",
        }
    }

    /// What a documented code means, both in lower case: the case of codes differs between operations.
    pub(super) fn meaning(self, code: &str, message: &str) -> Meaning {
        let is = |words: &[&str]| words.iter().any(|word| code.starts_with(word));
        match self {
            Self::Nlb | Self::Alb => {
                if is(&["resourcenotfound.servergroup"]) {
                    Meaning::NoPool
                } else if is(&["resourcenotfound.backendserver"]) {
                    Meaning::NoServer
                } else if is(&["resourcealreadyexist", "resourcealreadyassociated"]) {
                    Meaning::Exists
                } else if is(&["conflict.lock", "incorrectstatus", "operationfailed.resourceisconfiguring"]) {
                    Meaning::Busy
                } else {
                    Meaning::Other
                }
            }
            Self::Slb => {
                // The code alone says any parameter, so the message tells.
                let parameter = |words: &str| is(&["invalidparameter"]) && message.contains(words);
                if parameter("vservergroupid does not exist") {
                    Meaning::NoPool
                } else if parameter("resource already exists") {
                    Meaning::Exists
                } else if is(&BUSY_SLB) {
                    Meaning::Busy
                } else {
                    Meaning::Other
                }
            }
            Self::Ecs => Meaning::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_the_documented_ones() {
        let host = |service: Service, region: &str| service.host(&Region::new(region).unwrap());
        assert_eq!(host(Service::Nlb, "cn-hangzhou"), "nlb.cn-hangzhou.aliyuncs.com");
        assert_eq!(host(Service::Alb, "cn-shanghai"), "alb.cn-shanghai.aliyuncs.com");
        assert_eq!(host(Service::Slb, "cn-hangzhou"), "slb.aliyuncs.com");
        assert_eq!(host(Service::Slb, "cn-beijing"), "slb.cn-beijing.aliyuncs.com");
        assert_eq!(host(Service::Ecs, "ap-southeast-1"), "ecs.ap-southeast-1.aliyuncs.com");
    }
}
