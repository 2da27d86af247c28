//! The families of addresses that an application is reached by.

use std::net::{IpAddr, SocketAddr};

use anyhow::ensure;
use serde_json::{Value, json};

use crate::App;

/// Gives the application's Service an address of each family that the cluster has, and waits until it answers at all of them.
pub fn open(app: &App) -> anyhow::Result<Vec<SocketAddr>> {
    let both = json!({"spec": {"ipFamilyPolicy": "PreferDualStack"}}).to_string();
    app.kubectl.run(&["patch", "service", "web", "-p", &both])?;
    let service = app.kubectl.get(&["service", "web"])?;
    let all: Vec<SocketAddr> =
        addresses(&service["spec"]["clusterIPs"]).map(|ip| SocketAddr::new(ip, app.address.port())).collect();
    all.iter().try_for_each(|address| app.wait_answering_at(*address))?;
    ensure!(all.first() == Some(&app.address), "the first address is not the Service's: {all:?}");
    Ok(all)
}

/// `status.podIPs` or `status.hostIPs` of a pod.
#[must_use]
pub fn of_pod(pod: &Value, field: &str) -> Vec<IpAddr> {
    let all = pod["status"][field].as_array().into_iter().flatten();
    all.filter_map(|each| each["ip"].as_str()?.parse().ok()).collect()
}

fn addresses(list: &Value) -> impl Iterator<Item = IpAddr> {
    list.as_array().into_iter().flatten().filter_map(|ip| ip.as_str()?.parse().ok())
}
