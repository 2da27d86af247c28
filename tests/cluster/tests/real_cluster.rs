//! A real cluster, from nothing to nothing. Needs root.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::panic::catch_unwind;
use std::path::PathBuf;
use std::process::Command;

use hitless_cluster::image::{ImageSpec, from_dockerfile};
use hitless_cluster::{Cluster, Options, Place, Tools, UpOptions, count_writes, missing_requirements};
use jiff::Timestamp;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

const NAME: &str = "self-test";

#[test]
fn a_killed_up_is_repeated_a_pod_runs_a_dead_part_is_reported_and_down_leaves_nothing() {
    if !possible() {
        return;
    }
    Cluster::down(NAME).unwrap();
    is_interrupted();
    let begin = Timestamp::now();
    let cluster = up();
    assert!(!traces().is_empty(), "traces() must see a cluster that is there");

    runs_a_pod(&cluster);
    counts_writes(&cluster, begin);
    makes_commands_inside(&cluster);
    up().check().unwrap();
    reports_a_dead_part(&cluster);

    Cluster::down(NAME).unwrap();
    assert_eq!(traces(), Vec::<String>::new());
    assert!(Cluster::open(NAME).unwrap_err().to_string().contains("there is no cluster"));
}

fn options(nodes: u8) -> UpOptions {
    UpOptions { name: NAME.into(), nodes, options: Options::default() }
}

fn up() -> Cluster {
    Cluster::up(&options(1), &|line| eprintln!("{line}")).unwrap()
}

/// Leaves a cluster as an `up` does that is killed when the API server has just become ready.
fn is_interrupted() {
    let interrupted = catch_unwind(|| Cluster::up(&options(2), &|line| assert!(!line.contains("controllers"))));
    assert!(interrupted.is_err(), "`up` must say when it starts the controllers");
    assert!(traces().iter().any(|trace| trace.contains("kube-apiserver")));
    assert!(Cluster::open(NAME).unwrap_err().to_string().contains("half-made"));
}

/// The image is made from a Dockerfile's stage around `pause`, the one static program that is at hand.
fn runs_a_pod(cluster: &Cluster) {
    let pause = Tools::ensure(Options::default(), &|_| {}).unwrap().path("pause").unwrap();
    let dockerfile = "FROM scratch AS waiter\nCOPY --from=build /out/waiter /bin/waiter\nUSER 65532\n\
                      ENTRYPOINT [\"/bin/waiter\"]\n";
    let image = from_dockerfile(dockerfile, "waiter", |_| Some(pause.clone())).unwrap().build().unwrap();
    let reference = cluster.push_image("waiter:v1", &image).unwrap();
    assert!(reference.ends_with(image.digest()), "{reference}");
    cluster.kubectl(&["run", "waiter", "--image=waiter:v1"]).unwrap();
    cluster.kubectl(&["wait", "--for=condition=Ready", "pod/waiter", "--timeout=60s"]).unwrap();
    let id = ["get", "pod", "waiter", "-o", "jsonpath={.status.containerStatuses[0].imageID}"];
    let id = cluster.kubectl(&id).unwrap();
    assert!(id.ends_with(image.digest()), "a pulled image has the digest it was pushed with: {id}");
    // The same content again, beside another name, and a whole directory.
    assert_eq!(cluster.push_image("waiter:v1", &image).unwrap(), reference);
    let tree = ImageSpec::from_directory(pause.parent().unwrap()).unwrap().build().unwrap();
    assert!(cluster.push_image("team/tree:v1", &tree).unwrap().contains("/team/tree@sha256:"));
}

fn counts_writes(cluster: &Cluster, begin: Timestamp) {
    let counts = count_writes(&cluster.writes(begin).unwrap());
    let scheduled: usize = counts
        .iter()
        .filter(|row| row.user == "system:kube-scheduler" && row.resource == "pods/binding" && row.code == 201)
        .map(|row| row.count)
        .sum();
    assert_eq!(scheduled, 1, "{counts:?}");
    assert!(counts.iter().all(|row| row.verb != "get" && row.verb != "watch"), "{counts:?}");
}

