//! The sentences of a text that a summary keeps.

use rustc_hash::FxHashSet;

use super::start_of;

/// Returns the most informative sentences of these texts that fit in `room` bytes, in order.
pub(super) fn informative_sentences(texts: &[&str], room: usize) -> Vec<String> {
    let mut found: Vec<(usize, i32, String)> = Vec::new();
    let mut known: FxHashSet<String> = FxHashSet::default();
    for (nth, text) in texts.iter().enumerate() {
        let sentences = sentences_of(text);
        for (at, sentence) in sentences.into_iter().enumerate() {
            let mut weight = match at {
                0 => 4,
                1 => 2,
                2 => 1,
                _ => 0,
            };
            weight += if nth + 1 == texts.len() { 4 } else { 0 };
            weight += if is_informative(&sentence) { 3 } else { 0 };
            if known.insert(sentence.clone()) {
                found.push((found.len(), weight, sentence));
            }
        }
    }
    let mut by_weight: Vec<usize> = (0..found.len()).collect();
    by_weight.sort_by_key(|&at| (-found[at].1, found[at].0));
    let mut left = room;
    let mut chosen: Vec<usize> = Vec::new();
    for at in by_weight {
        let len = found[at].2.len() + 1;
        if len <= left {
            left -= len;
            chosen.push(at);
        } else if chosen.is_empty() {
            return vec![start_of(&found[at].2, room.saturating_sub(4) / 2)];
        }
    }
    chosen.sort_unstable();
    chosen.into_iter().map(|at| found[at].2.clone()).collect()
}

/// Returns the sentences of a text, without code.
fn sentences_of(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut code = false;
    for line in text.lines() {
        let line = line.trim();
        if line.starts_with("```") || line.starts_with("~~~") {
            code = !code;
            continue;
        }
        let line = line.trim_start_matches(['#', '-', '*', '>', ' ', '•']);
        if code || line.is_empty() || line.starts_with('|') {
            continue;
        }
        let mut start = 0;
        for (at, _) in line.match_indices(['.', '!', '?', '。', '！', '？']) {
            let end = at + line[at..].chars().next().map_or(1, char::len_utf8);
            let ends =
                line[end..].chars().next().is_none_or(char::is_whitespace) || !line[at..end].is_ascii();
            if ends && end - start > 12 {
                found.push(line[start..end].trim().to_owned());
                start = end;
            }
        }
        let rest = line[start..].trim();
        if rest.chars().count() > 2 {
            found.push(rest.to_owned());
        }
    }
    found.iter().map(|sentence| start_of(sentence, 300)).collect()
}

/// Returns whether a sentence reports a decision, a finding or an action.
fn is_informative(sentence: &str) -> bool {
    const CUES: &[&str] = &[
        "because",
        "instead",
        "decid",
        "root cause",
        "the problem",
        "the issue",
        "the fix",
        "fixed",
        "turns out",
        "turned out",
        "chose",
        "will use",
        "we use",
        "must ",
        "never ",
        "should ",
        "done",
        "implemented",
        "added",
        "removed",
        "changed",
        "created",
        "now ",
        "pass",
        "fail",
        "error",
        "bug",
        "todo",
        "next",
        "remaining",
        "`",
    ];
    let low = sentence.to_lowercase();
    CUES.iter().any(|cue| low.contains(cue))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_found_outside_code() {
        let text =
            "I looked at it. The root cause is v1.2 of `x`.\n```\ncode. More.\n```\n- done!\n| a | b |";
        assert_eq!(sentences_of(text), ["I looked at it.", "The root cause is v1.2 of `x`.", "done!"]);
        assert!(is_informative("The root cause is v1.2 of `x`."));
    }
}
