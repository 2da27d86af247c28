//! The page docs/cli.md: every command with its arguments and options, as `--help` has them.

use std::fmt::Write as _;

use clap::{Arg, Command, CommandFactory as _};
use hitless_pages::is_kept;

use super::Cli;

/// Where it goes.
const PAGE: &str = "docs/cli.md";
const HEAD: &str = "# Every option of the plugin

<!-- Made from cli/src/args by `cargo xtask generate`. Do not edit. -->

What `--help` says of each command. What the commands are for: [commands](commands.md); what they print: [messages](messages.md).
";

fn page() -> String {
    let mut root = Cli::command();
    root.build();
    let mut page = HEAD.to_owned();
    let globals: Vec<&Arg> = root.get_arguments().filter(|arg| arg.is_global_set()).collect();
    let _ = write!(page, "\n## Options of all commands\n\n{}", table(globals.iter().copied()));
    for verb in root.get_subcommands().filter(|verb| verb.get_name() != "help") {
        section(&mut page, verb, &format!("kubectl hitless {}", verb.get_name()));
    }
    page
}

fn section(page: &mut String, verb: &Command, name: &str) {
    let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
    let usage = verb.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").trim();
    let _ = write!(page, "\n## {name}\n\n{about}.\n\n```text\n{usage}\n```\n", about = about.trim_end_matches('.'));
    let own = || verb.get_arguments().filter(|arg| !arg.is_global_set() && !arg.is_hide_set());
    if own().next().is_some() {
        let _ = write!(page, "\n{}", table(own()));
    }
    for more in verb.get_subcommands().filter(|more| more.get_name() != "help") {
        section(page, more, &format!("{name} {}", more.get_name()));
    }
}

fn table<'a>(args: impl Iterator<Item = &'a Arg>) -> String {
    let mut table = String::from("| Option | What it does |\n| --- | --- |\n");
    for arg in args.filter(|arg| !["help", "version"].contains(&arg.get_id().as_str())) {
        let _ = writeln!(table, "| {} | {} |", spelled(arg), meant(arg));
    }
    table
}

/// Such as `-n`, `--namespace NAMESPACE`.
fn spelled(arg: &Arg) -> String {
    let values = arg.get_value_names().filter(|_| arg.get_action().takes_values()).unwrap_or_default();
    let values: Vec<&str> = values.iter().map(clap::builder::Str::as_str).collect();
    if arg.is_positional() {
        return format!("`{}`", values.join(" "));
    }
    let short = arg.get_short().map(|short| format!("`-{short}`, ")).unwrap_or_default();
    let long = arg.get_long().unwrap_or_default();
    let words = std::iter::once(format!("--{long}")).chain(values.into_iter().map(str::to_owned));
    format!("{short}`{}`", words.collect::<Vec<_>>().join(" "))
}

/// Its help, its values and its default.
fn meant(arg: &Arg) -> String {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default().replace('|', "\\|").replace('\n', " ");
    let possible: Vec<String> =
        arg.get_possible_values().iter().map(|value| format!("`{}`", value.get_name())).collect();
    let defaults: Vec<String> =
        arg.get_default_values().iter().map(|value| format!("`{}`", value.to_string_lossy())).collect();
    let takes = arg.get_action().takes_values();
    let mut text = help;
    if takes && !possible.is_empty() {
        let _ = write!(text, ": {}", possible.join(", "));
    }
    if takes && !defaults.is_empty() {
        let _ = write!(text, " (default {})", defaults.join(", "));
    }
    text
}

#[test]
fn the_page_of_options_is_what_help_says() {
    let made = page();
    assert!(
        is_kept(PAGE, &made).unwrap(),
        "{PAGE} is not what the commands say of themselves; run: cargo xtask generate"
    );
}
