//! Drives the picker in a real terminal: tmux, which is skipped with a message where it is not installed.

#![cfg(unix)]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use rethread_testkit::{Home, LogBuilder};

/// A config directory, a project, and a terminal in which the program runs.
struct Desk {
    home: Home,
    project: PathBuf,
    socket: String,
}

/// The time after which a test fails, however busy the machine is.
const DEADLINE: Duration = Duration::from_secs(120);

impl Desk {
    /// Creates the directories; `None` without tmux.
    fn new(name: &str) -> Option<Self> {
        if Command::new("tmux").arg("-V").output().is_err() {
            println!("skipped: tmux is not installed");
            return None;
        }
        let home = Home::default();
        let project = home.path().canonicalize().expect("exists").join("kettle");
        fs::create_dir_all(&project).expect("a directory");
        let socket = format!("rethread-{}-{name}", std::process::id());
        Some(Self { home, project, socket })
    }

    /// Adds a session to the project.
    fn add(&self, number: u32, title: &str) -> LogBuilder {
        let mut log = LogBuilder::new(number);
        log.cwd = self.project.to_string_lossy().into_owned();
        log.prompt(title);
        log.answer("The answer.");
        self.home.add(&log.cwd.clone(), &log);
        log
    }

    /// Adds a program that writes its directory and arguments to a file, in place of the client.
    fn add_client(&self) {
        let script = "#!/bin/sh\necho \"$PWD $*\" > \"$HOME/resumed.part\"\nmv \"$HOME/resumed.part\" \"$HOME/resumed\"\n";
        let client = self.home.write("bin/claude", script.as_bytes());
        fs::set_permissions(&client, fs::Permissions::from_mode(0o755)).expect("executable");
    }

    fn tmux(&self, args: &[&str]) -> Output {
        let mut command = Command::new("tmux");
        command.env_clear().current_dir(self.home.path());
        command.env("PATH", format!("{}/bin:/usr/bin:/bin", self.home.path().display()));
        command.env("HOME", self.home.path()).env("CLAUDE_CONFIG_DIR", self.home.path());
        command.env("TZ", "UTC").env("RETHREAD_NOW", "2026-01-09T12:00:00Z").env("LC_ALL", "C.UTF-8");
        command.env("RETHREAD_PAGER", "cat").env("SHELL", "/bin/sh").env("TERM", "xterm-256color");
        command.args(["-u", "-L", &self.socket, "-f", "/dev/null"]).args(args);
        command.output().expect("tmux runs")
    }

    /// Starts a shell script in a terminal of this size; `rethread` is the program.
    fn start(&self, size: (u16, u16), script: &str) {
        let program = assert_cmd::cargo::cargo_bin!("rethread").display().to_string();
        let script = format!(
            "export PROGRAM='{program}'\nrethread() {{ \"$PROGRAM\" \"$@\"; }}\ncd '{}'\necho before\n{script}\necho \"left $?\"\n\
             stty -a | grep -o -e '-*icanon'\nexec sleep 1000\n",
            self.project.display()
        );
        let path = self.home.write("script.sh", script.as_bytes());
        let (width, height) = (size.0.to_string(), size.1.to_string());
        let run = format!("sh '{}'", path.display());
        self.tmux(&["new-session", "-d", "-x", &width, "-y", &height, &run]);
    }

    fn screen(&self) -> String {
        String::from_utf8_lossy(&self.tmux(&["capture-pane", "-p"]).stdout).into_owned()
    }

    /// Waits until the screen contains a text, and returns the screen.
    fn wait_for(&self, text: &str) -> String {
        self.wait_until(text, |screen| screen.contains(text))
    }

