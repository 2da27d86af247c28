//! `kubectl hitless completion`: for the shells, and for kubectl itself, which asks a program `kubectl_complete-hitless`.

use std::path::Path;

use clap::{Arg, Command, CommandFactory};
use clap_complete::Shell;

use crate::args::{Cli, target_words};

/// Under this name kubectl asks this program what could come next.
const BY_KUBECTL: &str = "kubectl_complete-hitless";
/// Cobra's directives (spf13/cobra, completions.go): nothing special; no space behind the word; no names of files.
const DEFAULT: u8 = 0;
const NO_SPACE: u8 = 2;
const NO_FILES: u8 = 4;

/// The script of a shell.
pub(crate) fn script(shell: Shell) -> String {
    let mut out = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "kubectl-hitless", &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// What kubectl is told, if it was kubectl that asked.
pub(crate) fn by_kubectl(mut arguments: impl Iterator<Item = String>) -> Option<String> {
    let program = arguments.next()?;
    let is_asked = Path::new(&program).file_name().is_some_and(|name| name == BY_KUBECTL);
    is_asked.then(|| answer(&arguments.collect::<Vec<_>>()))
}

/// One candidate a line, then the directive. The last word is the one that is being written.
fn answer(words: &[String]) -> String {
    let (last, before) = words.split_last().map_or(("", [].as_slice()), |(last, before)| (last.as_str(), before));
    let root = Cli::command();
    let command = before.iter().fold(&root, |command, word| command.find_subcommand(word).unwrap_or(command));
    let previous = before.last().map(String::as_str);
    if let Some(argument) = previous.and_then(|word| takes_value(&root, command, word)) {
        let values: Vec<String> =
            argument.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
        let directive = if values.is_empty() { DEFAULT } else { NO_FILES };
        return lines(values, last, directive);
    }
    if last.starts_with('-') {
        let flags = command.get_arguments().chain(root.get_arguments());
        return lines(
            flags.filter_map(|flag| flag.get_long()).map(|long| format!("--{long}")).collect(),
            last,
            NO_FILES,
        );
    }
    let commands: Vec<String> =
        command.get_subcommands().filter(|each| !each.is_hide_set()).map(|each| each.get_name().to_owned()).collect();
    if !commands.is_empty() {
        return lines(commands, last, NO_FILES);
    }
    let is_target = |argument: &&Arg| matches!(argument.get_id().as_str(), "target" | "targets" | "workload");
    let positionals: Vec<&Arg> = command.get_positionals().collect();
    if positionals.iter().any(is_target) && !last.contains('/') {
        return lines(target_words(), last, NO_SPACE | NO_FILES);
    }
    let values = positionals.iter().flat_map(|argument| argument.get_possible_values());
    let values: Vec<String> = values.map(|value| value.get_name().to_owned()).collect();
    let directive = if values.is_empty() { DEFAULT } else { NO_FILES };
    lines(values, last, directive)
}

/// The argument that the word before wants a value for.
fn takes_value<'c>(root: &'c Command, command: &'c Command, word: &str) -> Option<&'c Arg> {
    let mut all = command.get_arguments().chain(root.get_arguments());
    all.find(|argument| {
        let long = argument.get_long().is_some_and(|long| word.strip_prefix("--") == Some(long));
        let short =
            argument.get_short().is_some_and(|short| word.strip_prefix('-') == Some(short.to_string().as_str()));
        (long || short) && argument.get_action().takes_values()
    })
}

fn lines(candidates: Vec<String>, begin: &str, directive: u8) -> String {
    let mut fitting: Vec<String> = candidates.into_iter().filter(|candidate| candidate.starts_with(begin)).collect();
    fitting.dedup();
    fitting.push(format!(":{directive}"));
    fitting.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(words: &[&str]) -> String {
        let all = ["/usr/local/bin/kubectl_complete-hitless"].iter().chain(words).map(|word| (*word).to_owned());
        by_kubectl(all).unwrap()
    }

    #[test]
    fn kubectl_is_told_commands_flags_kinds_and_values() {
        assert_eq!(asked(&["pa"]), "pause\n:4");
        assert_eq!(asked(&["set", ""]), "image\n:4");
        assert!(asked(&["status", "--no"]).contains("--no-headers"), "{}", asked(&["status", "--no"]));
        assert_eq!(asked(&["wait", "st"]), "statefulset/\nsts/\n:6");
        assert!(asked(&["wait", "stat"]).starts_with("statefulset/\n"), "{}", asked(&["wait", "stat"]));
        assert!(asked(&["status", "-o", ""]).contains("yaml\n"), "{}", asked(&["status", "-o", ""]));
        assert_eq!(asked(&["-n", ""]), ":0", "names of namespaces are not known here");
        assert_eq!(by_kubectl(["kubectl-hitless".to_owned(), "pa".to_owned()].into_iter()), None);
    }

    #[test]
    fn every_shell_has_a_script_that_knows_the_commands() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = script(shell);
            assert!(script.contains("pause") && script.contains("doctor"), "{shell}");
        }
    }
}
