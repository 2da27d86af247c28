//! The commands that the pages of documentation name are commands of this program.

use std::collections::BTreeSet;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser as _};
use hitless_pages::{Command, pages};

use super::Cli;

/// Why it is refused, if it is. What stands within a line may leave out what it does not speak of.
fn refused(command: &Command) -> Option<String> {
    // What a reader replaces is a word; a number has to be one, and an image.
    let words = command.words.iter().map(|word| match word.as_str() {
        "N" => "1",
        "IMAGE" => "web:v1",
        "CONTAINER=IMAGE" => "web=web:v1",
        word => word,
    });
    let error = Cli::try_parse_from(["kubectl-hitless"].into_iter().chain(words)).err()?;
    let is_in_part = match error.kind() {
        ErrorKind::MissingRequiredArgument
        | ErrorKind::MissingSubcommand
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => !command.whole,
        ErrorKind::DisplayVersion => true,
        _ => false,
    };
    (!is_in_part).then(|| format!("{}: kubectl hitless {}: {error}", command.at, command.words.join(" ")))
}

#[test]
fn every_command_of_the_pages_parses() {
    let pages = pages().unwrap();
    let commands: Vec<Command> = pages.iter().flat_map(|page| page.commands("kubectl hitless")).collect();
    let wrong: Vec<String> = commands.iter().filter_map(refused).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(commands.len() > 60 && commands.iter().filter(|command| command.whole).count() >= 8, "{}", commands.len());
}

#[test]
fn the_page_of_the_commands_lists_every_verb_and_no_other() {
    let pages = pages().unwrap();
    let reference = pages.iter().find(|page| page.path == "docs/commands.md").unwrap();
    let mut listed = BTreeSet::new();
    for cell in &reference.first_cells["The commands"] {
        let words: Vec<String> =
            cell.text.split(['|', ' ']).map(|word| word.trim_matches(['[', ']', '…']).to_owned()).collect();
        listed.insert(words[0].clone());
        // As far as the next alternative, as the shell's parser would see it.
        let words = words.into_iter().filter(|word| !word.is_empty() && word != "POD").collect();
        let command = Command { at: format!("{}:{}", reference.path, cell.line), words, whole: false };
        assert_eq!(refused(&command), None);
    }
    let verbs: BTreeSet<String> = Cli::command().get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
    assert_eq!(listed, verbs);
}

#[test]
fn a_verb_or_a_flag_that_is_not_there_is_found() {
    let command = |words: &str, whole| {
        let words = words.split(' ').map(ToOwned::to_owned).collect();
        refused(&Command { at: String::new(), words, whole })
    };
    for wrong in ["statu", "status --wide", "why", "undo deployment/web --to-revision"] {
        assert!(command(wrong, true).is_some(), "{wrong}");
    }
    assert_eq!(command("why", false), None);
    assert!(command("why --because", false).is_some());
}
