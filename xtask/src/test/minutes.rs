//! Runs the steps of the tests, several at a time, and keeps what each of them took.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use hitless_e2e::build::workspace;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use super::pressure::{Pressure, Resource, Share};
use super::space::Space;

/// What became of all steps.
pub(super) struct Minutes {
    begin: Instant,
    /// The machine's processor time when the first step began.
    machine: Option<Machine>,
    rows: Mutex<Vec<Row>>,
    /// What is told at the very end of a run that has failed.
    notes: Mutex<Vec<String>>,
    /// Held by who prints more than a line.
    printing: Mutex<()>,
}

struct Row {
    name: String,
    from: Duration,
    wall: Duration,
    /// Of its processes; none where a step has none of its own.
    processor: Option<Duration>,
    /// How busy the machine was meanwhile, where the kernel tells.
    busy: Option<Share>,
    /// For which share of the time some process waited for a disk.
    disk: Option<Share>,
    /// What was left on the disk at its end.
    left: Option<Space>,
    outcome: Outcome,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
    /// It failed on a busy machine, and another row says what became of it alone.
    SetAside,
}

/// Processor time of all processes since the machine's start, and what it might have been.
#[derive(Clone, Copy)]
struct Machine {
    busy: Duration,
    all: Duration,
}

/// When a step began, and how busy the machine had been by then.
#[derive(Clone, Copy)]
struct Begin {
    at: Instant,
    processor: Option<Pressure>,
    disk: Option<Pressure>,
}

impl Begin {
    fn now() -> Self {
        let [processor, disk] = [Resource::Processor, Resource::Disk].map(Pressure::now);
        Self { at: Instant::now(), processor, disk }
    }
}

/// Where the output of a step goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Output {
    /// To the terminal, as it comes.
    Shown,
    /// Into a file, and to the terminal when the step has ended: others run beside it.
    Kept,
}

impl Minutes {
    pub(super) fn start() -> Self {
        Self {
            begin: Instant::now(),
            machine: Machine::now(),
            rows: Mutex::new(Vec::new()),
            notes: Mutex::new(Vec::new()),
            printing: Mutex::new(()),
        }
    }

    /// Runs one command, and fails if it does.
    pub(super) fn step(&self, name: &str, output: Output, command: &mut Command) -> anyhow::Result<()> {
        self.say(&format!("\n== {name}"));
        let begin = Begin::now();
        let ended = self.ended(name, output, command);
        let processor = ended.as_ref().ok().and_then(|(_, processor)| *processor);
        let outcome = ended.and_then(|(status, _)| {
            ensure!(status.success(), "{name} failed with {status}");
            Ok(())
        });
        self.keep(name, begin, processor, outcome.is_err());
        outcome
    }

    /// Does something in this process.
    pub(super) fn work<T>(&self, name: &str, work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
        self.say(&format!("\n== {name}"));
        let begin = Begin::now();
        let outcome = work().with_context(|| name.to_owned());
        self.keep(name, begin, None, outcome.is_err());
        outcome
    }

    /// Prints one line, not into another step's output.
    pub(super) fn say(&self, line: &str) {
        let _printing = lock(&self.printing);
        eprintln!("{line}");
    }

    /// Remembers a line for the end of a run that fails: who reads a log of an hour begins there.
    pub(super) fn note(&self, line: String) {
        lock(&self.notes).push(line);
    }

    /// These lines.
    pub(super) fn notes(&self) -> Vec<String> {
        lock(&self.notes).clone()
    }

    /// The names of what has failed.
    pub(super) fn failed(&self) -> Vec<String> {
        self.names(|row| row.outcome == Outcome::Failed)
    }

    /// The names of what has failed on a busy machine and ran once more.
    pub(super) fn set_aside_of_all(&self) -> Vec<String> {
        self.names(|row| row.outcome == Outcome::SetAside)
    }

    fn names(&self, is: impl Fn(&Row) -> bool) -> Vec<String> {
        lock(&self.rows).iter().filter(|row| is(row)).map(|row| row.name.clone()).collect()
    }

    /// Whether a step of this name failed while the machine was busy.
    pub(super) fn was_disturbed(&self, name: &str) -> bool {
        let is_busy = |row: &Row| row.busy.is_some_and(Share::is_busy);
        lock(&self.rows).iter().any(|row| row.name == name && row.outcome == Outcome::Failed && is_busy(row))
    }

    /// The failure of this step does not decide: it runs once more.
    pub(super) fn set_aside(&self, name: &str) {
        for row in lock(&self.rows).iter_mut().filter(|row| row.name == name && row.outcome == Outcome::Failed) {
            row.outcome = Outcome::SetAside;
        }
    }

