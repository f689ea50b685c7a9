//! `rethread` without a command on a terminal: an interactive list of sessions.

mod actions;
mod content_search;
mod loader;
mod screen;

use std::collections::HashMap;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ratatui::crossterm::event;
use rethread::{Catalog, Library, LogSource, LsOptions, MessagePlace, Time};
use rethread_picker::{PickerAction, PickerItem, PickerLook, PickerScope, PickerState};
use rethread_render::DisplayOptions;

use self::actions::ActionRunner;
use self::content_search::ContentSearcher;
use self::loader::{LoadResult, Loader};
use self::screen::{PickerScreen, wait_for_input, watch_signals};
use crate::CommandOutcome;
use crate::args::GlobalArgs;
use crate::commands::{home, library};
use crate::failure::Failure;
use crate::terminal::{Terminal, stdout_is_ascii};

/// Time between two polls for loaded sessions while some are being read.
const BUSY_WAIT: Duration = Duration::from_millis(15);
/// Time between two polls for the size of the terminal otherwise.
const IDLE_WAIT: Duration = Duration::from_millis(250);

/// Returns whether the picker should be opened: a person is at a terminal that can show it.
pub(crate) fn is_wanted(global: &GlobalArgs) -> bool {
    let term = std::env::var_os("TERM").unwrap_or_default();
    !global.no_interactive
        && !global.json
        && io::stdin().is_terminal()
        && io::stdout().is_terminal()
        && !term.is_empty()
        && term != "dumb"
}

/// Opens the picker. Without any sessions it prints the welcome text instead.
pub(crate) fn run(global: &GlobalArgs, terminal: &Terminal) -> Result<CommandOutcome, Failure> {
    let library = library(global);
    let around = std::env::current_dir().map(|cwd| library.projects_around(&cwd)).unwrap_or_default();
    // Warnings about skipped files would be drawn over the list.
    let silent = library.without_observers();
    let Some(mut picker) = Picker::new(silent, around.into_iter().next(), terminal) else {
        return home::run(global, terminal);
    };
    watch_signals()?;
    let mut screen = PickerScreen::open()?;
    let actions = ActionRunner { global, library: &library };
    let left = picker.run_until_left(&mut screen, &actions);
    screen.close();
    drop(screen);
    match left? {
        Departure::Quit => {}
        Departure::Print(id) => terminal.print_line(&id)?,
    }
    Ok(CommandOutcome::Success)
}

/// The outcome of the picker.
enum Departure {
    Quit,
    /// Print this id.
    Print(String),
}

/// The picker with everything that it shows.
struct Picker {
    library: Library,
    /// The directory whose project can be listed alone.
    cwd: Option<PathBuf>,
    catalog: Arc<Catalog>,
    state: PickerState,
    loader: Loader,
    searcher: ContentSearcher,
}

impl Picker {
    /// Finds the sessions of the project, or else of all projects; `None` if there are none.
    fn new(library: Library, cwd: Option<PathBuf>, terminal: &Terminal) -> Option<Self> {
        let mut cwd = cwd;
        let mut catalog = library.catalog(&scope_options(cwd.as_deref()));
        if catalog.logs.is_empty() && cwd.take().is_some() {
            catalog = library.catalog(&scope_options(None));
        }
        if catalog.logs.is_empty() {
            return None;
        }
        let catalog = Arc::new(catalog);
        let look = PickerLook {
            display: DisplayOptions { escape: true, ..terminal.stdout.clone() },
            ascii: stdout_is_ascii(),
        };
        let items = catalog.logs.iter().map(item).collect();
        let state = PickerState::new(look, scope_name(cwd.as_deref()), items);
        let loader = Loader::new(&library, &catalog, &terminal.stdout);
        let searcher = ContentSearcher::new(&library, &terminal.stdout.zone);
        Some(Self { library, cwd, catalog, state, loader, searcher })
    }

    /// Draws and handles events until the user leaves.
    fn run_until_left(
        &mut self,
        screen: &mut PickerScreen,
        actions: &ActionRunner<'_>,
    ) -> Result<Departure, Failure> {
        let mut is_changed = true;
        loop {
            is_changed |= self.take_results();
            if is_changed {
                screen.draw(&mut self.state)?;
                self.loader.set_urgent(self.state.visible_unread());
                self.loader.start();
            }
            if let Some((at, width)) = self.state.wanted_preview(Instant::now()) {
                self.loader.request_preview(at, width, self.state.content_match(at).cloned());
            }
            if let Some(query) = self.state.wanted_search() {
                let cwd = self.scope_cwd().map(Path::to_owned);
                self.searcher.request(query, cwd.as_deref());
            }
            let is_busy = self.state.has_unread() || self.state.is_waiting();
            if !wait_for_input(if is_busy { BUSY_WAIT } else { IDLE_WAIT })? {
                return Ok(Departure::Quit);
            }
            // Everything that has been typed is handled before the next frame.
            is_changed = screen.is_resized()?;
            while event::poll(Duration::ZERO)? {
                is_changed = true;
                if let Some(action) = self.state.handle(&event::read()?, Instant::now())
                    && let Some(left) = self.run_action(action, screen, actions)?
                {
                    return Ok(left);
                }
            }
        }
    }

