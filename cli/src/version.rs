//! `kubectl hitless version`: of this program, and of what is in the cluster.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::LazyLock;

use hitless_runtime::telemetry;
use kube::Client;
use serde::Serialize;

use crate::args::Format;
use crate::doctor::facts::{AgentPod, Program, Report, Seen};
use crate::doctor::findings::ROLES;
use crate::doctor::read::{agent, agent_pods, controller, reports, seen, server};
use crate::failure::Failure;
use crate::output;

/// What is said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Versions {
    client: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<Cluster>,
}

/// In the cluster. What may not be read is absent, and in the notes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Cluster {
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    controller: Option<String>,
    /// How many agents' pods have this image.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    agents: BTreeMap<String, usize>,
    /// How many agents have said so of themselves; each does with its first operation.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    agents_report: BTreeMap<String, usize>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

/// Version and commit of this program.
pub(crate) fn own() -> &'static str {
    static OWN: LazyLock<String> = LazyLock::new(|| format!("{} ({})", telemetry::VERSION, telemetry::COMMIT));
    &OWN
}

/// Without a cluster.
pub(crate) fn of_client(output: Format) -> Result<(), Failure> {
    show(&Versions { client: own().to_owned(), cluster: None }, output)
}

/// What is known of this program is said whether or not a cluster answers, as kubectl does.
pub(crate) async fn run(connect: impl Future<Output = Result<Client, Failure>>, output: Format) -> Result<(), Failure> {
    let of_both = async { of_both(&connect.await?, output).await };
    match of_both.await {
        Err(failure @ Failure::Output(_)) => Err(failure),
        Err(failure) => {
            of_client(output)?;
            Err(failure)
        }
        Ok(()) => Ok(()),
    }
}

async fn of_both(client: &Client, output: Format) -> Result<(), Failure> {
    let (server, controller, agent, pods, reports) =
        futures::join!(server(client), controller(client), agent(client), agent_pods(client), reports(client));
    let cluster = Cluster::of(server, seen(controller)?, &seen(agent)?, seen(pods)?, seen(reports)?.served());
    show(&Versions { client: own().to_owned(), cluster: Some(cluster) }, output)
}

impl Cluster {
    fn of(
        server: Seen<(u32, u32, String)>,
        controller: Seen<Option<Program>>,
        agent: &Seen<Option<Program>>,
        pods: Seen<Vec<AgentPod>>,
        reports: Seen<Vec<(String, Report)>>,
    ) -> Self {
        let mut cluster = Self::default();
        let mut unread = Vec::new();
        match server {
            Seen::Known((_, _, version)) => cluster.server = Some(version),
            Seen::Unread(why) => unread.push(("the API server's version", why)),
            Seen::NotServed => {}
        }
        match controller {
            Seen::Known(Some(program)) => cluster.controller = Some(program.image),
            Seen::Known(None) | Seen::NotServed => {
                cluster.notes.push(
                    "hitless has no controller in this cluster; install it: kubectl apply -k manifests".to_owned(),
                );
            }
            Seen::Unread(why) => unread.push(("the controller", why)),
        }
        match (pods, agent) {
            (Seen::Known(pods), _) => {
                for pod in pods {
                    *cluster.agents.entry(pod.image).or_default() += 1;
                }
            }
            (Seen::Unread(why), _) => unread.push(("the agents", why)),
            (Seen::NotServed, _) => {}
        }
        if let Seen::Known(Some(program)) = agent
            && cluster.agents.keys().any(|image| *image != program.image)
        {
            cluster.notes.push(format!("agents are being updated to {}", program.image));
        }
        match reports {
            Seen::Known(reports) => {
                for (_, report) in reports {
                    *cluster.agents_report.entry(report.version).or_default() += 1;
                }
            }
            Seen::Unread(why) => unread.push(("what the agents report", why)),
            Seen::NotServed => cluster.notes.push(
                "the kind NodeTransition is not installed in this cluster; install it: kubectl apply -k manifests"
                    .to_owned(),
            ),
        }
        if let Some((_, why)) = unread.first() {
            let names: Vec<&str> = unread.iter().map(|(name, _)| *name).collect();
            cluster.notes.push(format!("may not be read: {} ({why}); ask for {ROLES}", names.join(", ")));
        }
        cluster
    }
}

fn show(versions: &Versions, format: Format) -> Result<(), Failure> {
    output::show(versions, format, || text(versions))
}

fn text(versions: &Versions) -> String {
    let mut out = format!("kubectl-hitless {}\n", versions.client);
    let Some(cluster) = &versions.cluster else { return out };
    // Writing to a String does not fail.
    if let Some(server) = &cluster.server {
        let _ = writeln!(out, "API server      {server}");
    }
    if let Some(controller) = &cluster.controller {
        let _ = writeln!(out, "controller      {controller}");
    }
    for (image, count) in &cluster.agents {
        let _ = writeln!(out, "agents          {count} with {image}");
    }
    for (version, count) in &cluster.agents_report {
        let _ = writeln!(out, "                {count} report version {version}");
    }
    for note in &cluster.notes {
        let _ = writeln!(out, "note: {note}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(image: &str) -> Seen<Option<Program>> {
        Seen::Known(Some(Program { image: image.to_owned(), wanted: 1, ready: 1 }))
    }

    fn pod(image: &str) -> AgentPod {
        AgentPod { node: "n1".to_owned(), ready: true, since: None, image: image.to_owned() }
    }

    #[test]
    fn images_and_versions_are_counted_and_an_update_is_named() {
        let cluster = Cluster::of(
            Seen::Known((1, 36, "v1.36.3".to_owned())),
            program("controller:2"),
            &program("agent:2"),
            Seen::Known(vec![pod("agent:2"), pod("agent:1"), pod("agent:1")]),
            Seen::Known(vec![("n1".to_owned(), Report { version: "0.1.0".to_owned(), features: Vec::new() })]),
        );
        let text = text(&Versions { client: "0.1.0".to_owned(), cluster: Some(cluster) });
        for line in [
            "v1.36.3",
            "controller:2",
            "2 with agent:1",
            "1 with agent:2",
            "1 report version 0.1.0",
            "being updated to agent:2",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }

    #[test]
    fn a_kind_that_is_not_there_is_no_missing_right() {
        let cluster = Cluster::of(
            Seen::Known((1, 36, "v1.36.3".to_owned())),
            program("controller:2"),
            &program("agent:2"),
            Seen::Known(Vec::new()),
            Seen::Known(None).served(),
        );
        assert_eq!(
            cluster.notes,
            ["the kind NodeTransition is not installed in this cluster; install it: kubectl apply -k manifests"]
        );
    }

    #[test]
    fn what_may_not_be_read_is_one_note_and_no_error() {
        let no = || "is forbidden".to_owned();
        let cluster = Cluster::of(
            Seen::Known((1, 36, "v1.36.3".to_owned())),
            Seen::Unread(no()),
            &Seen::Unread(no()),
            Seen::Unread(no()),
            Seen::Unread(no()),
        );
        assert_eq!(cluster.notes.len(), 1);
        assert!(cluster.notes[0].contains("the controller, the agents, what the agents report"), "{:?}", cluster.notes);
    }
}