fn makes_commands_inside(cluster: &Cluster) {
    let run = |command: &mut Command| {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let addresses = run(cluster.command(Place::ControlPlane, "ip").unwrap().args(["-brief", "address"]));
    assert!(addresses.contains("172.31.255.1/24") && !addresses.contains("172.31.255.11"), "{addresses}");
    let images = run(cluster.command(Place::Node(1), "ctr").unwrap().args(["-n", "k8s.io", "images", "ls", "-q"]));
    assert!(images.contains("waiter:v1"), "{images}");
    assert!(cluster.command(Place::Node(2), "true").unwrap_err().to_string().contains("not n2"));
    let interfaces = || fs::read_to_string("/proc/thread-self/net/dev");
    assert!(cluster.in_network(Place::Node(1), interfaces).unwrap().unwrap().contains("cni0"));
}

fn reports_a_dead_part(cluster: &Cluster) {
    let pid = cluster.process("kube-scheduler").unwrap();
    // It becomes readable when the last thread has ended; the status in `/proc` is the first thread's.
    let process = pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()).unwrap();
    pidfd_send_signal(&process, Signal::KILL).unwrap();
    poll(&mut [PollFd::new(&process, PollFlags::IN)], None).unwrap();
    let died = cluster.check().unwrap_err().to_string();
    assert!(died.starts_with("kube-scheduler has died"), "{died}");
    let listed = Cluster::list().unwrap().into_iter().find(|summary| summary.name == NAME).unwrap();
    assert_eq!(listed.dead.iter().map(|dead| dead.part.as_str()).collect::<Vec<_>>(), ["kube-scheduler"]);
    let failed = cluster.kubectl(&["get", "nonsense"]).unwrap_err().to_string();
    assert!(failed.starts_with("kube-scheduler has died"), "{failed}");
}

/// Whether a cluster can be made here. With `CI` set everything must be tested, so it is a failure if not.
fn possible() -> bool {
    let missing = missing_requirements();
    let list: Vec<String> = missing.iter().map(|missing| format!("{} ({})", missing.what, missing.why)).collect();
    assert!(missing.is_empty() || std::env::var_os("CI").is_none(), "CI is set, but this is missing: {list:?}");
    if !missing.is_empty() {
        eprintln!("left out, because this is missing: {}", list.join(", "));
    }
    missing.is_empty()
}

/// Processes, mounts, network namespaces and cgroups that carry the cluster's name.
fn traces() -> Vec<String> {
    let directory = format!("/clusters/{NAME}/");
    let namespace = format!("/hitless.{NAME}.");
    let cgroup = format!("/hitless/{NAME}/");
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        // Gone between the listing and the look: then it leaves no trace.
        let read = |name| String::from_utf8_lossy(&fs::read(entry.path().join(name)).unwrap_or_default()).into_owned();
        let command_line = read("cmdline").replace('\0', " ");
        // One that has ended and is not yet waited for by init is no process any more.
        let ended = read("status").contains("State:\tZ");
        if !ended && (command_line.contains(&directory) || read("cgroup").contains(&cgroup)) {
            found.push(format!("process {command_line}"));
        }
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    found.extend(
        mounts.lines().filter(|line| line.contains(&directory) || line.contains(&namespace)).map(str::to_owned),
    );
    let namespaces = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    found.extend(namespaces.map(|entry| entry.path().display().to_string()).filter(|path| path.contains(&namespace)));
    found.extend(cgroups(PathBuf::from("/sys/fs/cgroup"), 3).iter().map(|path| path.display().to_string()));
    found
}

/// The cluster's cgroups, at most so many levels down.
fn cgroups(directory: PathBuf, levels: u8) -> Vec<PathBuf> {
    if directory.ends_with(format!("hitless/{NAME}")) {
        return vec![directory];
    }
    let below = fs::read_dir(&directory).into_iter().flatten().flatten().filter(|_| levels > 0);
    let below = below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    below.flat_map(|entry| cgroups(entry.path(), levels - 1)).collect()
}
