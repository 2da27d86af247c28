//! What a container can do to the helper that runs a command in it, and what it sees of it.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use hitless_kernel::exec::{Executed, HELPER_FAILED, execute, keep};
use rustix::process::{Pid, Signal, kill_process};

use crate::exec::{agents_capabilities, helper, node, order, shell, with_only};
use crate::lab::container::{FIRST_USER, Shape};
use crate::lab::{Lab, eventually};
use crate::pause::{Pause, Paused, Seen, directory};

/// A helper that no other test runs.
fn own_helper(place: &Path) -> std::path::PathBuf {
    let own = place.join("own-helper");
    fs::copy(helper(), &own).unwrap();
    own
}

const SHAPES: [Shape; 2] = [
    Shape { has_own_user: false, has_fake_proc: false, memory: None },
    Shape { has_own_user: true, has_fake_proc: false, memory: None },
];

#[test]
fn the_container_sees_nothing_of_us_that_can_do_more_than_itself() {
    for shape in SHAPES {
        let Some(lab) = Lab::new() else { return };
        let container = lab.start_container_with(&shape);
        let place = tempfile::tempdir().unwrap();
        let (own, held) = (own_helper(place.path()), container.add_program("held"));
        let first = Seen(container.pids()[0]);
        let pause = Pause::at(&[&own, &held]);
        thread::scope(|scope| {
            let (_keep, kept) = keep().unwrap();
            let order = order(&lab, &["/held"]);
            let running =
                scope.spawn(|| with_only(agents_capabilities(), move || execute(&node(), &own, &order, kept).unwrap()));
            let begun = pause.next(20).unwrap();
            assert_eq!(begun.process.status("NSpid").len(), 1, "it has all rights, and is in the container");
            begun.go_on();

            // The helper itself, and its copy that is about to become the command.
            let paused = pause.next(20).unwrap();
            let command = &paused.process;
            let helper = command.parent();
            assert_eq!((command.status("NSpid").len(), helper.status("NSpid").len()), (2, 1));
            let user = if shape.has_own_user { FIRST_USER + 1000 } else { 1000 }.to_string();
            for process in [command, &helper] {
                assert_eq!(process.capabilities(), Vec::<&str>::new());
                assert_eq!(process.status("NoNewPrivs"), ["1"]);
                assert_eq!(process.status("Uid"), [user.as_str(); 4]);
                assert_eq!(process.status("Groups"), first.status("Groups"));
                assert_eq!(process.text("cgroup"), first.text("cgroup"));
                assert_eq!(process.text("oom_score_adj"), "500\n");
                let files = process.files();
                let is_harmless = |file: &String| file.starts_with("pipe:") || file.starts_with("socket:");
                // Whoever runs the tests may give files to all of their children.
                let known = first.files();
                assert!(files.iter().all(|file| is_harmless(file) || known.contains(file)), "{files:?}");
                assert_eq!(process.directory("root"), directory(container.root()));
                assert_eq!(process.directory("cwd"), directory(&container.root().join("work")));
            }
            // With `posix_spawn` the one would wait in the kernel for the other, and both would have one memory.
            assert_eq!(helper.status("State")[0], "S");
            assert!(!helper.has_memory_of(command), "who traces the one writes into the other");
            paused.go_on();
            assert_eq!(running.join().unwrap(), Executed { code: 0, output: String::new() });
        });
        assert!(pause.next(0).is_none(), "a helper was started once more");
    }
}

#[test]
fn what_a_container_has_in_the_place_of_proc_is_not_run() {
    for has_own_user in [false, true] {
        let Some(lab) = Lab::new() else { return };
        let container = lab.start_container_with(&Shape { has_own_user, has_fake_proc: true, memory: None });
        let Executed { code, output } = with_only(agents_capabilities(), || shell(&lab, "cat /marker"));
        assert_eq!((code, output.as_str()), (0, "here\n"));
        assert!(!container.root().join("taken").exists());
    }
}

#[test]
fn the_container_can_not_find_the_helper() {
    let Some(lab) = Lab::new() else { return };
    let _container = lab.start_container();
    let Executed { code, output } = shell(&lab, "echo $PPID; cat /proc/[0-9]*/comm");
    assert!(code == 0 && output.starts_with("0\n") && !output.contains("exec-helper"), "{code}: {output}");
}

/// Gives a call up whose command is about to be started, and returns how it ended.
fn give_up(lab: &Lab, hang: impl FnOnce(&Paused<'_>)) -> Executed {
    let container = lab.start_container();
    let place = tempfile::tempdir().unwrap();
    let (own, held) = (own_helper(place.path()), container.add_program("held"));
    let pause = Pause::at(&[&held]);
    thread::scope(|scope| {
        let (keep, kept) = keep().unwrap();
        let order = order(lab, &["/held"]);
        let running =
            scope.spawn(|| with_only(agents_capabilities(), move || execute(&node(), &own, &order, kept).unwrap()));
        let paused = pause.next(20).unwrap();
        hang(&paused);
        let (helper, command, begun) = (paused.process.parent(), Seen(paused.process.0), Instant::now());
        drop(keep);
        let executed = running.join().unwrap();
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        eventually("nobody is left", || (!helper.exists() && !command.exists()).then_some(()));
        executed
    })
}

/// As where the command is on a file system that does not answer: nobody but the agent can end it, which has another user.
#[test]
fn a_command_that_hangs_before_it_has_begun_is_ended() {
    let Some(lab) = Lab::new() else { return };
    let Executed { code, .. } = give_up(&lab, |_| {});
    // The helper may still see that, and be killed before it can say so.
    assert!([124, 128 + 9].contains(&code), "{code}");
}

#[test]
fn a_helper_that_hangs_is_killed_with_its_command() {
    let Some(lab) = Lab::new() else { return };
    let Executed { code, .. } = give_up(&lab, |paused| {
        let helper = Pid::from_raw(paused.process.parent().0.cast_signed()).unwrap();
        kill_process(helper, Signal::STOP).unwrap();
    });
    assert_eq!(code, 128 + 9);
}

#[test]
fn where_the_nodes_control_groups_are_not_to_be_had_no_command_is_run() {
    let Some(lab) = Lab::new() else { return };
    let _container = lab.start_container();
    let elsewhere = tempfile::tempdir().unwrap();
    let node = hitless_kernel::exec::Node { cgroup_root: elsewhere.path().to_owned(), ..node() };
    assert!(!hitless_kernel::exec::can_exec(&node));
    let (_keep, kept) = keep().unwrap();
    let Executed { code, output } = execute(&node, helper(), &order(&lab, &["echo", "run"]), kept).unwrap();
    assert_eq!(code, i32::from(HELPER_FAILED));
    assert!(output.starts_with("can't move into the container's control group \"/hk"), "{output}");
    assert!(output.contains("does not have this hierarchy (manifests/exec-hooks"), "{output}");
}
