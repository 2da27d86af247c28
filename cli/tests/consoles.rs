//! What the pages of documentation show of commands that need no cluster is what these print.

use std::process::Command;

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
