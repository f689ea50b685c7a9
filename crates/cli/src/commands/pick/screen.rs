//! The terminal while the picker has it: entered, left and restored, whatever happens.

use std::io::{self, BufWriter, Stdout, Write};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{
    DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture, Event, KeyEventKind,
};
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{cursor, event, execute};
use ratatui::layout::{Rect, Size};
use rethread_picker::PickerState;

/// The terminal in raw mode on its alternate screen, until it is dropped.
pub(super) struct PickerScreen {
    terminal: Terminal<CrosstermBackend<BufWriter<Stdout>>>,
    /// The size of the last frame.
    drawn_size: Size,
}

/// The alternate screen is shown.
static IS_OPEN: AtomicBool = AtomicBool::new(false);

impl PickerScreen {
    /// Enters the alternate screen. A panic restores the terminal before its message is printed.
    pub(super) fn open() -> io::Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let print = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                restore();
                print(panic);
            }));
        });
        let out = BufWriter::with_capacity(1 << 16, io::stdout());
        let mut screen =
            Self { terminal: Terminal::new(CrosstermBackend::new(out))?, drawn_size: Size::ZERO };
        screen.enter()?;
        Ok(screen)
    }

    fn enter(&mut self) -> io::Result<()> {
        IS_OPEN.store(true, Ordering::Relaxed);
        enable_raw_mode()?;
        execute!(io::stdout(), EnterAlternateScreen, EnableMouseCapture, EnableBracketedPaste)?;
        self.clear()
    }

    /// Leaves the alternate screen.
    pub(super) fn close(&mut self) {
        restore();
    }

    pub(super) fn draw(&mut self, state: &mut PickerState) -> io::Result<()> {
        let drawn = self.terminal.draw(|frame| state.draw(frame))?;
        self.drawn_size = drawn.area.as_size();
        Ok(())
    }

    /// Returns whether the terminal has another size than the last frame. Its signal may arrive while nobody waits.
    pub(super) fn is_resized(&mut self) -> io::Result<bool> {
        Ok(self.terminal.size()? != self.drawn_size)
    }

    /// Draws everything again with the next frame. `Terminal::clear` would ask the terminal for the position of the
    /// cursor, and fail if it does not answer.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        let size = self.terminal.size()?;
        self.terminal.resize(Rect::new(0, 0, size.width, size.height))
    }

    /// Runs something on the normal screen, and comes back.
    pub(super) fn leave_for<T>(&mut self, run: impl FnOnce() -> T) -> io::Result<T> {
        self.close();
        let result = run();
        self.enter()?;
        Ok(result)
    }

    /// Suspends the program until the shell continues it.
    pub(super) fn suspend(&mut self) -> io::Result<()> {
        #[cfg(unix)]
        self.leave_for(|| {
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TSTP);
        })?;
        Ok(())
    }

    /// Sends a text to the clipboard of the terminal (OSC 52), which also works through ssh. Its base64 form contains
    /// no control character.
    pub(super) fn copy(&mut self, text: &str) -> io::Result<()> {
        use base64::Engine as _;
        let encoded = base64::engine::general_purpose::STANDARD.encode(text);
        let mut out = io::stdout();
        write!(out, "\x1b]52;c;{encoded}\x07")?;
        out.flush()
    }
}

impl Drop for PickerScreen {
    fn drop(&mut self) {
        self.close();
    }
}

/// Restores the terminal, if it was changed. Errors are ignored: it may be gone.
fn restore() {
    if !IS_OPEN.swap(false, Ordering::Relaxed) {
        return;
    }
    let _ = execute!(
        io::stdout(),
        DisableBracketedPaste,
        DisableMouseCapture,
        LeaveAlternateScreen,
        cursor::Show
    );
    let _ = disable_raw_mode();
}

/// Waits for a key on the normal screen.
pub(super) fn wait_for_key() -> io::Result<()> {
    print_to_terminal("\nPress any key to return to the list.")?;
    enable_raw_mode()?;
    let pressed = loop {
        match event::read() {
            Ok(Event::Key(key)) if key.kind == KeyEventKind::Press => break Ok(()),
            Ok(_) => {}
            Err(error) => break Err(error),
        }
    };
    disable_raw_mode()?;
    print_to_terminal("\n")?;
    pressed
}

fn print_to_terminal(text: &str) -> io::Result<()> {
    let mut out = io::stdout();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Ends the program on a signal, after restoring the terminal. This needs a thread of its own: crossterm waits
/// forever for input from a terminal that is gone.
#[cfg(unix)]
pub(super) fn watch_signals() -> io::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGHUP, SIGINT, SIGTERM])?;
    std::thread::spawn(move || {
        for signal in signals.forever() {
            // Ctrl-C in a pager is for the pager.
            if signal != SIGINT || IS_OPEN.load(Ordering::Relaxed) {
                restore();
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
        }
    });
    Ok(())
}

#[cfg(not(unix))]
pub(super) fn watch_signals() -> io::Result<()> {
    Ok(())
}

/// Waits for input. Returns whether the terminal still exists.
#[cfg(unix)]
pub(super) fn wait_for_input(timeout: Duration) -> io::Result<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let stdin = rustix::stdio::stdin();
    let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
    match poll(&mut fds, Timespec::try_from(timeout).ok().as_ref()) {
        Ok(_) => Ok(!fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)),
        // A signal, perhaps because the size has changed.
        Err(rustix::io::Errno::INTR) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(unix))]
pub(super) fn wait_for_input(timeout: Duration) -> io::Result<bool> {
    event::poll(timeout)?;
    Ok(true)
}
