//! The wording of findings and warnings: the library reports them as data, and this program words them with the
//! names of its commands and options.

use std::io;
use std::path::Path;

use rethread::{CleanWarning, FindingKind, IndexError, Library, SessionId};
use rethread_render::shell_word;

use crate::args::GlobalArgs;
use crate::commands::library_options;
use crate::failure::with_causes;

/// Returns a command on a session, for a shell.
pub(crate) fn command_on(
    command: &str,
    id: &SessionId,
    log: &Path,
    library: &Library,
    global: &GlobalArgs,
) -> String {
    command_on_named(command, &session_name(id, log, library), global)
}

/// Returns a command on a session, given what names it.
pub(crate) fn command_on_named(command: &str, name: &str, global: &GlobalArgs) -> String {
    // A path names the log wherever it is.
    let options = if name.contains(['/', '\\']) { String::new() } else { library_options(global) };
    format!("rethread{options} {command} {}", shell_word(name))
}

/// Returns what names a session for every command: the shortest id by which it is found, or else its path.
pub(crate) fn session_name(id: &SessionId, log: &Path, library: &Library) -> String {
    name_or_path(library.short_name(id.as_str(), log), id, log)
}

/// Returns the name of a session for commands, if it has one, or else its path.
pub(crate) fn name_or_path(name: Option<String>, id: &SessionId, log: &Path) -> String {
    // A log in memory has no file: it is one of the sample library, or standard input.
    let is_option = id.as_str().starts_with('-');
    match name.filter(|_| !is_option) {
        Some(name) => name,
        None if log.exists() => log.to_string_lossy().into_owned(),
        None => id.to_string(),
    }
}

/// Returns a hint on how to deal with a finding.
pub(crate) fn finding_hint(kind: FindingKind) -> &'static str {
    HINTS.iter().find(|(known, _)| *known == kind).map_or("", |(_, hint)| hint)
}

/// The hint for each kind of finding.
const HINTS: &[(FindingKind, &str)] = &[
    (FindingKind::DanglingParent, "`rethread repair` links it to the previous entry"),
    (FindingKind::NoParent, "`rethread repair` links it to the previous entry"),
    (FindingKind::Cycle, "`rethread repair` breaks the cycle"),
    (FindingKind::OutOfOrder, "`rethread repair` marks the end of the conversation"),
    (
        FindingKind::ResumesLocalCommand,
        "`rethread repair` makes clients resume the conversation; `rethread clone --path N` copies it to a new session",
    ),
    (FindingKind::CutShort, "a write was interrupted; `rethread repair` drops the unreadable part"),
    (FindingKind::NullLine, "`rethread repair` drops the line"),
    (FindingKind::SeveralObjects, "`rethread repair` puts each object on its own line"),
    (FindingKind::NulBytes, "left by a crash; `rethread repair` removes them"),
    (FindingKind::NotJson, "clients skip it"),
    (FindingKind::NotObject, "clients skip it"),
    (FindingKind::InvalidUtf8, "clients read the invalid bytes as U+FFFD"),
    (FindingKind::TooLong, "it is kept unchanged"),
    (
        FindingKind::NoLineBreak,
        "some clients would append the next entry to the same line; `rethread repair` adds a line break",
    ),
    (
        FindingKind::ByteOrderMark,
        "clients before 2.0.77 lose the first line; `rethread repair` removes the mark",
    ),
    (
        FindingKind::DuplicateUuid,
        "`rethread repair` keeps the later entry, as clients do, in the position of the first",
    ),
    (FindingKind::Incomplete, "`rethread repair` adds an id, or drops the entry if it is empty"),
    (FindingKind::InvalidContent, "`rethread repair` converts it to a block"),
    (FindingKind::NoTime, "`rethread repair` copies the time of the previous entry"),
    (FindingKind::NoMessageId, "`rethread repair` adds a message id"),
    (FindingKind::NoModel, "`rethread repair` takes the model from neighbouring answers"),
    (
        FindingKind::InvalidAttachment,
        "`rethread repair` drops it; clients send the model what it needs again",
    ),
    (FindingKind::OpenCall, "`rethread repair` adds a result that says the original is missing"),
    (FindingKind::OrphanResult, "`rethread repair` keeps its content as text"),
    (FindingKind::SeveralResults, "`rethread repair` keeps the first, as clients do"),
    (FindingKind::RepeatedCall, "`rethread repair` gives the second call its own id"),
    (FindingKind::QueuedPrompt, "`rethread repair` moves it onto the path"),
    (FindingKind::MisplacedResult, "`rethread repair` moves it after its call"),
    (FindingKind::LoneThinking, "newer clients do not send it; `rethread repair` removes it from the path"),
    (FindingKind::UnsignedThinking, "the API requires a signature; `rethread repair` drops the block"),
    (FindingKind::BlankText, "the API rejects blank text; `rethread repair` drops the block"),
    (FindingKind::InvalidBlock, "`rethread repair` converts it to text or drops it"),
    (FindingKind::ImageTooLarge, "`rethread repair` replaces it with a note"),
    (FindingKind::TooManyImages, "resume from an earlier point, or compact"),
    (FindingKind::BeginsWithAnswer, "`rethread repair` inserts a note before it"),
    (FindingKind::ContextTooLong, "compact it in the client, or resume from an earlier point"),
    (FindingKind::AllSidechain, "this is a subagent log; `rethread repair` converts it into a session"),
    (FindingKind::RepairWouldLose, "inspect it with `rethread show` and `rethread tree` before you continue"),
    (FindingKind::NoConversation, "it has no messages; `rethread ls` lists the sessions that have some"),
    (FindingKind::ParallelCalls, "clients since 2.1.112 find them"),
    (
        FindingKind::OtherBranch,
        "client versions choose branches by different rules; `rethread tree --client VERSION` shows the choice",
    ),
    (FindingKind::ProgressEntries, "clients since 2.1.112 skip them"),
    (FindingKind::KeptMessages, "older clients do not know which messages a compaction kept"),
    (FindingKind::UnknownType, "a newer client may have written it; it is preserved"),
    (FindingKind::SeveralSessions, "harmless: resuming and forking copy entries"),
    (FindingKind::ForeignSummary, "they are not used as titles"),
    (FindingKind::Stale, "resume it, touch the file, or raise `cleanupPeriodDays` in the client's settings"),
];

/// Describes a warning about a cleaned session.
pub(crate) fn clean_warning(warning: &CleanWarning) -> String {
    match warning {
        CleanWarning::NotText { path, kept: true } => {
            format!("{} is not text and was kept unchanged", path.display())
        }
        CleanWarning::NotText { path, kept: false } => {
            format!("{} is not text and was left out", path.display())
        }
        CleanWarning::Unreadable { path, error } => unreadable(path, error),
        _ => format!("{warning:?}"),
    }
}

/// Describes a sidecar that could not be read.
pub(crate) fn unreadable(path: &Path, error: &io::Error) -> String {
    format!("cannot read {}: {error}", path.display())
}

/// Describes an index that was damaged.
pub(crate) fn rebuilt(damage: &IndexError) -> String {
    format!("the index was made again because it was damaged: {}", with_causes(damage))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_finding_has_a_hint() {
        for &kind in FindingKind::ALL {
            assert!(!finding_hint(kind).is_empty(), "{kind:?}");
        }
    }

    #[test]
    fn hint_names_a_repair_exactly_if_there_is_one() {
        for &kind in FindingKind::ALL {
            let hint = finding_hint(kind);
            assert_eq!(hint.contains("`rethread repair`"), kind.is_repairable(), "{kind:?}: {hint}");
        }
    }
}
