//! Commands in a container with a root, namespaces and a user of its own.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use hitless_kernel::KernelError;
use hitless_kernel::exec::{ExecOrder, Executed, HELPER_FAILED, Node, can_exec, execute, keep};
use rustix::thread::{CapabilitySet, CapabilitySets, remove_capability_from_bounding_set, set_capabilities};

use crate::lab::{Lab, eventually};
use crate::proc_root;

/// This machine.
pub(crate) fn node() -> Node {
    Node::new(proc_root().to_owned(), "/sys/fs/cgroup".into())
}

pub(crate) fn order(lab: &Lab, command: &[&str]) -> ExecOrder {
    ExecOrder {
        pod_uid: lab.pod_uid.clone(),
        container_id: format!("containerd://{}", lab.container_id),
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        operation: "uid.hash/flush".to_owned(),
        longest_output: 1024,
    }
}

pub(crate) fn helper() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_exec-helper"))
}

fn run(lab: &Lab, command: &[&str]) -> Executed {
    let (_keep, kept) = keep().unwrap();
    execute(&node(), helper(), &order(lab, command), kept).unwrap()
}

pub(crate) fn shell(lab: &Lab, script: &str) -> Executed {
    run(lab, &["sh", "-c", script])
}

#[test]
fn a_command_is_in_the_container_as_its_user_and_has_no_rights() {
    let Some(lab) = Lab::new() else { return };
    let _container = lab.start_container();
    let Executed { code, output } = run(&lab, &["grep", "-E", "^(Uid|Gid|Groups|NoNewPrivs|Cap)", "/proc/self/status"]);
    assert_eq!(code, 0, "{output}");
    let status: BTreeMap<&str, Vec<&str>> = output
        .lines()
        .filter_map(|line| Some((line.split(':').next()?, line.split_whitespace().skip(1).collect())))
        .collect();
    assert_eq!(status["Uid"], ["1000"; 4]);
    assert_eq!(status["Gid"], ["1000"; 4]);
    assert_eq!(status["Groups"], ["1000", "2000"]);
    assert_eq!(status["NoNewPrivs"], ["1"]);
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(u64::from_str_radix(status[set][0], 16), Ok(0), "{set}");
    }
}

/// What the agent has, as its manifest and `manifests/exec-hooks` say.
pub(crate) fn agents_capabilities() -> CapabilitySet {
    CapabilitySet::SYS_ADMIN
        | CapabilitySet::SYS_PTRACE
        | CapabilitySet::DAC_READ_SEARCH
        | CapabilitySet::NET_ADMIN
        | CapabilitySet::NET_RAW
        | CapabilitySet::SYS_CHROOT
        | CapabilitySet::SETUID
        | CapabilitySet::SETGID
        | CapabilitySet::SETPCAP
        | CapabilitySet::KILL
}

/// As in a container with these capabilities: a program that root starts has no others either. On a thread of its own,
/// because capabilities belong to threads.
pub(crate) fn with_only<T: Send>(capabilities: CapabilitySet, run: impl FnOnce() -> T + Send) -> T {
    let limit_and_run = || {
        for capability in (0..u64::BITS).map(|number| CapabilitySet::from_bits_retain(1 << number)) {
            if !capabilities.contains(capability) {
                // The kernel does not know all of them.
                let _ = remove_capability_from_bounding_set(capability);
            }
        }
        let (effective, permitted) = (capabilities, capabilities);
        set_capabilities(None, CapabilitySets { effective, permitted, inheritable: CapabilitySet::empty() }).unwrap();
        run()
    };
    thread::scope(|scope| scope.spawn(limit_and_run).join().unwrap())
}

#[test]
fn the_agents_capabilities_are_enough_and_one_that_is_missing_is_named() {
    let Some(lab) = Lab::new() else { return };
    let _container = lab.start_container();
    let (has_all, executed) = with_only(agents_capabilities(), || (can_exec(&node()), shell(&lab, "cat /marker")));
    assert_eq!((has_all, executed.code, executed.output.as_str()), (true, 0, "here\n"));
    for (missing, name) in [
        (CapabilitySet::SYS_CHROOT, "CAP_SYS_CHROOT"),
        (CapabilitySet::SETUID, "CAP_SETUID"),
        (CapabilitySet::SETGID, "CAP_SETGID"),
        (CapabilitySet::SETPCAP, "CAP_SETPCAP"),
    ] {
        let run = || (can_exec(&node()), shell(&lab, "cat /marker"));
        let (has_all, Executed { code, output }) = with_only(agents_capabilities() - missing, run);
        assert_eq!((has_all, code), (false, i32::from(HELPER_FAILED)), "{output}");
        assert!(output.contains(name), "{output}");
    }
    // Only needed to end one that hangs.
    assert!(!with_only(agents_capabilities() - CapabilitySet::KILL, || can_exec(&node())));
}

