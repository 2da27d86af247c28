//! The container's limits are those of the command.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use hitless_kernel::Pid;
use hitless_kernel::exec::{Executed, HELPER_FAILED, Node, execute, keep};

use crate::exec::{agents_capabilities, helper, node, order, shell, with_only};
use crate::lab::container::{Shape, can_limit_memory};
use crate::lab::{Lab, eventually};

#[test]
fn a_command_is_in_the_containers_control_groups() {
    let Some(lab) = Lab::new() else { return };
    let _container = lab.start_container();
    let Executed { code, output } =
        with_only(agents_capabilities(), || shell(&lab, "cat /proc/self/cgroup; cat /proc/self/oom_score_adj"));
    let group = format!("/pod{}/{}", lab.pod_uid, lab.container_id);
    assert!(output.lines().any(|line| line.ends_with(&group)), "{output}");
    assert_eq!((code, output.lines().last()), (0, Some("500")), "{output}");
}

#[test]
fn who_takes_more_memory_than_the_container_has_is_killed_and_not_the_caller() {
    let Some(lab) = Lab::new() else { return };
    if !can_limit_memory() {
        assert!(std::env::var_os("CI").is_none(), "this test limits memory, and CI is set");
        eprintln!("left out: no memory control groups can be made here");
        return;
    }
    let container = lab.start_container_with(&Shape { memory: Some(64 * 1024 * 1024), ..Shape::default() });
    // `tail` keeps all of it.
    let script = "head -c 200000000 /dev/zero | tail -c 199999999 | wc -c; echo survived";
    let Executed { output, .. } = with_only(agents_capabilities(), || shell(&lab, script));
    assert!(!output.contains("199999999"), "it had as much as it wanted: {output}");
    assert!(container.killed_for_memory() >= 1, "{output}");
}

/// As an agent is where containers have control group namespaces: in a group of its own, from which others look like `/../…`.
#[test]
fn an_agent_with_a_control_group_namespace_finds_the_way() {
    let Some(lab) = Lab::new() else { return };
    let container = lab.start_container();
    let own_group = container.cgroup.ancestors().nth(2).unwrap().join("agent");
    fs::create_dir(&own_group).unwrap();
    let place = tempfile::tempdir().unwrap();
    let enclosed = place.path().join("enclosed");
    let (members, helper) = (own_group.join("cgroup.procs"), helper().display());
    let script = format!("#!/bin/sh\necho $$ > {} && exec unshare --cgroup -- {helper} \"$@\"\n", members.display());
    fs::write(&enclosed, script).unwrap();
    fs::set_permissions(&enclosed, fs::Permissions::from_mode(0o755)).unwrap();
    let run = |node: &Node, helper: &Path| {
        let (_keep, kept) = keep().unwrap();
        execute(node, helper, &order(&lab, &["cat", "/proc/self/cgroup"]), kept).unwrap()
    };

    let mut outside = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    let Executed { code, output } = run(&Node { first: Pid::from_child(&outside), ..node() }, &enclosed);
    let group = format!("/pod{}/{}", lab.pod_uid, lab.container_id);
    assert!(code == 0 && output.lines().any(|line| line.ends_with(&group)), "{code}: {output}");
    outside.kill().unwrap();
    outside.wait().unwrap();

    // That process is gone.
    let Executed { code, output } = run(&Node { first: Pid::from_child(&outside), ..node() }, &enclosed);
    assert_eq!(code, i32::from(HELPER_FAILED));
    for words in
        ["it is outside of what is seen from here", "(hostPID, CAP_SYS_ADMIN and CAP_SYS_PTRACE are needed): No such"]
    {
        assert!(output.contains(words), "{output}");
    }
    eventually("the agent's group is empty", || fs::remove_dir(&own_group).ok());
}