    /// One line a step, in the order in which they began.
    pub(super) fn table(&self) -> String {
        let mut rows = lock(&self.rows);
        rows.sort_by_key(|row| row.from);
        let wide = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or_default().max("step".len());
        let mut table = format!(
            "| {:<wide$} | {:>6} | {:>6} | {:>11} | {:>6} | {:>6} | {:>7} |\n",
            "step", "from", "s", "processor s", "busy %", "disk %", "GB left"
        );
        let _ = writeln!(
            table,
            "| {:-<wide$} | {:->5}: | {:->5}: | {:->10}: | {:->5}: | {:->5}: | {:->6}: |",
            "", "", "", "", "", "", ""
        );
        for row in rows.iter() {
            let seconds = row.from.as_secs();
            let from = format!("{}:{:02}", seconds / 60, seconds % 60);
            let processor = row.processor.map_or_else(|| "–".to_owned(), |time| format!("{:.0}", time.as_secs_f64()));
            let percent = |share: Option<Share>| share.map_or_else(|| "–".to_owned(), Share::percent);
            let (busy, disk) = (percent(row.busy), percent(row.disk));
            let left = row.left.map_or_else(|| "–".to_owned(), Space::gigabytes);
            let failed = match row.outcome {
                Outcome::Passed => "",
                Outcome::Failed => " FAILED",
                Outcome::SetAside => " FAILED, runs once more",
            };
            let _ = writeln!(
                table,
                "| {:<wide$} | {from:>6} | {:>6.0} | {processor:>11} | {busy:>6} | {disk:>6} | {left:>7} |{failed}",
                row.name,
                row.wall.as_secs_f64()
            );
        }
        let _ = write!(table, "{:.1} minutes", self.begin.elapsed().as_secs_f64() / 60.0);
        if let (Some(before), Some(now)) = (self.machine, Machine::now()) {
            let minutes = |now: Duration, before: Duration| now.saturating_sub(before).as_secs_f64() / 60.0;
            let (busy, all) = (minutes(now.busy, before.busy), minutes(now.all, before.all));
            let _ = write!(table, "; of the machine's {all:.1} processor minutes {busy:.1} were used, by whomever");
        }
        table
    }

    fn keep(&self, name: &str, begin: Begin, processor: Option<Duration>, failed: bool) {
        let wall = begin.at.elapsed();
        let (busy, disk) = (begin.processor.and_then(Pressure::since), begin.disk.and_then(Pressure::since));
        let word = if failed { "FAILED after" } else { "done in" };
        self.say(&format!("== {name}: {word} {:.0} s", wall.as_secs_f64()));
        let from = begin.at.saturating_duration_since(self.begin);
        let outcome = if failed { Outcome::Failed } else { Outcome::Passed };
        let left = Space::left().ok();
        lock(&self.rows).push(Row { name: name.to_owned(), from, wall, processor, busy, disk, left, outcome });
    }

    fn ended(
        &self,
        name: &str,
        output: Output,
        command: &mut Command,
    ) -> anyhow::Result<(ExitStatus, Option<Duration>)> {
        if output == Output::Shown {
            return ended(command).with_context(|| name.to_owned());
        }
        let path = log(name)?;
        let file = File::create(&path).with_context(|| format!("create {}", path.display()))?;
        command.stdin(Stdio::null()).stderr(file.try_clone()?).stdout(file);
        let ended = ended(command).with_context(|| name.to_owned());
        let _printing = lock(&self.printing);
        eprintln!("\n== output of {name}");
        // Test results go where `cargo test` has them.
        io::copy(&mut File::open(&path)?, &mut io::stdout())?;
        io::stdout().flush()?;
        ended
    }
}

/// Runs `program` below others. Whoever asks for a processor at a lower level gets it first.
pub(super) fn below(level: u8, program: &str) -> Command {
    let mut command = Command::new("nice");
    command.args(["-n", &level.to_string(), program]);
    command
}

/// Runs `program` while nobody else asks for its processor.
///
/// Not by a nice value: at the lowest one, too, what wakes up may wait for a slice of the other's time. Source: sched(7), `SCHED_IDLE`.
pub(super) fn idle(program: &str) -> Command {
    let mut command = Command::new("chrt");
    command.args(["--idle", "0", program]);
    command
}

/// The file for what a step says, named after it.
pub(super) fn log(name: &str) -> anyhow::Result<PathBuf> {
    let directory = workspace().join("target/xtask-test");
    fs::create_dir_all(&directory).with_context(|| format!("create {}", directory.display()))?;
    let name: String = name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' }).collect();
    Ok(directory.join(format!("{name}.log")))
}

fn ended(command: &mut Command) -> anyhow::Result<(ExitStatus, Option<Duration>)> {
    let mut child = command.spawn()?;
    let processor = processor_time(&child);
    Ok((child.wait()?, processor))
}

