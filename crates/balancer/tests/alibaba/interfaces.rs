//! Network interfaces: which of them has an address.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::group::{Refusal, page};

/// An interface whose addresses several pods have.
pub(crate) const SHARED: &str = "eni-bp17pdijfczaxzzzz";

#[derive(Clone, Debug)]
pub(crate) struct Interface {
    pub(crate) id: String,
    pub(crate) vpc: &'static str,
    pub(crate) ips: Vec<String>,
}

pub(crate) struct Interfaces(pub(crate) Vec<Interface>);

impl Default for Interfaces {
    /// One that has `10.0.0.0/24`.
    fn default() -> Self {
        let ips = (0..=255).map(|last| format!("10.0.0.{last}")).collect();
        Self(vec![Interface { id: SHARED.into(), vpc: "vpc-1", ips }])
    }
}

impl Interfaces {
    pub(crate) fn answer(&self, action: &str, given: &BTreeMap<String, String>) -> Result<Value, Refusal> {
        if action != "DescribeNetworkInterfaces" {
            return Err((404, "InvalidAction.NotFound"));
        }
        assert_eq!((given["RegionId"].as_str(), given["Status"].as_str()), ("cn-hangzhou", "InUse"));
        let is_asked_for = |each: &&Interface| {
            each.ips.contains(&given["PrivateIpAddress.1"]) && given.get("VpcId").is_none_or(|vpc| vpc == each.vpc)
        };
        let found: Vec<Value> = self.0.iter().filter(is_asked_for).map(Interface::json).collect();
        let (page, next) = page(&found, given);
        Ok(json!({
            "RequestId": "473469C7-AA6F-4DC5-B3DB-A3DC0DE3C83E", "PageSize": 10, "NextToken": next.unwrap_or_default(),
            "NetworkInterfaceSets": { "NetworkInterfaceSet": page },
        }))
    }
}

impl Interface {
    fn json(&self) -> Value {
        let ips: Vec<Value> = self.ips.iter().map(|ip| json!({ "PrivateIpAddress": ip, "Primary": false })).collect();
        json!({
            "NetworkInterfaceId": self.id, "VpcId": self.vpc, "Status": "InUse", "Type": "Secondary",
            "PrivateIpAddress": self.ips[0], "PrivateIpSets": { "PrivateIpSet": ips },
        })
    }
}
