//! Summaries by a user command: it reads a turn on standard input and writes the summary to standard output.

use std::io::{self, Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rethread_edit::CondensedTurn;

use super::CloneWarning;

/// A reason why a summariser did not summarise a turn.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SummariserFailure {
    /// The command could not be started.
    #[error("cannot start: {0}")]
    Start(io::Error),
    /// It exceeded the time limit.
    #[error("took longer than {} seconds", .0.as_secs())]
    Timeout(Duration),
    /// It wrote far too much.
    #[error("wrote more than 1 MB")]
    TooLong,
    /// It failed.
    #[error("ended with {status}{}", .message.as_ref().map_or(String::new(), |line| format!(": {line}")))]
    Exit {
        /// Its exit status.
        status: ExitStatus,
        /// The first line that it wrote to standard error.
        message: Option<String>,
    },
    /// It wrote nothing.
    #[error("wrote nothing")]
    Empty,
}

/// A command that summarises turns.
#[derive(Debug, Clone)]
pub struct Summariser {
    /// The command, for the shell.
    pub command: String,
    /// Time limit per turn.
    pub timeout: Duration,
    /// Maximum number of concurrent processes.
    pub jobs: usize,
    /// Called with the number of summarised turns and the total.
    pub on_progress: fn(usize, usize),
}

impl Summariser {
    /// Default time limit per turn.
    pub const TIMEOUT: Duration = Duration::from_secs(120);
    /// Default number of concurrent processes.
    pub const DEFAULT_JOBS: usize = 4;

    /// Summarises turns; `None` where the command failed. Also returns a warning if it failed.
    pub(super) fn summarise(&self, turns: &[CondensedTurn]) -> (Vec<Option<String>>, Option<CloneWarning>) {
        let next = AtomicUsize::new(0);
        let summaries: Vec<Mutex<Option<String>>> = turns.iter().map(|_| Mutex::new(None)).collect();
        let failures: Mutex<Vec<SummariserFailure>> = Mutex::default();
        // Turns covered by an earlier summary need none.
        let wanted: Vec<usize> = (0..turns.len()).filter(|&at| turns[at].summary.is_some()).collect();
        let n_done = AtomicUsize::new(0);
        let work = || {
            while let Some(&at) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
                match self.run(&turns[at].text) {
                    Ok(text) => *summaries[at].lock().unwrap_or_else(PoisonError::into_inner) = Some(text),
                    Err(why) => failures.lock().unwrap_or_else(PoisonError::into_inner).push(why),
                }
                (self.on_progress)(n_done.fetch_add(1, Ordering::Relaxed) + 1, wanted.len());
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..self.jobs.clamp(1, 64).min(wanted.len()) {
                scope.spawn(work);
            }
        });
        let failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
        let n_failed = failures.len();
        let warning = failures.into_iter().next().map(|first| CloneWarning::SummariserFailed {
            turns: n_failed,
            of: wanted.len(),
            first,
        });
        let summaries =
            summaries.into_iter().map(|slot| slot.into_inner().unwrap_or_else(PoisonError::into_inner));
        (summaries.collect(), warning)
    }

    fn run(&self, turn: &str) -> Result<String, SummariserFailure> {
        let mut command = shell(&self.command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(SummariserFailure::Start)?;
        let (mut stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let turn = turn.to_owned();
        // The command may stop reading, or write before it has read everything.
        std::thread::spawn(move || {
            if let Some(stdin) = &mut stdin {
                let _ = stdin.write_all(turn.as_bytes());
            }
        });
        // Endless standard output is cut off; endless standard error is drained.
        let (text, said) = (
            read_in_background(stdout, drop),
            read_in_background(stderr, |mut rest| drop(io::copy(&mut rest, &mut io::sink()))),
        );
        let end = Instant::now().checked_add(self.timeout);
        let late = || SummariserFailure::Timeout(self.timeout);
        let status = wait(&mut child, end).ok_or_else(late)?;
        // Processes that it left running may keep its output open.
        let left = end.map_or(Duration::from_secs(3600), |end| end.saturating_duration_since(Instant::now()));
        let text = text.recv_timeout(left).map_err(|_| {
            stop(&mut child);
            late()
        })?;
        if text.len() as u64 >= MAX_SUMMARY {
            return Err(SummariserFailure::TooLong);
        }
        if !status.success() {
            let said = printable_text(&said.recv_timeout(Duration::from_millis(100)).unwrap_or_default());
            let message = said.trim().lines().next().map(|line| line.chars().take(200).collect());
            return Err(SummariserFailure::Exit { status, message });
        }
        let text = printable_text(&text).trim().to_owned();
        if text.is_empty() { Err(SummariserFailure::Empty) } else { Ok(text) }
    }
}

/// Maximum length of a summary; further output is ignored.
const MAX_SUMMARY: u64 = 1 << 20;

/// Reads the output of a command on a separate thread; passes the reader to `rest` once the limit is reached.
fn read_in_background<R: Read + Send + 'static>(from: Option<R>, rest: fn(R)) -> Receiver<Vec<u8>> {
    let (give, text) = channel();
    std::thread::spawn(move || {
        let mut text = Vec::new();
        let from = from.map(|from| {
            let mut start = from.take(MAX_SUMMARY);
            let _ = start.read_to_end(&mut text);
            start.into_inner()
        });
        let _ = give.send(text);
        from.into_iter().for_each(rest);
    });
    text
}

/// Returns the output of a command as text, without control characters.
fn printable_text(bytes: &[u8]) -> String {
    let shown = |c: &char| !c.is_control() || matches!(c, '\n' | '\t');
    String::from_utf8_lossy(bytes).chars().filter(shown).collect()
}

fn shell(command: &str) -> Command {
    #[cfg(windows)]
    let (program, flag) = ("cmd", "/C");
    #[cfg(not(windows))]
    let (program, flag) = ("sh", "-c");
    let mut shell = Command::new(program);
    shell.arg(flag).arg(command);
    #[cfg(unix)]
    {
        // A separate process group, so that its child processes can be stopped too.
        use std::os::unix::process::CommandExt;
        shell.process_group(0);
    }
    shell
}

/// Waits for a process to exit, and kills it at the deadline.
fn wait(child: &mut Child, end: Option<Instant>) -> Option<ExitStatus> {
    let mut pause = Duration::from_millis(2);
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if end.is_none_or(|end| Instant::now() < end) => {
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(50));
            }
            _ => {
                stop(child);
                let _ = child.wait();
                return None;
            }
        }
    }
}

fn stop(child: &mut Child) {
    #[cfg(unix)]
    {
        // The whole group: the shell and its children. The group id is not reused while any of them runs.
        use rustix::process::{Pid, Signal, kill_process_group};
        if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
    let _ = child.kill();
}
