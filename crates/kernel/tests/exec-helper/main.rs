//! The helper that enters containers, as the agent is it when it is called so.

use std::process::ExitCode;

use hitless_kernel::exec::{HELPER, helper};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == HELPER) { helper(arguments) } else { ExitCode::FAILURE }
}
