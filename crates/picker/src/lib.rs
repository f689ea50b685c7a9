//! An interactive list of sessions, as a state machine and its drawing.
//!
//! [`PickerState`] takes events (keys, the mouse, loaded summaries, a loaded preview, results of a search) and returns at most one
//! [`PickerAction`] for each. [`PickerState::draw`] draws the current state into a frame of `ratatui`. The state says
//! which summaries it would like to have next ([`PickerState::visible_unread`]), which preview
//! ([`PickerState::wanted_preview`]), and for which query the contents of all sessions should be searched
//! ([`PickerState::wanted_search`]); the program reads them when and where it likes.
//!
//! ```
//! use std::time::Instant;
//!
//! use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
//! use rethread_picker::{PickerAction, PickerItem, PickerLook, PickerScope, PickerState};
//!
//! let look = PickerLook::plain("2026-01-09T12:00:00Z".parse()?);
//! let items = vec![PickerItem::new("3f2a1b0c", "api", None)];
//! let mut state = PickerState::new(look, PickerScope::All, items);
//! let enter = Event::Key(KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE));
//! assert_eq!(state.handle(&enter, Instant::now()), Some(PickerAction::Resume(0)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Promises:
//! - No key sequence, terminal size or text from a log makes it panic; the selection always refers to a listed session.
//! - Text from logs is untrusted and is escaped before it is drawn.
//! - A keystroke is matched against the sessions that matched before, if it can only narrow the result, and only the
//!   visible rows are formatted.
//! - A keystroke never waits for the search of the contents. Its results are listed below the sessions whose titles
//!   match; those of an earlier query are dropped.
//!
//! Left to others: reading logs, running actions, and the terminal itself (`cli`).
//!
//! Rejected: a query syntax for titles. Every character that can be typed is text, so nothing typed is an error. The
//! search of the contents has one, but what is not valid in it finds nothing, without a message.

mod content;
mod draw;
mod filter;
mod item;
mod keys;
mod look;
mod preview;
mod query;
mod rows;
mod state;

pub use content::ContentMatch;
pub use item::PickerItem;
pub use look::PickerLook;
pub use preview::{HitExcerpt, SessionPreview};
pub use state::{PickerAction, PickerScope, PickerState};