/// Open files beside the three that every process hands on to its children: whoever started this one may have left some.
fn inherited() -> usize {
    const CLOSED_ON_EXEC: u32 = 0o2_000_000;
    let flags = |name: &str| {
        let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{name}")).ok()?;
        u32::from_str_radix(text.lines().find_map(|line| line.strip_prefix("flags:"))?.trim(), 8).ok()
    };
    let files =
        std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|file| file.unwrap().file_name().into_string().ok());
    let others = files.filter(|name| name.parse().is_ok_and(|number: u32| number > 2));
    others.filter(|name| flags(name).is_some_and(|flags| flags & CLOSED_ON_EXEC == 0)).count()
}

#[test]
fn a_command_sees_what_the_container_sees() {
    let Some(lab) = Lab::new() else { return };
    let _container = lab.start_container();
    let script =
        "cat /marker; pwd; hostname; echo $GREETING, $HITLESS_OPERATION; cat /proc/1/comm; ls /sys 2>&1 | head -1;
        ls /proc/self/fd | wc -l; wc -l < /proc/net/dev; readlink /proc/self/fd/0 | cut -d: -f1; cat; echo error >&2";
    let Executed { code, output } = shell(&lab, script);
    let lines: Vec<&str> = output.lines().map(str::trim).collect();
    let expected = [
        "here",
        "/work",
        "container",
        "good day, uid.hash/flush",
        "sleep",
        "ls: cannot access '/sys': No such file or directory",
        // The three, the directory that is listed, and what this process itself has inherited and can't close.
        &(4 + inherited()).to_string(),
        // Two lines of headings, and the loopback.
        "3",
        "pipe",
        "error",
    ];
    assert_eq!((code, lines.as_slice()), (0, expected.as_slice()));
}

#[test]
fn exit_codes_come_back_and_what_can_not_be_run_is_named() {
    let Some(lab) = Lab::new() else { return };
    let _container = lab.start_container();
    for expected in [0, 1, 75, 77] {
        assert_eq!(shell(&lab, &format!("exit {expected}")).code, expected);
    }
    assert_eq!(shell(&lab, "kill -9 $$").code, 128 + 9);
    let Executed { code, output } = run(&lab, &["no-such-program"]);
    assert_eq!(code, i32::from(HELPER_FAILED));
    assert!(output.starts_with("can't run \"no-such-program\" in the container: No such file"), "{output}");
    let mut elsewhere = order(&lab, &["true"]);
    elsewhere.container_id = "containerd://another".to_owned();
    let (_keep, kept) = keep().unwrap();
    let error = execute(&node(), helper(), &elsewhere, kept).unwrap_err();
    assert!(matches!(error, KernelError::ContainerNotFound { .. }), "{error}");
}

#[test]
fn only_the_end_of_a_long_output_is_kept() {
    let Some(lab) = Lab::new() else { return };
    let _container = lab.start_container();
    let Executed { code, output } = shell(&lab, "seq 200000");
    assert_eq!((code, output.len()), (0, 1024));
    assert!(output.ends_with("\n199999\n200000\n"), "{output}");
}

#[test]
fn when_nobody_waits_any_more_the_command_is_ended_with_its_whole_group() {
    let Some(lab) = Lab::new() else { return };
    let container = lab.start_container();
    let before = container.pids();
    let (keep, kept) = keep().unwrap();
    let begun = Instant::now();
    let executed = thread::scope(|scope| {
        let order = order(&lab, &["sh", "-c", "echo begun; sleep 1000 & sleep 1000"]);
        // The command has another user than the agent.
        let run = move || execute(&node(), helper(), &order, kept).unwrap();
        let running = scope.spawn(|| with_only(agents_capabilities(), run));
        let sleepers = || {
            let all = std::fs::read_dir("/proc")
                .unwrap()
                .filter_map(|entry| std::fs::read_to_string(entry.ok()?.path().join("environ")).ok());
            all.filter(|environment| environment.contains("HITLESS_OPERATION=uid.hash/flush")).count()
        };
        eventually("the command has begun", || (sleepers() >= 3).then_some(()));
        drop(keep);
        let executed = running.join().unwrap();
        eventually("nobody is left", || (sleepers() == 0).then_some(()));
        executed
    });
    assert_eq!((executed.code, executed.output.as_str()), (124, "begun\n"));
    assert!(begun.elapsed() < Duration::from_secs(20));
    // A process that was killed has lost its environment before it has left its control group.
    eventually("the container has its own processes only", || (container.pids() == before).then_some(()));
}

#[test]
fn who_leaves_the_group_does_not_keep_the_agent_waiting() {
    let Some(lab) = Lab::new() else { return };
    let _container = lab.start_container();
    let begun = Instant::now();
    let Executed { code, output } = shell(&lab, "setsid sleep 15 & echo done");
    assert_eq!((code, output.as_str()), (0, "done\n"));
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}
