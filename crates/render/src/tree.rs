//! The branches of a conversation, drawn as text.
//!
//! The branch that the client would continue runs straight down; abandoned branches go to the right. Each
//! segment between forks is one line, named by its first prompt.

use std::io::{self, Write};

use rethread_model::{PathSummary, Reader, Session, StepId, StepKind, Table, Time, heading_within};
use rustc_hash::FxHashMap;

use unicode_width::UnicodeWidthStr;

use crate::text::{DisplayOptions, Style, plural, truncate};

/// Maximum depth of nested branches that is drawn.
const MAX_DEPTH: usize = 12;
/// Characters of a label in a pipe or in a narrow terminal.
const MAX_LABEL: usize = 80;
/// Columns that a label keeps before other facts are left out.
const MIN_LABEL: usize = 20;

/// Writes the tree of a session. At most one of `paths` is active.
pub fn write_tree(
    out: &mut dyn Write,
    session: &Session,
    reader: &Reader<'_>,
    paths: &[PathSummary],
    look: &DisplayOptions,
) -> io::Result<()> {
    let picture = TreeDrawing::new(session, reader, paths, look);
    let mut roots: Vec<StepId> = session.tree.steps.keys().filter(|&s| picture.is_root(s)).collect();
    roots.sort_by_key(|&step| session.tree.first_node(step));
    for (i, &root) in roots.iter().enumerate() {
        if i > 0 {
            writeln!(out)?;
        }
        picture.draw(out, root)?;
    }
    Ok(())
}

struct TreeDrawing<'a> {
    session: &'a Session,
    reader: &'a Reader<'a>,
    look: &'a DisplayOptions,
    children: FxHashMap<StepId, Vec<StepId>>,
    /// The paths that end at a step.
    ends: FxHashMap<StepId, Vec<&'a PathSummary>>,
    /// The steps that are on a path.
    on_paths: Table<StepId, bool>,
    /// The steps that are on the active path.
    active: Table<StepId, bool>,
}

impl<'a> TreeDrawing<'a> {
    fn new(
        session: &'a Session,
        reader: &'a Reader<'a>,
        paths: &'a [PathSummary],
        look: &'a DisplayOptions,
    ) -> Self {
        let mut children: FxHashMap<StepId, Vec<StepId>> = FxHashMap::default();
        let mut ends: FxHashMap<StepId, Vec<&PathSummary>> = FxHashMap::default();
        // The straight line follows the active path, or else the newest leaf.
        let mut rank = Table::filled((false, 0), session.tree.steps.len());
        for path in paths {
            ends.entry(path.path.step).or_default().push(path);
            rank[path.path.step] = rank[path.path.step].max((path.path.main, path.tip.line));
        }
        let on_paths = session.steps_on_paths(paths.iter().map(|path| &path.path));
        for step in session.tree.children_first() {
            if let Some(parent) = session.tree.parent_of(step).filter(|_| on_paths[step]) {
                children.entry(parent).or_default().push(step);
                rank[parent] = rank[parent].max(rank[step]);
            }
        }
        for list in children.values_mut() {
            list.sort_by_key(|&step| rank[step]);
        }
        let active = session.steps_on_paths(paths.iter().map(|path| &path.path).filter(|path| path.active));
        Self { session, reader, look, children, ends, on_paths, active }
    }

    fn is_root(&self, step: StepId) -> bool {
        self.on_paths[step] && self.session.tree.parent_of(step).is_none()
    }

    fn draw(&self, out: &mut dyn Write, root: StepId) -> io::Result<()> {
        // Pending segments, each with its depth and whether it branches off.
        let mut waiting = vec![(root, 0usize, false)];
        while let Some((start, depth, branches_off)) = waiting.pop() {
            let (end, segment) = self.follow_segment(start);
            self.write_segment(out, start, end, &segment, depth, branches_off)?;
            let mut next: Vec<StepId> = self.children.get(&end).cloned().unwrap_or_default();
            if let Some(straight) = next.pop() {
                waiting.push((straight, depth, false));
            }
            for &child in next.iter().rev() {
                waiting.push((child, depth + 1, true));
            }
        }
        Ok(())
    }

    /// Follows the steps from `start` to the next fork or ending.
    fn follow_segment(&self, start: StepId) -> (StepId, TreeSegment) {
        let mut at = start;
        let mut segment = TreeSegment::default();
        loop {
            let step = &self.session.tree.steps[at];
            match step.kind {
                StepKind::Prompt | StepKind::Queued => {
                    segment.turns += 1;
                    segment.prompt = segment.prompt.or(Some(at));
                }
                StepKind::Compaction if self.session.is_compaction(at) => segment.compactions += 1,
                _ => {}
            }
            match self.children.get(&at).map(Vec::as_slice) {
                Some(&[only]) if !self.ends.contains_key(&at) => at = only,
                _ => return (at, segment),
            }
        }
    }