/// Waits until a process has ended and returns what it has used, with all of its own processes that it waited for.
fn processor_time(child: &Child) -> Option<Duration> {
    let pid = Pid::from_child(child);
    // It stays as a zombie, which still has a file in /proc, until its status is asked for.
    waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).ok()?;
    own_and_waited_for(&fs::read_to_string(format!("/proc/{}/stat", child.id())).ok()?)
}

/// utime, stime, cutime and cstime of a `/proc/<pid>/stat`. A name may contain anything, so they are counted from its end.
fn own_and_waited_for(stat: &str) -> Option<Duration> {
    let (_, after) = stat.rsplit_once(')')?;
    let ticks = after.split_whitespace().skip(11).take(4).map(str::parse::<u64>);
    let ticks: Vec<u64> = ticks.collect::<Result<_, _>>().ok()?;
    (ticks.len() == 4).then(|| duration(ticks.iter().sum()))
}

impl Machine {
    fn now() -> Option<Self> {
        Self::of(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// user, nice, system, idle, iowait, irq, softirq, steal; what follows is part of user and nice.
    fn of(stat: &str) -> Option<Self> {
        let words = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace().take(8);
        let ticks: Vec<u64> = words.map(str::parse).collect::<Result<_, _>>().ok()?;
        let all: u64 = ticks.iter().sum();
        let idle = ticks.get(3)? + ticks.get(4)?;
        Some(Self { busy: duration(all - idle), all: duration(all) })
    }
}

fn duration(ticks: u64) -> Duration {
    Duration::from_millis(ticks.saturating_mul(1000) / rustix::param::clock_ticks_per_second().max(1))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_of_a_process_with_any_name_are_found() {
        let stat = "7 (a) b (c) Z 1 7 7 0 -1 4 9 9 9 9 100 20 300 4 20 0 1 0 5 0 0";
        let ticks = rustix::param::clock_ticks_per_second();
        assert_eq!(own_and_waited_for(stat), Some(Duration::from_millis(424_000 / ticks)));
        assert_eq!(own_and_waited_for("7 (a) Z 1"), None);
    }

    #[test]
    fn idle_time_is_not_busy() {
        let machine = Machine::of("cpu  100 0 100 700 50 10 20 20 5 5\ncpu0 …").unwrap();
        let ticks = rustix::param::clock_ticks_per_second();
        assert_eq!(machine.all, Duration::from_millis(1_000_000 / ticks));
        assert_eq!(machine.busy, Duration::from_millis(250_000 / ticks));
    }

    #[test]
    fn a_step_that_fails_is_an_error_and_stands_in_the_table_and_others_have_their_times() {
        let minutes = Minutes::start();
        let mut busy = Command::new("sh");
        // The loop runs in a process of the process.
        busy.args(["-c", "sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'; echo done"]);
        minutes.step("a self-test that spins", Output::Kept, &mut busy).unwrap();
        let error = minutes.step("a self-test that fails", Output::Shown, &mut Command::new("false")).unwrap_err();
        assert!(error.to_string().starts_with("a self-test that fails failed with exit status: 1"), "{error}");
        assert!(minutes.step("a self-test that is not there", Output::Shown, &mut Command::new("/no/such")).is_err());
        assert!(minutes.work("a self-test of its own", || anyhow::Ok(())).is_ok());
        assert_eq!(minutes.failed(), ["a self-test that fails", "a self-test that is not there"]);
        let used = lock(&minutes.rows)[0].processor;
        assert!(used.is_some_and(|time| time >= Duration::from_millis(20)), "{used:?}");
        let table = minutes.table();
        assert_eq!(table.lines().filter(|line| line.starts_with("| a self-test")).count(), 4, "{table}");
        assert_eq!(table.matches("FAILED").count(), 2, "{table}");
    }

    #[test]
    fn what_runs_once_more_has_not_failed_and_stays_in_the_table() {
        let minutes = Minutes::start();
        let name = "a self-test of a busy machine";
        assert!(minutes.step(name, Output::Shown, &mut Command::new("false")).is_err());
        lock(&minutes.rows)[0].busy = None;
        assert!(!minutes.was_disturbed(name), "nobody knows");
        lock(&minutes.rows)[0].busy = Some(Share::whole());
        assert!(minutes.was_disturbed(name));
        minutes.set_aside(name);
        assert!(minutes.failed().is_empty());
        assert!(!minutes.was_disturbed(name), "a second time nothing is set aside");
        assert_eq!(minutes.set_aside_of_all(), [name]);
        assert!(minutes.table().contains("FAILED, runs once more"), "{}", minutes.table());
    }
}
