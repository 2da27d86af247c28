//! The tutorial's client as a process, with the tutorial's command line.

use std::process::ExitCode;

use hitless_load::worker::{Settings, work};
use tokio::task::JoinSet;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let settings = match Settings::parse(std::env::args().skip(1)) {
        Ok(settings) => settings,
        Err(error) => {
            eprintln!("tutorial-client: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut workers = JoinSet::new();
    for index in 0..settings.workers {
        let settings = settings.clone();
        workers.spawn(async move { work(index, &settings).await });
    }
    while workers.join_next().await.is_some() {}
    ExitCode::SUCCESS
}
