//! The harness of the end-to-end tests and of the demo: hitless installed on the real cluster as a user would install it,
//! an application with load on it, and what is observed meanwhile.
//!
//! Users' actions go through `kubectl`. Waiting is done on watches, never by sleeping: see [`Watch`].

pub mod app;
pub mod approver;
pub mod build;
pub mod client;
pub mod departures;
pub mod endpoint;
pub mod families;
pub mod haproxy;
pub mod helm;
pub mod hostile;
pub mod kubectl;
pub mod measure;
pub mod namespace;
pub mod node_ports;
pub mod operations;
pub mod own;
mod plugin;
pub mod scene;
pub mod servers;
pub mod site;
pub mod stack;
pub mod streams;
pub mod traffic;
pub mod until;
pub mod volumes;
pub mod watch;

pub use app::App;
pub use departures::Departures;
pub use haproxy::HaProxy;
pub use helm::Helm;
pub use hostile::Hostile;
pub use kubectl::Kubectl;
pub use node_ports::NodePorts;
pub use own::Own;
pub use scene::Scene;
pub use site::Site;
pub use stack::Stack;
pub use traffic::Traffic;
pub use watch::Watch;
