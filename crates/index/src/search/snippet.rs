//! The part of a text that is shown for a hit.

use std::ops::Range;

use rethread_model::Snippet;

use crate::matcher::TextMatch;

/// Takes the part of a text around the best of its matches. `preferred` is the clause that should be shown.
pub(super) fn make_snippet(
    text: &str,
    matches: &[TextMatch],
    preferred: Option<usize>,
    max_chars: usize,
) -> Snippet {
    let mut ranges: Vec<Range<usize>> = matches.iter().map(|found| found.range.clone()).collect();
    let anchor =
        matches.iter().find(|found| Some(found.clause) == preferred).map(|found| found.range.clone());
    ranges.sort_by_key(|range| (range.start, range.end));
    let anchor = anchor.or_else(|| densest(&ranges, max_chars)).unwrap_or(0..0);
    let window = window(text, &anchor, max_chars);
    let (cut_before, cut_after) =
        (!text[..window.start].trim().is_empty(), !text[window.end..].trim().is_empty());
    let mut line = SnippetLine::default();
    line.push_collapsed(text, window, &ranges);
    Snippet { text: line.text, matches: line.matches, cut_before, cut_after }
}

/// The line of a snippet while it is put together.
#[derive(Default)]
struct SnippetLine {
    text: String,
    matches: Vec<Range<usize>>,
}

impl SnippetLine {
    /// Appends a part of a text, with white space collapsed, and the matches in it.
    fn push_collapsed(&mut self, text: &str, window: Range<usize>, ranges: &[Range<usize>]) {
        let mut waiting = ranges.iter().skip_while(|range| range.start < window.start).peekable();
        // Matches that have begun: where they end in the text, and where they begin in the snippet.
        let mut open: Vec<(usize, usize)> = Vec::new();
        let mut has_space = false;
        for (at, c) in text[window.clone()].char_indices() {
            let at = window.start + at;
            self.close_matches(&mut open, at);
            if c.is_whitespace() || c.is_control() {
                has_space = !self.text.is_empty();
                continue;
            }
            if std::mem::take(&mut has_space) {
                self.text.push(' ');
            }
            while let Some(range) = waiting.next_if(|range| range.start <= at) {
                if range.end > at {
                    open.push((range.end, self.text.len()));
                }
            }
            self.text.push(c);
        }
        // A match that is longer than the snippet is cut with it.
        self.close_matches(&mut open, usize::MAX);
        self.join_matches();
    }

    /// Ends the matches that end at or before an offset of the text.
    fn close_matches(&mut self, open: &mut Vec<(usize, usize)>, at: usize) {
        let len = self.text.len();
        let ended = open.extract_if(.., |(end, _)| *end <= at);
        self.matches.extend(ended.map(|(_, start)| start..len));
    }

    /// Joins matches that overlap.
    fn join_matches(&mut self) {
        self.matches.sort_by_key(|range| (range.start, range.end));
        let mut joined: Vec<Range<usize>> = Vec::with_capacity(self.matches.len());
        for range in self.matches.drain(..) {
            match joined.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => joined.push(range),
            }
        }
        self.matches = joined;
    }
}

/// Returns the first match of the part of the text with the most matches.
fn densest(ranges: &[Range<usize>], max_chars: usize) -> Option<Range<usize>> {
    let mut best = (0, 0);
    let mut first = 0;
    for at in 0..ranges.len() {
        while first < at && ranges[at].end.saturating_sub(ranges[first].start) > max_chars {
            first += 1;
        }
        if at + 1 - first > best.0 {
            best = (at + 1 - first, first);
        }
    }
    ranges.get(best.1).cloned()
}

/// Returns the part of a text around a match: a little before it, and the rest after it.
fn window(text: &str, anchor: &Range<usize>, max_chars: usize) -> Range<usize> {
    let len = text[anchor.clone()].chars().take(max_chars).count();
    let before_wanted = (max_chars - len) / 3;
    let before: Vec<usize> =
        text[..anchor.start].char_indices().rev().map(|(at, _)| at).take(before_wanted).collect();
    let mut start = before.last().copied().unwrap_or(anchor.start);
    let after = max_chars - before.len();
    let end = text[anchor.start..].char_indices().nth(after).map_or(text.len(), |(at, _)| anchor.start + at);
    // What is not needed after the match is used before it.
    let spare = after.saturating_sub(text[anchor.start..end].chars().count());
    start = text[..start].char_indices().rev().map(|(at, _)| at).take(spare).last().unwrap_or(start);
    at_words(text, start..end, anchor)
}