    fn write_segment(
        &self,
        out: &mut dyn Write,
        start: StepId,
        end: StepId,
        segment: &TreeSegment,
        depth: usize,
        branches_off: bool,
    ) -> io::Result<()> {
        let look = self.look;
        let shown = depth.min(MAX_DEPTH).min(look.width.map_or(MAX_DEPTH, |columns| columns / 8));
        let (mark, style) =
            if self.active[start] { ("●", Style::Active) } else { ("○", Style::Abandoned) };
        let ends = self.ends.get(&end).map(Vec::as_slice).unwrap_or_default();
        let number = self.session.facts.nodes[self.session.tree.first_node(segment.prompt.unwrap_or(start))]
            .message()
            .map_or_else(String::new, |n| format!("#{n} "));
        let mut facts = self.segment_facts(segment, ends);
        let tags: Vec<(String, Style)> = ends.iter().map(|path| self.path_tag(path)).collect();
        let tag_width: usize = tags.iter().map(|(tag, _)| 2 + tag.width()).sum();
        let words = self.segment_label(start, segment);
        // The path is never left out; in a narrow terminal it has a line of its own.
        let used = shown * 2 + 2 + number.len();
        let room = |facts: &[String], tags: usize| {
            let facts = facts.iter().map(|fact| fact.width() + 3).sum::<usize>();
            look.width.map_or(usize::MAX, |columns| columns.saturating_sub(used + facts + tags))
        };
        let wanted = words.width().min(MIN_LABEL);
        while room(&facts, tag_width) < wanted && facts.len() > 1 {
            facts.remove(0);
        }
        let is_split = room(&facts, tag_width) < wanted;
        if is_split && room(&facts, 0) < wanted {
            facts.clear();
        }
        let words = truncate(&words, room(&facts, if is_split { 0 } else { tag_width }).max(4));
        let bars = match (branches_off, shown) {
            (_, 0) => String::new(),
            (true, n) => "│ ".repeat(n - 1) + "├─",
            (false, n) => "│ ".repeat(n),
        };
        let (bars, number) = (look.paint(Style::Dim, bars), look.paint(Style::Dim, number));
        let facts = facts.join(" · ");
        let facts = if facts.is_empty() { facts } else { format!("  {}", look.paint(Style::Dim, facts)) };
        write!(out, "{bars}{} {number}{words}{facts}", look.paint(style, mark))?;
        for (tag, style) in &tags {
            if is_split {
                write!(out, "\n{}", look.paint(Style::Dim, "│ ".repeat(shown)))?;
            }
            let tag = look.truncate(tag, shown * 2 + 2);
            write!(out, "  {}", look.paint(*style, tag))?;
        }
        writeln!(out)
    }

    /// Returns the counts of a segment and the age of its end.
    fn segment_facts(&self, segment: &TreeSegment, ends: &[&PathSummary]) -> Vec<String> {
        let mut facts = Vec::new();
        if segment.compactions > 0 {
            facts.push(plural(segment.compactions, "compaction").to_string());
        }
        if segment.turns > 0 {
            facts.push(plural(segment.turns, "turn").to_string());
        }
        facts.extend(ends.iter().map(|path| self.look.format_ago(path.path.time)));
        facts
    }

    /// Names a path and its status.
    fn path_tag(&self, path: &PathSummary) -> (String, Style) {
        let has_active = || self.ends.values().flatten().any(|path| path.path.active);
        let mut tag = format!("path {} {}", path.n, path.status);
        if path.path.main && !path.path.active && has_active() {
            tag += " (the conversation; the client would resume elsewhere)";
        }
        if let Some(entry) = path.resumes_at.as_ref().filter(|_| path.path.resumes_before_end) {
            tag += &format!(" (the client resumes at line {})", entry.line);
        }
        (tag, if path.path.active { Style::Active } else { Style::Abandoned })
    }

    fn segment_label(&self, start: StepId, segment: &TreeSegment) -> String {
        let node = |step: StepId| self.session.tree.first_node(step);
        match segment.prompt {
            Some(step) => {
                let words = heading_within(&self.reader.prompt_words(node(step)), self.label_chars());
                let words = self.look.sanitize_line(&words);
                if words.is_empty() { "(no text)".to_owned() } else { words }
            }
            None => match self.session.tree.steps[start].kind {
                StepKind::Compaction => "(after a compaction)".to_owned(),
                StepKind::Answer => format!("(another answer, {})", self.look.format_time(self.time(start))),
                _ if self.is_root(start) => "(before the first prompt)".to_owned(),
                _ => "(no prompt)".to_owned(),
            },
        }
    }

    /// Returns the number of characters of a prompt that a line may have room for.
    fn label_chars(&self) -> usize {
        self.look.width.map_or(MAX_LABEL, |columns| columns.max(MAX_LABEL))
    }

    fn time(&self, step: StepId) -> Option<Time> {
        self.session.facts.nodes[self.session.tree.first_node(step)].time
    }
}

/// The steps between two forks.
#[derive(Default)]
struct TreeSegment {
    prompt: Option<StepId>,
    turns: u64,
    compactions: u64,
}
