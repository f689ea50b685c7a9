//! What a session is called.
//!
//! Old clients wrote summaries into whatever file was open, so four in five are about another
//! session. A summary counts only where the entry that it names stands.

use serde::Serialize;

use crate::facts::Facts;
use crate::id::Uid;

/// A title and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Title {
    /// The words.
    pub text: String,
    /// Where they come from.
    pub source: TitleSource,
}

/// Where a title comes from, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TitleSource {
    /// The user gave it.
    Custom,
    /// The model gave it.
    Ai,
    /// A summary of this conversation, here or in another file of the project.
    Summary,
    /// The first thing that somebody asked.
    FirstPrompt,
    /// Nothing was said; the title says what the file is.
    None,
}

/// Finds the title of a session. `elsewhere` gives the summary that another file of the project holds
/// about an entry of this one.
pub fn title(facts: &Facts, elsewhere: Option<&str>) -> Title {
    let own = || {
        let about_this = |(leaf, _): &&(Uid, String)| facts.node_of(*leaf).is_some();
        facts.summaries.iter().rev().find(about_this).map(|(_, text)| text.as_str())
    };
    let found = |text: Option<&str>, source| {
        let text = one_line(text?);
        (!text.is_empty()).then_some(Title { text, source })
    };
    found(facts.custom_title.as_deref(), TitleSource::Custom)
        .or_else(|| found(facts.ai_title.as_deref(), TitleSource::Ai))
        .or_else(|| found(own(), TitleSource::Summary))
        .or_else(|| found(elsewhere, TitleSource::Summary))
        .or_else(|| found(facts.first_prompt.as_deref(), TitleSource::FirstPrompt))
        .unwrap_or_else(|| Title { text: String::new(), source: TitleSource::None })
}

/// Joins the lines and blanks of a text by single spaces.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
