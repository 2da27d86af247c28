//! `kubectl hitless`: what operations run, what waits and why; restarts; waiting for a rollout.
//!
//! Reads with the user's own rights, and writes with them: annotations that ask for a restart, and earlier templates. What it says of rules and
//! workloads is the controller's own decision ([`hitless_rollout::round`]), made of what is seen from here.

mod adopt;
mod args;
mod cancel;
mod cleanup;
mod completion;
mod doctor;
mod explain;
mod failure;
mod files;
mod find;
mod follow;
mod forecast;
mod kubeconfig;
mod lint;
#[cfg(test)]
mod messages;
mod obstacle;
mod output;
mod pause;
mod plan;
mod restart;
#[cfg(test)]
mod scene;
mod select;
mod set_image;
mod snapshot;
mod source;
mod status;
mod trial;
mod undo;
mod version;
mod wait;
mod why;
mod write;

use std::io::ErrorKind;
use std::process::ExitCode;

use clap::Parser;
use hitless_runtime::config::Settings;
use kube::Client;

use crate::args::{Cli, ClusterArgs, Command, SetCommand};
use crate::failure::{Failure, USAGE};
use crate::kubeconfig::Requests;
use crate::output::{remark, say};
use crate::source::Scope;

fn main() -> ExitCode {
    if let Some(answer) = completion::by_kubectl(std::env::args()) {
        return if say(&answer).is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help is no error; a terminal that is gone is no reason to fail differently.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS };
        }
    };
    if let Err(error) = Settings::from_environment().obey_system_namespace() {
        remark(&format!("error: {error}"));
        return ExitCode::from(USAGE);
    }
    let result = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::from)
        .and_then(|runtime| runtime.block_on(run(cli)));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // `kubectl hitless status -w | head` is meant to end like this.
        Err(Failure::Output(error)) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(failure) => {
            remark(&format!("error: {failure}"));
            ExitCode::from(failure.code())
        }
    }
}

async fn run(cli: Cli) -> Result<(), Failure> {
    let cluster = &cli.cluster;
    // These need no cluster, if they are told so.
    match &cli.command {
        Command::Completion(arguments) => return say(completion::script(arguments.shell).trim_end()),
        Command::Explain(arguments) => return explain::run(arguments),
        Command::Version(arguments) if arguments.client => return version::of_client(arguments.output),
        Command::Version(arguments) => return version::run(connect(cluster), arguments.output).await,
        _ => {}
    }
    if let Command::Lint(arguments) = &cli.command {
        return lint::run(cluster, arguments).await;
    }
    if let Command::Plan(arguments) = &cli.command
        && !arguments.files.is_empty()
    {
        return plan::of_files(cluster.namespace.as_deref(), arguments);
    }
    if cluster.is_dry_run() {
        if matches!(&cli.command, Command::Restart(arguments) if arguments.wait) {
            let text = "with --dry-run nothing is restarted, so --wait would wait in vain; leave one of them out";
            return Err(Failure::Usage(text.to_owned()));
        }
        remark("server dry run: the API server checks what is written, and keeps nothing of it");
    }
    let client = connect(cluster).await?;
    let namespace = cluster.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
    match cli.command {
        Command::Status(arguments) => {
            let scope = if arguments.all_namespaces { Scope::All } else { Scope::Namespace(namespace) };
            status::run(client, scope, &arguments).await
        }
        Command::Restart(arguments) => restart::run(client, namespace, &arguments).await,
        Command::Set(arguments) => match arguments.what {
            SetCommand::Image(arguments) => set_image::run(client, namespace, &arguments).await,
        },
        Command::Pause(selection) => pause::pause(client, namespace, &selection).await,
        Command::Resume(selection) => pause::resume(client, namespace, &selection).await,
        Command::Cancel(arguments) => cancel::run(client, namespace, &arguments).await,
        Command::Wait(arguments) => wait::run(client, namespace, &arguments).await,
        Command::Undo(arguments) => undo::undo(client, namespace, &arguments).await,
        Command::Retry(arguments) => undo::retry(client, namespace, &arguments).await,
        Command::Why(arguments) => why::run(client, namespace, &arguments).await,
        Command::Plan(arguments) => plan::of_cluster(client, namespace, &arguments).await,
        Command::Adopt(arguments) => adopt::run(client, namespace, cluster.namespace.is_some(), &arguments).await,
        Command::Doctor(arguments) => doctor::run(client, &namespace, &arguments).await,
        Command::Cleanup(arguments) => {
            let scope = if arguments.all_namespaces { Scope::All } else { Scope::Namespace(namespace) };
            cleanup::run(client, &scope, arguments.yes).await
        }
        Command::Version(_) | Command::Lint(_) | Command::Explain(_) | Command::Completion(_) => Ok(()),
    }
}

/// To the cluster that the command line names, as whom it says.
pub(crate) async fn connect(cluster: &ClusterArgs) -> Result<Client, Failure> {
    let act_as = kubeconfig::ActAs { user: cluster.as_user.clone(), groups: cluster.as_groups.clone() };
    let requests =
        Requests { dry_run: cluster.is_dry_run(), timeout: cluster.request_timeout.filter(|time| !time.is_zero()) };
    Ok(kubeconfig::connect(cluster.kubeconfig.as_deref(), cluster.context.as_deref(), act_as, requests).await?)
}
