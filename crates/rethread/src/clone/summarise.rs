//! Summaries that a command of the user's writes: each turn on its standard input, the summary on its
//! standard output.

use std::io::{self, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rethread_edit::CondensedTurn;

/// A command that sums turns up.
#[derive(Debug, Clone)]
pub struct Summariser {
    /// The command, for the shell.
    pub command: String,
    /// How long it may take for one turn.
    pub timeout: Duration,
    /// How many may run at once.
    pub jobs: usize,
    /// Is told how many turns are summed up, and of how many.
    pub on_progress: fn(usize, usize),
}

impl Summariser {
    /// How long a command may take for one turn, if nothing else is said.
    pub const TIMEOUT: Duration = Duration::from_secs(120);
    /// How many run at once, if nothing else is said.
    pub const DEFAULT_JOBS: usize = 4;

    /// Sums turns up; where the command fails there is nothing. Says also why it failed.
    pub(super) fn summarise(&self, turns: &[CondensedTurn]) -> (Vec<Option<String>>, Option<String>) {
        let next = AtomicUsize::new(0);
        let summaries: Vec<Mutex<Option<String>>> = turns.iter().map(|_| Mutex::new(None)).collect();
        let failures: Mutex<Vec<String>> = Mutex::default();
        // What an earlier summary speaks of needs none.
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
        let told = failures.first().map(|why| {
            let n = failures.len();
            format!(
                "the command failed for {n} of {} turns, which have our own summaries: {why}",
                wanted.len()
            )
        });
        let summaries =
            summaries.into_iter().map(|slot| slot.into_inner().unwrap_or_else(PoisonError::into_inner));
        (summaries.collect(), told)
    }

    fn run(&self, turn: &str) -> Result<String, String> {
        let mut command = shell(&self.command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("it did not start: {error}"))?;
        let (mut stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let turn = turn.to_owned();
        // It may stop reading, or write before it has read everything.
        std::thread::spawn(move || {
            if let Some(stdin) = &mut stdin {
                let _ = stdin.write_all(turn.as_bytes());
            }
        });
        // Who writes a summary without end is cut off; who talks without end is let talk.
        let (text, said) = (
            read_in_background(stdout, drop),
            read_in_background(stderr, |mut rest| drop(io::copy(&mut rest, &mut io::sink()))),
        );
        let end = Instant::now().checked_add(self.timeout);
        let late = || format!("it took longer than {} seconds", self.timeout.as_secs());
        let status = wait(&mut child, end).ok_or_else(late)?;
        // What it left running may still hold its output.
        let left = end.map_or(Duration::from_secs(3600), |end| end.saturating_duration_since(Instant::now()));
        let text = text.recv_timeout(left).map_err(|_| {
            stop(&mut child);
            late()
        })?;
        if text.len() as u64 >= MAX_SUMMARY {
            return Err("it wrote more than a megabyte".into());
        }
        if !status.success() {
            let said = printable_text(&said.recv_timeout(Duration::from_millis(100)).unwrap_or_default());
            let why = said.trim().lines().next().map_or(String::new(), |line| {
                let start: String = line.chars().take(200).collect();
                format!(": {start}")
            });
            return Err(format!("it ended with {status}{why}"));
        }
        let text = printable_text(&text).trim().to_owned();
        if text.is_empty() { Err("it wrote nothing".into()) } else { Ok(text) }
    }
}

/// A summary is short; a command that writes without end is not listened to any more.
const MAX_SUMMARY: u64 = 1 << 20;

/// Reads what a command writes, on a thread of its own; what is more than a summary may have is left to `rest`.
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

/// What a command wrote, as text: what no reader sees is left out.
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
        // A group of its own, so that what it starts can be stopped with it.
        use std::os::unix::process::CommandExt;
        shell.process_group(0);
    }
    shell
}

/// Waits for the end of a process, and ends it if that takes too long.
fn wait(child: &mut Child, end: Option<Instant>) -> Option<std::process::ExitStatus> {
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
        // The whole group: the shell and what it started. While any of them runs, its number is its own.
        use rustix::process::{Pid, Signal, kill_process_group};
        if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
    let _ = child.kill();
}