/// Moves the ends of a window to word boundaries, if they are near.
fn at_words(text: &str, window: Range<usize>, anchor: &Range<usize>) -> Range<usize> {
    const NEAR: usize = 16;
    let is_inside = |at: usize| {
        let before = text[..at].chars().next_back();
        let after = text[at..].chars().next();
        before.zip(after).is_some_and(|(a, b)| !a.is_whitespace() && !b.is_whitespace())
    };
    let mut start = window.start;
    if start > 0 && is_inside(start) {
        let space = text[start..anchor.start].char_indices().take(NEAR).find(|(_, c)| c.is_whitespace());
        start = space.map_or(start, |(at, c)| start + at + c.len_utf8());
    }
    let mut end = window.end;
    if end < text.len() && is_inside(end) && end > anchor.end {
        let space = text[anchor.end..end].char_indices().rev().take(NEAR).find(|(_, c)| c.is_whitespace());
        end = space.map_or(end, |(at, _)| anchor.end + at);
    }
    start..end
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn snippet(text: &str, found: &[&str], max_chars: usize) -> String {
        let matches: Vec<TextMatch> = found
            .iter()
            .enumerate()
            .flat_map(|(clause, word)| {
                let places = text.match_indices(word).map(|(at, _)| at).collect::<Vec<_>>();
                places.into_iter().map(move |at| TextMatch { clause, range: at..at + word.len() })
            })
            .collect();
        let snippet = make_snippet(text, &matches, None, max_chars);
        let mut shown = snippet.text.clone();
        for range in snippet.matches.iter().rev() {
            shown.insert(range.end, ']');
            shown.insert(range.start, '[');
        }
        let dots = |cut: bool| if cut { "…" } else { "" };
        format!("{}{shown}{}", dots(snippet.cut_before), dots(snippet.cut_after))
    }

    #[test]
    fn matches_are_shown_with_their_context() {
        let text =
            "Before the reset I would like to know\n\n  whether the working   tree is clean and if not why.";
        assert_eq!(
            snippet(text, &["working"], 200),
            "Before the reset I would like to know whether the [working] tree is clean and if not why."
        );
        assert_eq!(snippet(text, &["working   tree"], 40), "…the [working tree] is clean and if…");
        assert_eq!(snippet(text, &["Before"], 20), "[Before] the reset…");
        assert_eq!(snippet(text, &["why"], 20), "…clean and if not [why].");
        assert_eq!(snippet(text, &["the", "reset", "clean"], 24), "Before [the] [reset] I…");
        assert_eq!(snippet(text, &[], 20), "Before the reset I…");
        assert_eq!(snippet("", &[], 20), "");
        let long = "x".repeat(30);
        assert_eq!(snippet(&format!("{long} y"), &[&long], 10), format!("[{}]…", "x".repeat(10)));
        assert_eq!(snippet("x".repeat(100).as_str(), &["xx"], 10), format!("[{}]…", "x".repeat(10)));
    }

    proptest! {
        #[test]
        fn snippets_fit_and_keep_their_matches(
            text in "[a-c \\n\u{e9}\u{1f600}]{0,80}",
            at in any::<prop::sample::Index>(),
            max_chars in 5usize..40,
        ) {
            let starts: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
            prop_assume!(!starts.is_empty());
            let start = *at.get(&starts);
            let end = start + text[start..].chars().next().map_or(0, char::len_utf8);
            let matches = [TextMatch { clause: 0, range: start..end }];
            let snippet = make_snippet(&text, &matches, Some(0), max_chars);
            prop_assert!(snippet.text.chars().count() <= max_chars, "{:?}", snippet);
            let found = text[start..end].trim();
            let shown: Vec<&str> = snippet.matches.iter().map(|range| &snippet.text[range.clone()]).collect();
            let expected: Vec<&str> = if found.is_empty() { vec![] } else { vec![found] };
            prop_assert_eq!(shown, expected);
        }
    }
}