    /// Takes what the loader has read and the searcher has found. Returns whether there was anything.
    fn take_results(&mut self) -> bool {
        let mut summaries = Vec::new();
        let mut is_changed = false;
        for result in self.loader.results() {
            is_changed = true;
            match result {
                LoadResult::Summary(at, summary) => summaries.push((at, *summary)),
                LoadResult::Preview(at, preview) => self.state.add_preview(at, preview.map(|p| *p)),
            }
        }
        self.state.add_summaries(summaries);
        for searched in self.searcher.results() {
            is_changed = true;
            let query = searched.query.clone();
            self.state.set_search_results(&query, searched.matches(&self.catalog));
        }
        is_changed |= self.state.set_indexing(self.searcher.indexing());
        // The directory may only share its encoded name with the project.
        if is_changed && !self.state.has_unread() && !self.state.has_sessions() && self.cwd.take().is_some() {
            self.list(None);
        }
        is_changed
    }

    fn run_action(
        &mut self,
        action: PickerAction,
        screen: &mut PickerScreen,
        actions: &ActionRunner<'_>,
    ) -> Result<Option<Departure>, Failure> {
        let log = |at: usize| &self.catalog.logs[at];
        match action {
            PickerAction::Quit => return Ok(Some(Departure::Quit)),
            PickerAction::PrintId(at) => return Ok(Some(Departure::Print(log(at).file.id.clone()))),
            PickerAction::SwitchScope => self.switch_scope(),
            PickerAction::Redraw => screen.clear()?,
            PickerAction::Suspend => screen.suspend()?,
            PickerAction::CopyId(at) => {
                let id = &log(at).file.id;
                screen.copy(id)?;
                self.state.set_status(&format!("sent {id} to the clipboard of the terminal"));
            }
            PickerAction::Resume(at) => {
                let failure = actions.resume(log(at), screen)?;
                self.state.set_status(&failure.error);
            }
            PickerAction::Show(at, path) => actions.show(log(at), path, screen)?,
            PickerAction::ShowHit(at) => {
                let Some(found) = self.state.content_match(at) else { return Ok(None) };
                let is_own = found.path == log(at).file.path;
                if is_own && found.hit.place == MessagePlace::Subagent {
                    // Old clients wrote subagents into the log of the session, where they are on no path.
                    actions.show(log(at), None, screen)?;
                    self.state.set_status("the message is in a subagent, so the whole session was shown");
                } else {
                    actions.show_hit(found, screen)?;
                }
            }
            PickerAction::Tree(at) => actions.tree(log(at), screen)?,
            PickerAction::Check(at) => actions.check(log(at), screen)?,
            PickerAction::Export(at) => actions.export(log(at), screen)?,
            PickerAction::ClonePath(at, path) => {
                actions.clone_path(log(at), path, screen)?;
                let cwd = self.scope_cwd().map(Path::to_owned);
                self.list(cwd.as_deref());
            }
        }
        Ok(None)
    }

    /// Returns the directory whose project is listed; `None` if all projects are.
    fn scope_cwd(&self) -> Option<&Path> {
        self.cwd.as_deref().filter(|_| *self.state.scope() != PickerScope::All)
    }

    fn switch_scope(&mut self) {
        if self.cwd.is_none() {
            self.state
                .set_status("the current directory has no sessions of its own; all projects are listed");
            return;
        }
        let cwd = if self.scope_cwd().is_some() { None } else { self.cwd.clone() };
        self.list(cwd.as_deref());
    }

    /// Lists the sessions of a scope again. What has been read of unchanged files is kept.
    fn list(&mut self, cwd: Option<&Path>) {
        let key = |log: &LogSource| (log.file.path.clone(), log.file.bytes, log.file.modified);
        let known: HashMap<_, &PickerItem> =
            self.catalog.logs.iter().map(key).zip(self.state.items()).collect();
        let catalog = Arc::new(self.library.catalog(&scope_options(cwd)));
        let items = catalog.logs.iter().map(|log| match known.get(&key(log)) {
            Some(&known) if !known.is_skipped() => known.clone(),
            _ => item(log),
        });
        let items: Vec<PickerItem> = items.collect();
        let unread = items.iter().enumerate().filter(|(_, item)| item.is_unread()).map(|(at, _)| at);
        self.loader.replace(&catalog, unread.collect());
        self.state.replace(scope_name(cwd), items);
        self.catalog = catalog;
    }
}

/// Returns the item of a log that has not been read.
fn item(log: &LogSource) -> PickerItem {
    PickerItem::new(&log.file.id, &log.file.dir_name(), log.file.modified.and_then(Time::from_system))
}

fn scope_options(cwd: Option<&Path>) -> LsOptions {
    let mut options = LsOptions::new();
    options.cwd = cwd.map(Path::to_owned);
    options
}

fn scope_name(cwd: Option<&Path>) -> PickerScope {
    let Some(cwd) = cwd else { return PickerScope::All };
    let name = cwd.file_name().unwrap_or(cwd.as_os_str());
    PickerScope::Project(name.to_string_lossy().into_owned())
}