    fn wait_until(&self, what: &str, is_reached: impl Fn(&str) -> bool) -> String {
        let started = Instant::now();
        loop {
            let screen = self.screen();
            if is_reached(&screen) {
                return screen;
            }
            assert!(started.elapsed() < DEADLINE, "no `{what}` on the screen:\n{screen}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn press(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// Waits until the program has ended and the terminal is as before.
    fn wait_for_end(&self, status: &str) -> String {
        let screen = self.wait_until("icanon", |screen| screen.contains("icanon"));
        assert!(screen.contains("before"), "the normal screen is back:\n{screen}");
        assert!(screen.contains(&format!("left {status}")), "{screen}");
        assert!(!screen.contains("-icanon"), "raw mode is off:\n{screen}");
        screen
    }

    /// Waits until a program has written a file.
    fn wait_for_file(&self, path: &Path) -> String {
        let started = Instant::now();
        loop {
            if let Ok(text) = fs::read_to_string(path) {
                return text;
            }
            assert!(started.elapsed() < DEADLINE, "no {}:\n{}", path.display(), self.screen());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

#[test]
fn typing_filters_and_q_restores_the_screen() {
    let Some(desk) = Desk::new("filter") else { return };
    desk.add(1, "Fix the login flow");
    desk.add(2, "Write the release notes");
    desk.start((80, 24), "rethread");
    let screen =
        desk.wait_until("both titles", |s| s.contains("Fix the login") && s.contains("release notes"));
    assert!(screen.contains("2 · kettle"), "{screen}");
    desk.press(&["-l", "relnot"]);
    let screen = desk.wait_for("1 of 2");
    assert!(!screen.contains("Fix the login"), "{screen}");
    desk.press(&["Right"]);
    let screen = desk.wait_for("The answer.");
    assert!(screen.contains("will resume completely"), "{screen}");
    desk.press(&["Left"]);
    desk.wait_for("› relnot");
    desk.press(&["C-u"]);
    desk.wait_for("Fix the login");
    desk.press(&["q"]);
    let screen = desk.wait_for_end("0");
    assert!(!screen.contains("release notes"), "{screen}");
}

#[test]
fn enter_resumes_in_the_directory_of_the_session() {
    let Some(desk) = Desk::new("resume") else { return };
    let log = desk.add(1, "Fix the login flow");
    desk.add_client();
    desk.start((80, 24), "cd / && rethread");
    desk.wait_for("Fix the login");
    desk.press(&["Enter"]);
    let resumed = desk.wait_for_file(&desk.home.path().join("resumed"));
    assert_eq!(resumed.trim(), format!("{} --resume {}", desk.project.display(), log.session()));
    desk.wait_for_end("0");
}

#[test]
fn resume_that_is_not_possible_says_why_and_stays() {
    let Some(desk) = Desk::new("cannot") else { return };
    desk.add(1, "Fix the login flow");
    desk.start((80, 24), "PATH=/nowhere rethread; PATH=/usr/bin:/bin");
    desk.wait_for("Fix the login");
    desk.press(&["Enter"]);
    desk.wait_for("was not found in PATH");
    fs::remove_dir(&desk.project).expect("empty");
    desk.press(&["Enter"]);
    desk.wait_for("does not exist");
    desk.press(&["C-c"]);
    desk.wait_for_end("0");
}

#[test]
fn resize_opens_the_preview_beside_the_list() {
    let Some(desk) = Desk::new("resize") else { return };
    desk.add(1, "Fix the login flow");
    desk.start((60, 16), "rethread");
    desk.wait_for("Fix the login");
    assert!(!desk.screen().contains("will resume"));
    desk.tmux(&["resize-window", "-x", "130", "-y", "30"]);
    desk.wait_for("will resume completely");
    desk.tmux(&["resize-window", "-x", "20", "-y", "4"]);
    desk.wait_for("too small");
    desk.tmux(&["resize-window", "-x", "60", "-y", "16"]);
    desk.wait_for("Enter resume");
    desk.press(&["C-c"]);
    desk.wait_for_end("0");
}

#[test]
fn termination_restores_the_terminal() {
    let Some(desk) = Desk::new("signal") else { return };
    desk.add(1, "Fix the login flow");
    desk.start((80, 24), "sh -c 'echo $$ > ../pid; exec \"$PROGRAM\"'");
    desk.wait_for("Fix the login");
    let pid = desk.wait_for_file(&desk.home.path().join("pid"));
    let killed = Command::new("kill").args(["-TERM", pid.trim()]).status().expect("kill runs");
    assert!(killed.success());
    desk.wait_for_end("143");
}

#[test]
fn hostile_titles_do_not_reach_the_terminal() {
    let Some(desk) = Desk::new("hostile") else { return };
    desk.add(1, "evil \u{1b}]0;pwned\u{7}\u{1b}[2J \u{202e}txt.exe");
    desk.add(2, "漢字 and 👩‍💻");
    desk.start((80, 24), "rethread");
    let screen = desk.wait_for("evil");
    assert!(screen.contains("\\x1b]0;pwned\\x07") && screen.contains("\\u{202e}"), "{screen}");
    let title = desk.tmux(&["display", "-p", "#{pane_title}"]);
    assert!(!String::from_utf8_lossy(&title.stdout).contains("pwned"));
    desk.press(&["Right"]);
    desk.wait_for("The answer.");
    desk.press(&["C-c"]);
    desk.wait_for_end("0");
}

#[test]
fn shown_conversation_returns_to_the_same_list() {
    let Some(desk) = Desk::new("show") else { return };
    desk.add(1, "Fix the login flow");
    desk.add(2, "Write the release notes");
    desk.start((80, 24), "rethread");
    desk.wait_for("Fix the login");
    desk.press(&["-l", "login"]);
    desk.wait_for("1 of 2");
    desk.press(&["C-s"]);
    let screen = desk.wait_for("Press any key");
    assert!(screen.contains("The answer."), "{screen}");
    desk.press(&["x"]);
    desk.wait_for("› login");
    desk.press(&["C-c"]);
    desk.wait_for_end("0");
}

#[test]
fn word_in_a_message_finds_a_session_and_is_shown() {
    let Some(desk) = Desk::new("search") else { return };
    desk.add(1, "Fix the login flow");
    let mut log = LogBuilder::new(2);
    log.cwd = desk.project.to_string_lossy().into_owned();
    log.prompt("Write the release notes");
    log.answer("The first answer.");
    log.prompt("Go on");
    log.answer("A \u{1b}[31m\u{202e} zebrafish swims.");
    desk.home.add(&log.cwd.clone(), &log);
    desk.start((80, 24), "rethread");
    desk.wait_for("Fix the login");
    desk.press(&["-l", "zebraf"]);
    let screen = desk.wait_for("#4 claude: A [31m\\u{202e} zebrafish swims.");
    assert!(screen.contains("1 of 2") && screen.contains("release notes"), "{screen}");
    desk.press(&["Right"]);
    let screen = desk.wait_for("from message #4 on");
    assert!(!screen.contains("The first answer."), "{screen}");
    desk.press(&["Left"]);
    desk.wait_for("› zebraf");
    desk.press(&["C-s"]);
    let screen = desk.wait_for("Press any key");
    assert!(screen.contains("zebrafish") && !screen.contains("The first answer."), "{screen}");
    desk.press(&["x"]);
    desk.wait_for("› zebraf");
    desk.press(&["-l", "xyz"]);
    desk.wait_for("No session matches.");
    desk.press(&["C-c"]);
    desk.wait_for_end("0");
}

#[test]
fn cloned_path_appears_in_the_list() {
    let Some(desk) = Desk::new("clone") else { return };
    desk.add(1, "Fix the login flow");
    desk.start((80, 24), "rethread");
    desk.wait_for("1 · kettle");
    desk.press(&["C-f"]);
    desk.wait_for("● 1");
    desk.press(&["Enter"]);
    desk.wait_for("Press any key");
    desk.press(&["x"]);
    desk.wait_for("2 · kettle");
    desk.press(&["C-c"]);
    desk.wait_for_end("0");
}

#[test]
fn tab_switches_between_the_project_and_all() {
    let Some(desk) = Desk::new("scope") else { return };
    desk.add(1, "Fix the login flow");
    let mut other = LogBuilder::new(2);
    other.cwd = "/home/ada/almanac".to_owned();
    other.prompt("Plant the beans");
    other.answer("Done.");
    desk.home.add("/home/ada/almanac", &other);
    desk.start((80, 24), "rethread");
    let screen = desk.wait_for("Fix the login");
    assert!(!screen.contains("Plant the beans"), "{screen}");
    desk.press(&["Tab"]);
    let screen = desk.wait_for("Plant the beans");
    assert!(screen.contains("almanac") && screen.contains("all projects"), "{screen}");
    desk.press(&["Tab"]);
    desk.wait_for("1 · kettle");
    desk.press(&["C-c"]);
    desk.wait_for_end("0");
}

#[test]
fn printed_id_is_left_on_the_normal_screen() {
    let Some(desk) = Desk::new("print") else { return };
    let log = desk.add(1, "Fix the login flow");
    desk.start((80, 24), "rethread");
    desk.wait_for("Fix the login");
    desk.press(&["C-o"]);
    assert!(desk.wait_for_end("0").contains(&log.session()));
}

#[test]
fn list_is_printed_where_the_picker_is_not_wanted() {
    let scripts =
        ["rethread --no-interactive", "TERM=dumb rethread", "rethread | cat", "rethread < /dev/null"];
    for (at, script) in scripts.into_iter().enumerate() {
        let Some(desk) = Desk::new(&format!("plain{at}")) else { return };
        desk.add(1, "Fix the login flow");
        desk.start((120, 40), script);
        let screen = desk.wait_for_end("0");
        assert!(screen.contains("rethread show") && screen.contains("Fix the login"), "{script}:\n{screen}");
    }
}

#[test]
fn empty_library_prints_the_welcome() {
    let Some(desk) = Desk::new("empty") else { return };
    desk.start((80, 24), "rethread");
    assert!(desk.wait_for_end("0").contains("No sessions under"));
}

#[test]
fn many_sessions_open() {
    const SESSIONS: u32 = 20_000;
    let Some(desk) = Desk::new("many") else { return };
    for number in 1..=SESSIONS {
        let mut log = LogBuilder::new(number);
        log.cwd = format!("/home/ada/project{}", number % 20);
        log.prompt(&format!("Task number {number}"));
        log.answer("Done.");
        desk.home.add(&log.cwd.clone(), &log);
    }
    desk.start((80, 24), "rethread");
    desk.wait_for("20,000 · all projects");
    desk.press(&["-l", "number 12345"]);
    desk.wait_until("the session", |screen| screen.lines().nth(2).is_some_and(|line| line.contains("12345")));
    desk.press(&["C-c"]);
    desk.wait_for_end("0");
}
