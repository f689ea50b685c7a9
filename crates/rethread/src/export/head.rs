//! The metadata above the conversation in a document.

use rethread_model::{
    MessageNo, PathId, PathIndex, PathSummary, SessionIndex, TranscriptHeader, TranscriptItem,
    TranscriptPart, TranscriptTotals, collapse_whitespace, heading,
};

use super::export_dir::IndexRecord;
use super::survey::{Predecessor, Survey, Surveys};

/// Describes a path. With `cut`, the document contains only the part after its fork.
pub(super) fn path_header(
    survey: &Survey,
    summary: &PathSummary,
    parts: &[TranscriptPart<'_>],
    before: &[Predecessor],
    cut: bool,
) -> TranscriptHeader {
    let totals = TranscriptTotals::new(parts);
    let sum = |of: fn(&Predecessor) -> u32| before.iter().map(of).sum::<u32>();
    let title = &survey.title_in_file.title.text;
    let header = survey.header.path_header(title, summary, survey.paths.len(), &totals);
    TranscriptHeader {
        compactions: if cut { totals.compactions } else { summary.compactions + sum(|b| b.counts.2) },
        messages: if cut { totals.messages } else { summary.messages + sum(|b| b.counts.0) },
        turns: if cut { totals.turns } else { summary.turns + sum(|b| b.counts.1) },
        ..header
    }
}

/// Finds the message after which the client would continue, if it is inside this path.
pub(super) fn resumes_at(surveys: &Surveys, session: SessionIndex, path: PathIndex) -> Option<MessageNo> {
    let survey = &surveys.sessions[session];
    let (active, _) = survey.paths.iter_enumerated().find(|(_, path)| path.path.active)?;
    let holder = surveys.containing_path(PathId { session, path: active })?;
    (holder == PathId { session, path }).then_some(survey.paths[active].tip.message)?
}

/// Builds the index row of a document.
pub(super) fn index_row(survey: &Survey, header: &TranscriptHeader) -> IndexRecord {
    IndexRecord {
        session: header.session.clone(),
        title: header.title.clone(),
        project: header.project.clone(),
        prompt: collapse_whitespace(&survey.first_prompt).chars().take(200).collect(),
        path: (header.path_n, header.paths),
        active: header.active,
        time: header
            .span
            .and_then(|(_, last)| last.to_iso())
            .or_else(|| survey.span.and_then(|(_, last)| last.to_iso())),
        turns: header.turns,
        messages: header.messages,
    }
}

/// Describes a subagent.
pub(super) fn subagent_header(survey: &Survey, name: &str, part: &TranscriptPart<'_>) -> TranscriptHeader {
    let totals = TranscriptTotals::new(std::slice::from_ref(part));
    let mut first = None;
    // A read error is reported when the document is written.
    let _ = part.steps.for_each_prompt(|item| {
        if let TranscriptItem::Message(message) = item {
            first = message.blocks.first().map(|block| heading(&block.readable()));
        }
        first.is_none()
    });
    TranscriptHeader {
        session: survey.header.id.clone(),
        title: first.unwrap_or_else(|| name.to_owned()),
        project: survey.header.project.clone(),
        subagent: Some(name.to_owned()),
        path_n: 1,
        paths: 1,
        active: true,
        messages: totals.messages,
        turns: totals.turns,
        compactions: totals.compactions,
        span: totals.span,
        models: totals.models,
        versions: survey.header.versions.clone(),
        usage: totals.usage,
        ..TranscriptHeader::default()
    }
}
