//! What the answer to a write means for the rounds after it. The simulation's controller asks this, too.

use std::ops::Add;
use std::time::Duration;

use hitless_runtime::write::WriteError;
use hitless_workloads::Write;
use jiff::Timestamp;

use super::memory::Memory;
use super::retries::Retries;

/// A write was answered: it has succeeded, or failed with this error. `now` is the time of people and that of waits.
pub fn answered<T>(
    write: &Write,
    answer: Result<(), &WriteError>,
    memory: &mut Memory,
    retries: &mut Retries<T>,
    (wall, now): (Timestamp, T),
) where
    T: Copy + Ord + Add<Duration, Output = T>,
{
    let key = write.key();
    match answer {
        Ok(()) => {
            retries.succeeded(&key);
            memory.certain(write);
        }
        Err(error) => {
            match error {
                WriteError::Transient { .. } => memory.uncertain(write),
                WriteError::Denied { message } | WriteError::Invalid { message } => {
                    memory.refused(write, message, wall);
                }
                WriteError::Conflict { .. } | WriteError::Gone { .. } => {}
            }
            retries.failed(&key, error, now);
        }
    }
}
