//! The long-running processes of a cluster: started, watched, and their last words read.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cgroup::{self, Hierarchies};
use crate::{Error, Result, run};

/// How many lines of a dead part's log are shown.
const TAIL_LINES: usize = 12;
/// How much of a log is read for them, in bytes.
const TAIL_BYTES: u64 = 16 * 1024;

/// The parts of one cluster.
#[derive(Debug, Clone)]
pub(crate) struct Parts {
    cluster: String,
    /// Holds `<part>.pid`; a part of a node is called `n1/kubelet` and its file `n1.kubelet.pid`.
    pids: PathBuf,
    logs: PathBuf,
    cgroup: PathBuf,
}

impl Parts {
    /// The parts of a cluster whose files are in `directory`.
    pub(crate) fn of(cluster: &str, directory: &Path) -> Result<Self> {
        let cgroup = Hierarchies::find()?.parts(cluster);
        let (pids, logs) = (directory.join("pids"), directory.join("log"));
        Ok(Self { cluster: cluster.to_owned(), pids, logs, cgroup })
    }

    /// Makes the directories.
    pub(crate) fn prepare(&self) -> Result<()> {
        for path in [&self.pids, &self.logs] {
            fs::create_dir_all(path).map_err(Error::file("create", path))?;
        }
        Ok(())
    }

    /// Starts a part, in a session and in the cgroup of the cluster. Its output goes to its log.
    pub(crate) fn start(&self, part: &str, command: &Command) -> Result<()> {
        self.spawn(part, command, r#"echo ready && exec "$@" >&2"#)
    }

    /// As [`Parts::start`], for a command that itself writes the line `ready` to its standard output when it is.
    pub(crate) fn start_until_ready(&self, part: &str, command: &Command) -> Result<()> {
        self.spawn(part, command, r#"exec "$@""#)
    }

    /// Runs the command inside a shell that joins the cgroup, notes its pid, and becomes the command: so neither a pid
    /// nor a process can be missed, whenever we are killed. Then waits for the line `ready`.
    fn spawn(&self, part: &str, command: &Command, last: &str) -> Result<()> {
        let log = self.log(part);
        let file = File::create(&log).map_err(Error::file("create", &log))?;
        let mut wrapped = Command::new("setsid");
        // Forked, so that the part is a child of init, who waits for it when it dies; we may be gone by then.
        wrapped.args([
            "--fork",
            "sh",
            "-c",
            &format!(r#"echo $$ > "$1" && echo $$ > "$2" && shift 2 && {last}"#),
            part,
        ]);
        wrapped.arg(self.cgroup.join("cgroup.procs")).arg(self.pid_file(part));
        wrapped.arg(command.get_program()).args(command.get_args());
        // Nothing of the caller's environment: a proxy variable would send the cluster's own traffic out of it.
        wrapped.env_clear().envs(command.get_envs().filter_map(|(key, value)| Some((key, value?))));
        wrapped.current_dir("/").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(file);
        let mut child = wrapped.spawn().map_err(|source| run::start_error(&wrapped, source))?;
        let output = child.stdout.take();
        child.wait().map_err(|source| run::start_error(&wrapped, source))?;
        let mut lines = output.into_iter().flat_map(|pipe| BufReader::new(pipe).lines().map_while(io::Result::ok));
        if lines.any(|line| line == "ready") { Ok(()) } else { Err(self.died(part)) }
    }

    /// The process of a part, or the report that it has died.
    pub(crate) fn alive(&self, part: &str) -> Result<i32> {
        let path = self.pid_file(part);
        let text = fs::read_to_string(&path).unwrap_or_default();
        // A number alone may be another process by now; one in the cluster's own cgroup is ours.
        let members = cgroup::members(&self.cgroup);
        let pid = text.trim().parse().ok().filter(|pid| members.contains(pid));
        pid.ok_or_else(|| self.died(part))
    }

    /// The names of all parts that were ever started, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.pids).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".pid")?.replace('.', "/")))
            .collect();
        names.sort();
        names
    }

    /// Where a part's output goes.
    pub(crate) fn log(&self, part: &str) -> PathBuf {
        self.logs.join(format!("{}.log", part.replace('/', ".")))
    }

    /// The report of a part's death.
    pub(crate) fn died(&self, part: &str) -> Error {
        let log = self.log(part);
        let tail = tail(&log);
        Error::Died { cluster: self.cluster.clone(), part: part.to_owned(), log, tail }
    }

    fn pid_file(&self, part: &str) -> PathBuf {
        self.pids.join(format!("{}.pid", part.replace('/', ".")))
    }
}

/// The last lines of a file, or a word about why there are none.
fn tail(path: &Path) -> String {
    let read = || -> io::Result<String> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    match read() {
        Ok(text) if text.trim().is_empty() => "  (it wrote nothing)".into(),
        Ok(text) => {
            let lines: Vec<&str> = text.lines().collect();
            format!("  {}", lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n  "))
        }
        Err(error) => format!("  (no log: {error})"),
    }
}
