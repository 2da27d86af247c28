//! Servers that speak no HTTP: databases and brokers, at port 8080 as well. Their clients are those of `cargo xtask bench applications`.

use super::Server;
use crate::app::LONGEST_HOLD;

pub(super) const DATABASES: [Server; 3] = [
    Server {
        name: "redis",
        on_sigterm: "ends at once",
        packages: &["redis-server"],
        prepare: &[],
        command: &["/usr/bin/redis-server", "--port", "8080", "--save", "", "--protected-mode", "no", "--dir", "/tmp"],
        grace_seconds: None,
        hold_cap_ms: Some(LONGEST_HOLD),
    },
    Server {
        name: "nats",
        on_sigterm: "ends at once",
        packages: &["nats-server"],
        prepare: &[],
        command: &["/usr/sbin/nats-server", "-p", "8080", "-m", "8222"],
        grace_seconds: None,
        hold_cap_ms: Some(LONGEST_HOLD),
    },
    Server {
        name: "postgresql",
        on_sigterm: "waits until its clients have gone",
        packages: &["postgresql-15", "dash"],
        prepare: &[],
        command: &["/bin/sh", "/srv/start.sh"],
        grace_seconds: None,
        hold_cap_ms: Some(LONGEST_HOLD),
    },
];
