//! Times of the picker with 20,000 sessions, measured from outside through a pseudo-terminal.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rethread_testkit::LogBuilder;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

const SESSIONS: u32 = 20_000;
/// The keys of a query, each of which is drawn before the next.
const QUERY: &str = "fix cache 12";
/// Nothing is drawn for this time once a frame is complete.
const QUIET: Duration = Duration::from_millis(40);
/// Nothing is drawn for this time once all sessions have been read.
const IDLE: Duration = Duration::from_secs(1);

/// Measures the time to the first screen, and from a key to the frame that it changes.
pub(super) fn run(rethread: &Path, dir: &Path, rounds: usize) -> Result<()> {
    let config = library(&dir.join("many"))?;
    let mut first = Vec::new();
    let mut keys = Vec::new();
    for _ in 0..rounds {
        let mut terminal = PseudoTerminal::start(rethread, &config)?;
        first.push(terminal.wait_for(b"F1")?);
        // Half of the rounds type while sessions are still being read.
        if first.len() % 2 == 0 {
            terminal.wait_until_quiet(IDLE);
        }
        for key in QUERY.bytes() {
            keys.push(terminal.press(key)?);
        }
        terminal.end()?;
    }
    first.sort_unstable();
    keys.sort_unstable();
    println!(
        "| picker, 20,000 sessions: first screen, best and worst of {rounds} | {:.1?} – {:.1?} | - | - | - |",
        first.first().context("no rounds")?,
        first.last().context("no rounds")?
    );
    println!(
        "| picker, 20,000 sessions: key to frame, median and worst of {} | {:.1?}, {:.1?} | - | - | - |",
        keys.len(),
        keys.get(keys.len() / 2).context("no keys")?,
        keys.last().context("no keys")?
    );
    Ok(())
}

/// Generates the sessions, once.
pub(super) fn library(config: &Path) -> Result<PathBuf> {
    const WORDS: [&str; 8] = ["fix", "the", "cache", "of", "login", "release", "sensor", "parser"];
    if !config.join("done").exists() {
        for number in 1..=SESSIONS {
            let project = number % 40;
            let dir = config.join(format!("projects/-home-ada-project{project}"));
            fs::create_dir_all(&dir)?;
            let mut log = LogBuilder::new(number);
            log.cwd = format!("/home/ada/project{project}");
            let word = |shift: u32| WORDS[(number >> shift) as usize % WORDS.len()];
            log.prompt(&format!("{} {} {} {} {number}", word(0), word(3), word(6), word(9)));
            log.answer("Done.");
            fs::write(dir.join(format!("{}.jsonl", log.session())), log.bytes())?;
        }
        fs::write(config.join("done"), "")?;
    }
    Ok(config.to_owned())
}

/// The program in a terminal of 80 columns and 24 rows.
struct PseudoTerminal {
    child: Child,
    keyboard: File,
    /// The output of the program, with the time at which it arrived.
    drawn: Receiver<(Instant, Vec<u8>)>,
    started: Instant,
}

impl PseudoTerminal {
    fn start(program: &Path, config: &Path) -> Result<Self> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let name = ptsname(&master, Vec::new())?.into_string()?;
        let slave = File::options().read(true).write(true).open(name)?;
        tcsetwinsize(&slave, Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 })?;
        let mut command = Command::new(program);
        command.arg("--config-dir").arg(config).env("TERM", "xterm-256color").env("LC_ALL", "C.UTF-8");
        // Typing builds an index of the generated sessions.
        command.env("XDG_CACHE_HOME", config.join("cache"));
        command.stdin(slave.try_clone()?).stdout(slave).stderr(Stdio::null());
        let keyboard = File::from(master);
        let mut screen = keyboard.try_clone()?;
        let (sender, drawn) = channel();
        std::thread::spawn(move || {
            let mut bytes = vec![0; 1 << 16];
            while let Ok(n @ 1..) = screen.read(&mut bytes) {
                if sender.send((Instant::now(), bytes[..n].to_vec())).is_err() {
                    return;
                }
            }
        });
        let started = Instant::now();
        let child = command.spawn()?;
        Ok(Self { child, keyboard, drawn, started })
    }

    /// Waits until a text is drawn. Returns the time since the start.
    fn wait_for(&mut self, text: &[u8]) -> Result<Duration> {
        let mut all = Vec::new();
        loop {
            let (time, bytes) =
                self.drawn.recv_timeout(Duration::from_secs(60)).context("nothing is drawn")?;
            all.extend(bytes);
            if all.windows(text.len()).any(|part| part == text) {
                return Ok(time - self.started);
            }
        }
    }

    fn wait_until_quiet(&mut self, quiet: Duration) {
        while self.drawn.recv_timeout(quiet).is_ok() {}
    }

    /// Presses a key. Returns the time until the frame that follows it has arrived: while sessions are being read
    /// this is the next frame, otherwise the last byte before a pause.
    fn press(&mut self, key: u8) -> Result<Duration> {
        while self.drawn.try_recv().is_ok() {}
        let pressed = Instant::now();
        self.keyboard.write_all(&[key])?;
        let (mut time, _) = self.drawn.recv_timeout(Duration::from_secs(60)).context("nothing is drawn")?;
        while let Ok((later, _)) = self.drawn.recv_timeout(QUIET.min(Duration::from_millis(5))) {
            time = later;
        }
        std::thread::sleep(QUIET);
        Ok(time - pressed)
    }

    fn end(mut self) -> Result<()> {
        self.keyboard.write_all(b"\x03")?;
        self.child.wait()?;
        Ok(())
    }
}
