//! The commands of this program that the pages of documentation name are commands of this program.

use clap::Parser as _;
use clap::error::ErrorKind;
use hitless_pages::{Command, pages};

use super::Arguments;

/// What a reader replaces.
const WORDS: [(&str, &str); 2] = [("N", "1"), ("NAME", "deployment")];

fn refused(command: &Command) -> Option<String> {
    let replaced = |word: &String| {
        let known = WORDS.iter().find(|(placeholder, _)| placeholder == word);
        known.map_or_else(|| word.clone(), |(_, value)| (*value).to_owned())
    };
    let words = command.words.iter().map(replaced);
    let error = Arguments::try_parse_from(["xtask".to_owned()].into_iter().chain(words)).err()?;
    // A verb that is only named leaves out what it needs.
    let is_in_part = matches!(
        error.kind(),
        ErrorKind::MissingRequiredArgument
            | ErrorKind::MissingSubcommand
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    let is_fine = is_in_part && !command.whole;
    (!is_fine).then(|| format!("{}: cargo xtask {}: {error}", command.at, command.words.join(" ")))
}

#[test]
fn every_command_of_the_pages_parses() {
    let pages = pages().unwrap();
    let commands: Vec<Command> = pages.iter().flat_map(|page| page.commands("cargo xtask")).collect();
    let wrong: Vec<String> = commands.iter().filter_map(refused).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(commands.len() > 30, "{}", commands.len());
}

#[test]
fn a_verb_that_is_not_there_is_found() {
    let command = |words: &str| {
        let words = words.split(' ').map(ToOwned::to_owned).collect();
        refused(&Command { at: String::new(), words, whole: false })
    };
    assert!(command("tset").is_some() && command("bench drain --fast").is_some());
    assert_eq!(command("test e2e NAME"), None);
}
