//! What the pages of documentation show of commands that need no cluster is what these print.

use std::process::{Command, Stdio};

use hitless_pages::{pages, root};

const PROGRAM: &str = "kubectl hitless";

#[test]
fn consoles_of_the_pages_show_what_is_printed() {
    let mut count = 0;
    for page in pages().unwrap() {
        for fence in page.fences.iter().filter(|fence| fence.language() == "console") {
            let at = format!("{}:{}", page.path, fence.line);
            for step in fence.steps() {
                let words = step.words(PROGRAM);
                let words = words.unwrap_or_else(|| panic!("{at}: `{}` does not call {PROGRAM}", step.typed));
                let printed = Command::new(env!("CARGO_BIN_EXE_kubectl-hitless"))
                    .args(words)
                    .current_dir(root())
                    // Nobody's cluster.
                    .env("KUBECONFIG", "/dev/null")
                    .output()
                    .unwrap();
                let printed = [printed.stdout, printed.stderr].concat();
                let printed = String::from_utf8_lossy(&printed);
                assert!(step.shows(&printed), "{at}: `{}` prints\n{printed}\nand not\n{}", step.typed, step.printed);
                count += 1;
            }
        }
    }
    assert!(count >= 2, "{count} commands were run");
}

/// `kubectl hitless why web 2>&1 | head -1`: nobody reads what is said any more.
#[test]
fn a_closed_standard_error_changes_no_exit_code() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_kubectl-hitless"))
        .args(["status", "deployment/nope"])
        .env("KUBECONFIG", "/dev/null")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stderr.take());
    assert_eq!(child.wait().unwrap().code(), Some(1), "not killed by a signal");
}

#[test]
fn the_version_of_the_program_is_said_without_a_cluster() {
    let said = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-hitless"));
        let out = command.args(words).env("KUBECONFIG", "/nowhere/config").env_remove("HOME").output().unwrap();
        (String::from_utf8_lossy(&out.stdout).into_owned(), out.status.code())
    };
    let (of_client, code) = said(&["version", "--client"]);
    assert!(code == Some(0) && of_client.starts_with("kubectl-hitless ") && of_client.contains(" ("), "{of_client}");
    assert_eq!(said(&["version"]), (of_client.clone(), Some(1)), "and then why nothing is known of the cluster");
    let own = of_client.trim_start_matches("kubectl-hitless ");
    let (flag, code) = said(&["--version"]);
    assert!(code == Some(0) && flag.ends_with(own), "{flag}");
}
