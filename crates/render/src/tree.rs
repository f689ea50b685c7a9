//! The branches of a conversation, drawn as text.
//!
//! The branch that the client would continue runs straight down; abandoned branches go to the right. Each
//! segment between forks is one line, named by its first prompt.

use std::io::{self, Write};

use rethread_model::{PathSummary, Reader, Session, StepId, StepKind, Table, Time, heading};
use rustc_hash::FxHashMap;

use crate::text::{DisplayOptions, Style, plural};

/// Maximum depth of nested branches that is drawn.
const MAX_DEPTH: usize = 12;

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
            segment.steps += 1;
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
        let shown = depth.min(MAX_DEPTH);
        let bars = match (branches_off, shown) {
            (_, 0) => String::new(),
            (true, n) => "│ ".repeat(n - 1) + "├─",
            (false, n) => "│ ".repeat(n),
        };
        let paths = self.ends.get(&end);
        let active = self.active[start];
        let (mark, style) = if active { ("●", Style::Active) } else { ("○", Style::Abandoned) };
        let words = self.segment_label(start, segment);
        let mut facts = Vec::new();
        if segment.turns > 0 {
            facts.push(plural(segment.turns, "turn").to_string());
        }
        if segment.compactions > 0 {
            facts.push(plural(segment.compactions, "compaction").to_string());
        }
        let (mut tags, mut tag_width) = (Vec::new(), 0);
        let paths_have_active = self.ends.values().flatten().any(|path| path.path.active);
        for path in paths.into_iter().flatten() {
            let mut tag = format!("path {} {}", path.n, path.status);
            if path.path.main && !path.path.active && paths_have_active {
                tag += " (the conversation; the client would resume elsewhere)";
            }
            if let Some(entry) = path.resumes_at.as_ref().filter(|_| path.path.resumes_before_end) {
                tag += &format!(" (the client resumes at line {})", entry.line);
            }
            facts.push(look.format_ago(path.path.time));
            tag_width += 2 + tag.chars().count();
            tags.push(look.paint(if path.path.active { Style::Active } else { Style::Abandoned }, tag));
        }
        let facts = facts.join(" · ");
        let used = shown * 2 + 4 + facts.chars().count() + tag_width;
        let words = look.truncate(&words, used);
        let tags = if tags.is_empty() { String::new() } else { format!("  {}", tags.join("  ")) };
        writeln!(
            out,
            "{}{} {words}  {}{tags}",
            look.paint(Style::Dim, bars),
            look.paint(style, mark),
            look.paint(Style::Dim, facts),
        )
    }

    fn segment_label(&self, start: StepId, segment: &TreeSegment) -> String {
        let node = |step: StepId| self.session.tree.first_node(step);
        match segment.prompt {
            Some(step) => {
                let words = self.look.sanitize_line(&heading(&self.reader.prompt_words(node(step))));
                if words.is_empty() { "(no text)".to_owned() } else { words }
            }
            None => match self.session.tree.steps[start].kind {
                StepKind::Compaction => "(after a compaction)".to_owned(),
                StepKind::Answer => format!("(another answer, {})", self.look.format_time(self.time(start))),
                _ => format!("({})", plural(segment.steps, "step")),
            },
        }
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
    steps: u64,
}
