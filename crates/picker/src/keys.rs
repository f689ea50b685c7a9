//! The keys, as shown to the user.

/// A key and its effect.
pub(crate) struct KeyHint {
    pub(crate) key: &'static str,
    /// The effect in a word, for the footer.
    pub(crate) short: &'static str,
    /// The effect in a sentence, for the list of keys.
    pub(crate) long: &'static str,
}

const fn hint(key: &'static str, short: &'static str, long: &'static str) -> KeyHint {
    KeyHint { key, short, long }
}

/// The keys of the list; the footer shows as many as fit, in this order.
pub(crate) const LIST_KEYS: [KeyHint; 17] = [
    hint("Enter", "resume", "resume the session in its directory (also ^R)"),
    hint("^S", "show", "read the conversation, from its hit on; q leaves the pager"),
    hint("→", "preview", "open the preview; ← or Esc closes it"),
    hint("Tab", "scope", "switch between this project and all projects"),
    hint("F1", "keys", "show this list (also ? while the query is empty)"),
    hint(QUIT, "quit", "quit while the query is empty (type a space first to search for q)"),
    hint("^T", "tree", "draw the branches; q leaves the pager"),
    hint("^F", "clone", "choose a path and clone it into a new session"),
    hint("^E", "export", "export the session as a page"),
    hint("^K", "check", "check whether the session will resume completely"),
    hint("^Y", "copy id", "copy the id to the clipboard of the terminal"),
    hint("^O", "print id", "print the id and quit"),
    hint("Esc", "back", "go back; then clear the query; then quit"),
    hint("↑ ↓", "move", "move; also ^P ^N, PgUp PgDn, the wheel of the mouse"),
    hint("^U ^W", "delete", "delete the query, or its last word"),
    hint("^Z", "suspend", "suspend the program"),
    hint("^C", "quit", "quit at any time"),
];

/// The key that quits while the query is empty.
pub(crate) const QUIT: &str = "q";

/// The meaning of lines, marks and counts; listed after the keys.
pub(crate) const MARKS: [KeyHint; 4] = [
    hint("#12", "", "the best message with the query; searched from the third letter"),
    hint("●", "", "the session is open in a client"),
    hint("!", "", "clients lose or refuse a part of the session (^K explains it)"),
    hint("hidden", "", "subagents, headless runs and files without a conversation"),
];

/// The keys of the preview.
pub(crate) const PREVIEW_KEYS: [KeyHint; 7] = [
    hint("←", "back", ""),
    hint("↑ ↓", "scroll", ""),
    hint("Enter", "resume", ""),
    hint("^S", "show", ""),
    hint("^F", "clone", ""),
    hint("^T", "tree", ""),
    hint("F1", "keys", ""),
];

/// The keys of the choice of a path.
pub(crate) const PATH_KEYS: [KeyHint; 4] = [
    hint("Enter", "clone this path", ""),
    hint("^S", "show this path", ""),
    hint("↑ ↓", "choose", ""),
    hint("Esc", "back", ""),
];

/// The keys of the list of keys.
pub(crate) const HELP_KEYS: [KeyHint; 1] = [hint("Esc", "back", "")];
