//! The page docs/messages.md: what `status`, `why` and `wait` say in the situations that people meet, made by their own code from
//! pictures of a cluster.

mod scenes;

use std::fmt::Write as _;

use clap::Parser as _;
use hitless_pages::is_kept;
use jiff::Timestamp;

use crate::args::Target;
use crate::status::{self, State};
use crate::wait;
use crate::why;
use scenes::Scene;

/// Where it goes.
const PAGE: &str = "docs/messages.md";
const HEAD: &str = "# What is said in which situation

<!-- Made from cli/src/messages by `cargo xtask generate`. Do not edit. -->

What `kubectl hitless status`, `why` and `wait` print about Deployment `web` of namespace `team` while its pods go from `web:v1` to `web:v2`. The commands made
this page themselves, from pictures of a cluster, and a test compares it. `wait` prints a line whenever something has changed; the one here is the last. Exit
codes: 0 done, 1 failed, 3 blocked so that waiting alone does not help, 4 out of time.
";

fn now() -> Timestamp {
    "2026-01-01T00:00:30Z".parse().unwrap()
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    for scene in scenes::all() {
        let _ = write!(page, "\n## {}\n\n{}\n\n```text\n{}```\n", scene.title, scene.what, said(&scene));
    }
    page
}

/// What the three commands print, each with its exit code.
fn said(scene: &Scene) -> String {
    let mut out = String::from("$ kubectl hitless status\n");
    for note in scene.snapshot.notes() {
        let _ = writeln!(out, "note: {note}");
    }
    out += &status::shown(&scene.snapshot, now());
    let _ = writeln!(out, "\n$ kubectl hitless why {}", scene.asked);
    let answer = why::explain(&scene.snapshot, &scene.asked.parse().unwrap(), now()).unwrap();
    out += &why::render(&answer);
    end(&mut out, why::verdict(answer.blocked()));
    let target: Target = "deployment/web".parse().unwrap();
    let _ = writeln!(out, "\n$ kubectl hitless wait {target}");
    let workload = wait::find(&scene.snapshot, &target, now()).unwrap();
    let _ = writeln!(out, "{}", wait::summary(&workload));
    match wait::done(&workload) {
        Ok(true) => end(&mut out, Ok(())),
        Err(failure) => end(&mut out, Err(failure)),
        Ok(false) => {
            if let Some(trouble) = scene.snapshot.controller.trouble() {
                let _ = writeln!(out, "note: {trouble}");
            }
            let left = workload.pods.iter().filter(|pod| pod.state != State::UpToDate);
            let late = || wait::late(&target.to_string(), &workload.arguments(), left);
            let stuck = wait::stuck(&workload);
            let when = if stuck.is_some() { "for 5 seconds" } else { "until its time is over" };
            let _ = writeln!(out, "… and if nothing changes {when}:");
            end(&mut out, Err(wait::with_trouble(stuck.unwrap_or_else(late), &scene.snapshot)));
        }
    }
    out
}

fn end(out: &mut String, result: Result<(), crate::failure::Failure>) {
    let code = match result {
        Ok(()) => 0,
        Err(failure) => {
            let _ = writeln!(out, "error: {failure}");
            failure.code()
        }
    };
    let _ = writeln!(out, "(exit code {code})");
}

#[test]
fn the_page_of_messages_is_what_the_commands_say() {
    let made = page();
    assert!(is_kept(PAGE, &made).unwrap(), "{PAGE} is not what the commands say; run: cargo xtask generate\n{made}");
}

/// What people are promised in each of these situations, whatever the words are.
#[test]
fn nothing_to_do_is_no_error_and_somebody_to_act_is_one() {
    for scene in scenes::all() {
        let said = said(&scene);
        let codes: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("(exit code ")).collect();
        assert_eq!(codes, scene.codes.map(|code| format!("{code})")), "{}:\n{said}", scene.title);
        for words in scene.words {
            assert!(said.contains(words), "{}: {words:?} is not in\n{said}", scene.title);
        }
    }
}

/// The commands in a text of ours: each ends where its words do.
fn commands(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("kubectl ").map(|(at, _)| {
        let rest = &text[at..];
        rest.split([';', ',', '(', ')', '\n']).next().unwrap_or(rest).trim()
    })
}

#[test]
fn every_command_that_is_named_can_be_pasted() {
    let mut hitless = 0;
    for scene in scenes::all() {
        let said = said(&scene);
        for command in said.lines().filter(|line| !line.starts_with("$ ")).flat_map(commands) {
            // The doctor looks at the cluster, and of our own namespace there is one.
            let is_ours = !command.contains(" -n hitless-system ") && command != "kubectl hitless doctor";
            assert!(!is_ours || command.contains(" -n team "), "{}: {command} names no namespace", scene.title);
            let words: Vec<&str> = command.split(' ').collect();
            assert!(!words.iter().any(|word| word.contains("NAME") || *word == "N"), "{command} has a placeholder");
            if let ["kubectl", "hitless", line @ ..] = words.as_slice() {
                let line = ["kubectl-hitless"].iter().chain(line);
                assert!(crate::args::Cli::try_parse_from(line).is_ok(), "{}: {command} is no command", scene.title);
                hitless += 1;
            }
        }
    }
    assert!(hitless > 5, "only {hitless} were found");
}
