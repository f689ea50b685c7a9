//! Opening a file in a browser or in the viewer of the desktop.

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

/// Opens a file. Returns whether a program could be started.
///
/// A page is opened with `$BROWSER` first, which is a list of commands separated by colons, and then with the
/// program that the desktop has for such files. Other files are opened in the opposite order, because a browser
/// downloads many of them.
pub(crate) fn open_file(file: &Path) -> bool {
    let is_page = file.extension().is_some_and(|ending| ending == "html");
    let openers: [fn(&Path) -> bool; 2] =
        if is_page { [open_in_browser, open_on_desktop] } else { [open_on_desktop, open_in_browser] };
    openers.iter().any(|open| open(file))
}

fn open_in_browser(file: &Path) -> bool {
    let Some(browsers) = env::var_os("BROWSER") else { return false };
    let browsers = browsers.to_string_lossy().into_owned();
    browsers.split(':').any(|browser| {
        let words: Vec<OsString> = command_words(browser, file);
        let Some((program, args)) = words.split_first() else { return false };
        // A browser may use the terminal, so it is waited for. Standard output is for data.
        let run = Command::new(program).args(args).stdout(Stdio::null()).status();
        run.is_ok_and(|status| status.success())
    })
}

/// Splits a command of `$BROWSER` into words; `%s` is the file, which is otherwise added at the end.
fn command_words(browser: &str, file: &Path) -> Vec<OsString> {
    let mut words: Vec<OsString> = browser.split_whitespace().map(OsString::from).collect();
    if words.is_empty() {
        return words;
    }
    match words.iter_mut().find(|word| *word == "%s") {
        Some(place) => *place = file.into(),
        None => words.push(file.into()),
    }
    words
}

/// Opens a file with the program that the desktop has for it.
fn open_on_desktop(file: &Path) -> bool {
    let mut command = if cfg!(target_os = "macos") {
        Command::new("open")
    } else if cfg!(windows) {
        // The empty argument is the title of a window.
        let mut command = Command::new("cmd");
        command.args(["/C", "start", ""]);
        command
    } else {
        let has_display = |name: &str| env::var_os(name).is_some_and(|display| !display.is_empty());
        if !has_display("DISPLAY") && !has_display("WAYLAND_DISPLAY") {
            return false;
        }
        Command::new("xdg-open")
    };
    let run = command.arg(file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    run.is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browser_command_contains_the_file() {
        let words = |browser: &str| command_words(browser, Path::new("a b.html"));
        assert_eq!(words("firefox --new-tab"), ["firefox", "--new-tab", "a b.html"]);
        assert_eq!(words("w3m %s -o x"), ["w3m", "a b.html", "-o", "x"]);
        assert_eq!(words("  "), [""; 0].map(OsString::from));
    }
}
