//! Servers that nobody here wrote, with several replicas and with one.

use serde_json::json;

use super::case::Case;

pub(super) fn cases() -> Vec<Case> {
    let three = [
        ("nginx", "server-nginx"),
        ("haproxy", "server-haproxy"),
        ("caddy", "server-caddy"),
        ("node", "server-node"),
        ("node-deaf", "server-node-deaf"),
        ("gunicorn", "server-gunicorn"),
        ("gunicorn-threads", "server-gunicorn-threads"),
        ("uvicorn", "server-uvicorn"),
        ("jetty", "server-jetty"),
    ];
    let one = [
        ("nginx-lone", "server-nginx"),
        ("haproxy-lone", "server-haproxy"),
        ("node-lone", "server-node"),
        ("node-deaf-lone", "server-node-deaf"),
        ("gunicorn-lone", "server-gunicorn"),
        ("jetty-lone", "server-jetty"),
    ];
    // Some are killed at its end: the default of 30 s is long to wait for.
    let case = |(name, repository)| Case::new(name, repository).pod(&json!({"terminationGracePeriodSeconds": 5}));
    let lone = |(name, repository)| case((name, repository)).lone();
    three.into_iter().map(case).chain(one.into_iter().map(lone)).collect()
}
