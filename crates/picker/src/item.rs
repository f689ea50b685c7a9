//! The sessions of the list.

use nucleo_matcher::Utf32String;
use rethread::{SessionSummary, ShortIds, Time, TitleSource};
use rethread_render::{escape, origin_label};

use crate::look::PickerLook;

/// One log: at first only what its directory says about it, later a summary.
#[derive(Debug, Clone)]
pub struct PickerItem {
    /// Its id, as in the name of the log.
    pub id: String,
    /// The beginning of the id, safe to print.
    pub(crate) short_id: String,
    /// The name of its project, safe to print.
    pub(crate) project: String,
    /// The time of its last change.
    pub(crate) modified: Option<Time>,
    pub(crate) content: ItemContent,
}

/// The result of reading a log for the list.
#[derive(Debug, Clone)]
pub(crate) enum ItemContent {
    /// It has not been read yet.
    Unread,
    /// It is not listed: no conversation of a person.
    Skipped,
    /// It cannot be read.
    Unreadable,
    /// A conversation.
    Session(ItemSummary),
}

/// The columns of a conversation.
#[derive(Debug, Clone)]
pub(crate) struct ItemSummary {
    /// The title, safe to print.
    pub(crate) title: String,
    /// The title is one, and not the first prompt.
    pub(crate) is_named: bool,
    pub(crate) turns: u64,
    pub(crate) paths: u64,
    pub(crate) is_live: bool,
    /// A client in use would lose or refuse a part of it.
    pub(crate) is_harmed: bool,
}

impl PickerItem {
    /// Creates the item of a log that has not been read.
    pub fn new(id: &str, project: &str, modified: Option<Time>) -> Self {
        Self {
            id: id.to_owned(),
            short_id: escape(ShortIds::default().shorten(id)).into_owned(),
            project: project_name(project),
            modified,
            content: ItemContent::Unread,
        }
    }

    /// Adds what was read; `None` for a log that is not listed.
    pub(crate) fn set_summary(&mut self, summary: Option<&SessionSummary>, look: &PickerLook) {
        let Some(summary) = summary else {
            self.content = ItemContent::Skipped;
            return;
        };
        self.project = project_name(&summary.project());
        self.modified = summary.recency().or(self.modified);
        let (title, is_named) = match summary.title.source {
            TitleSource::None => ("(no prompt)".to_owned(), false),
            TitleSource::FirstPrompt => (look.line(&summary.title.text), false),
            _ => (look.line(&summary.title.text), true),
        };
        let origin = look.line(&origin_label(summary, &ShortIds::default()));
        let title = if origin.is_empty() { title } else { format!("{title} {origin}") };
        self.content = ItemContent::Session(ItemSummary {
            title,
            is_named,
            turns: summary.turns,
            paths: summary.paths,
            is_live: summary.is_live,
            is_harmed: summary.is_harmed(),
        });
    }

    /// Returns whether its log has not been read.
    pub fn is_unread(&self) -> bool {
        matches!(self.content, ItemContent::Unread)
    }

    /// Returns whether it was read and left out of the list, because it has no conversation of a person.
    pub fn is_skipped(&self) -> bool {
        matches!(self.content, ItemContent::Skipped)
    }

    /// Returns whether it is in the list: everything but logs known to have no conversation.
    pub(crate) fn is_listed(&self) -> bool {
        !self.is_skipped()
    }

    /// Returns the text of the title column.
    pub(crate) fn title(&self) -> &str {
        match &self.content {
            ItemContent::Session(summary) => &summary.title,
            _ => &self.short_id,
        }
    }

    /// Returns the text that a query is compared with: title and project.
    pub(crate) fn haystack(&self) -> Utf32String {
        Utf32String::from(format!("{} {}", self.title(), self.project))
    }
}

/// Returns the last component of the directory of a project, safe to print.
fn project_name(project: &str) -> String {
    let path = project.trim_end_matches(['/', '\\']);
    let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
    escape(&name.replace(['\n', '\t'], " ")).into_owned()
}
