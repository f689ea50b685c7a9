//! The metadata above the conversation in a document.

use rethread_model::{
    MessageKind, MessageNo, PathId, PathSummary, Time, TranscriptItem, Usage, collapse_whitespace, heading,
};
use rethread_render::{DocumentAgent, DocumentHead, DocumentPart};
use rustc_hash::FxHashSet;

use super::export_dir::IndexRecord;
use super::plan::PlannedDocument;
use super::survey::{Predecessor, Survey, Surveys};

/// Sums over the items of a document, each message once.
#[derive(Default)]
struct DocumentTotals {
    messages: u32,
    turns: u32,
    compactions: u32,
    span: (Option<Time>, Option<Time>),
    models: Vec<String>,
    usage: Usage,
}

impl DocumentTotals {
    fn new(parts: &[DocumentPart<'_>]) -> Self {
        let mut sums = Self::default();
        let mut known = FxHashSet::default();
        for brief in parts.iter().flat_map(|part| part.items.item_headers()) {
            sums.messages += u32::from(brief.kind.is_some());
            sums.turns += u32::from(brief.kind == Some(MessageKind::Prompt));
            sums.compactions += u32::from(brief.compaction);
            if let Some(usage) = brief.usage {
                sums.usage += usage;
            }
            let model = brief.model.filter(|model| *model != "<synthetic>");
            if let Some(model) = model.filter(|model| known.insert(*model)) {
                sums.models.push(model.to_owned());
            }
            if let Some(time) = brief.time {
                sums.span.0 = Some(sums.span.0.map_or(time, |first| first.min(time)));
                sums.span.1 = sums.span.1.max(Some(time));
            }
        }
        sums
    }
}

/// Describes a path. With `cut`, the document contains only the part after its fork.
pub(super) fn path_head(
    survey: &Survey,
    row: &PathSummary,
    parts: &[DocumentPart<'_>],
    before: &[Predecessor],
    cut: bool,
) -> DocumentHead {
    let sums = DocumentTotals::new(parts);
    let sum = |of: fn(&Predecessor) -> u32| before.iter().map(of).sum::<u32>();
    DocumentHead {
        session: survey.name.clone(),
        title: survey.title_in_file.title.text.clone(),
        project: survey.project.clone(),
        path: (row.n, survey.paths.len()),
        active: row.path.active,
        fork: row.fork.as_ref().map(|entry| (entry.uuid.clone(), entry.message)),
        compactions: if cut { sums.compactions } else { row.compactions + sum(|b| b.counts.2) },
        messages: if cut { sums.messages } else { row.messages + sum(|b| b.counts.0) },
        turns: if cut { sums.turns } else { row.turns + sum(|b| b.counts.1) },
        span: sums.span,
        models: sums.models,
        versions: survey.versions.clone(),
        git_branch: survey.git_branch.clone(),
        usage: sums.usage,
        defects: survey.defects.clone(),
        ..DocumentHead::default()
    }
}

/// Finds the message after which the client would continue, if it is inside this path.
pub(super) fn resumes_at(surveys: &Surveys, session: usize, path: usize) -> Option<MessageNo> {
    let survey = &surveys.sessions[session];
    let active = survey.paths.iter().position(|row| row.path.active)?;
    let holder = surveys.containing_path(PathId { session, path: active })?;
    (holder == PathId { session, path }).then_some(survey.paths[active].tip.message)?
}

/// Builds the index row of a document.
pub(super) fn index_row(survey: &Survey, head: &DocumentHead) -> IndexRecord {
    IndexRecord {
        session: head.session.clone(),
        title: head.title.clone(),
        project: head.project.clone(),
        prompt: collapse_whitespace(&survey.first_prompt).chars().take(200).collect(),
        path: head.path,
        active: head.active,
        time: head.span.1.and_then(Time::to_iso).or_else(|| survey.span.and_then(|(_, last)| last.to_iso())),
        turns: head.turns,
        messages: head.messages,
    }
}

/// Describes a subagent.
pub(super) fn agent_head(
    survey: &Survey,
    agent: &DocumentAgent<'_>,
    parent: Option<&PlannedDocument>,
    index: bool,
) -> DocumentHead {
    let sums = DocumentTotals::new(std::slice::from_ref(&agent.part));
    let mut first = None;
    // A read error is reported when the document is written.
    let _ = agent.part.items.for_each_prompt(|item| {
        if let TranscriptItem::Message(message) = item {
            first = message.blocks.first().map(|block| heading(&block.readable()));
        }
        first.is_none()
    });
    DocumentHead {
        session: survey.name.clone(),
        title: first.unwrap_or_else(|| agent.name.clone()),
        project: survey.project.clone(),
        agent: Some(agent.name.clone()),
        parent: parent.map(|planned| planned.file.clone()),
        path: (1, 1),
        active: true,
        messages: sums.messages,
        turns: sums.turns,
        compactions: sums.compactions,
        span: sums.span,
        models: sums.models,
        versions: survey.versions.clone(),
        usage: sums.usage,
        root_prefix: "../",
        has_index: index,
        ..DocumentHead::default()
    }
}
