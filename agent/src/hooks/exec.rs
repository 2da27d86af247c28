//! One command in a container.

use std::path::Path;
use std::time::Duration;

use hitless_api::ExecHook;
use hitless_kernel::KernelError;
use hitless_kernel::exec::{ExecOrder, Executed, HELPER_FAILED, Node, execute, keep};
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::timeout;

use super::answer::{Verdict, of_exit_code};

/// So many bytes of what a command says are kept.
const LONGEST_OUTPUT: usize = 1024;
/// This program, as a helper.
const HELPER: &str = "/proc/self/exe";
/// How long a command that was ended may take to be gone, its helper being killed in the end.
const FAREWELL: Duration = Duration::from_secs(3);

/// Runs the hook's command in the container of the pod, for at most `limit`. A call that is given up ends the command.
pub(super) async fn call(
    hook: &ExecHook,
    pod_uid: &str,
    container_id: &str,
    key: String,
    limit: Duration,
    node: Node,
) -> (Verdict, String) {
    let order = ExecOrder {
        pod_uid: pod_uid.to_owned(),
        container_id: container_id.to_owned(),
        command: hook.command.clone(),
        operation: key,
        longest_output: LONGEST_OUTPUT,
    };
    let (keep, kept) = match keep() {
        Ok(pipe) => pipe,
        Err(error) => return (Verdict::Failed, format!("can't open a pipe: {error}")),
    };
    let mut running = spawn_blocking(move || execute(&node, Path::new(HELPER), &order, kept));
    if let Ok(ended) = timeout(limit, &mut running).await {
        return verdict(ended);
    }
    drop(keep);
    let said = match timeout(FAREWELL, running).await {
        Ok(Ok(Ok(Executed { output, .. }))) => output,
        Ok(Ok(Err(_)) | Err(_)) | Err(_) => String::new(),
    };
    (Verdict::Failed, format!("ended after {} s (timeoutSeconds): {}", limit.as_secs(), said.trim_end()))
}

fn verdict(ended: Result<Result<Executed, KernelError>, JoinError>) -> (Verdict, String) {
    match ended {
        Ok(Ok(Executed { code, output })) => {
            let (verdict, said) = (of_exit_code(code), output.trim_end());
            match verdict {
                Verdict::Failed if code != i32::from(HELPER_FAILED) => (verdict, format!("exit code {code}: {said}")),
                Verdict::Failed | Verdict::Go | Verdict::NotYet { .. } | Verdict::Never => (verdict, said.to_owned()),
            }
        }
        Ok(Err(error)) => (Verdict::Failed, error.to_string()),
        Err(error) => (Verdict::Failed, format!("the thread that runs it: {error}")),
    }
}
