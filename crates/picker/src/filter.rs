//! Fuzzy matching of the query against all sessions.

use nucleo_matcher::pattern::{Atom, AtomKind, CaseMatching, Normalization};
use nucleo_matcher::{Config, Matcher, Utf32String};

use crate::item::PickerItem;

/// The score of a session whose id begins with the query; higher than any other.
const ID_SCORE: u32 = u32::MAX;

/// The score of a matching character by itself; see [`SessionFilter::least_score`].
const CHAR_SCORE: u32 = 16;

/// The sessions that match the query, best first. Memory and matcher are reused between keystrokes.
pub(crate) struct SessionFilter {
    matcher: Matcher,
    query: String,
    /// The words of the query; a session must match all of them.
    words: Vec<Atom>,
    /// The text of each session. Sessions are numbered as in the list of items.
    haystacks: Vec<Utf32String>,
    /// The score of each session; `None` if it lacks characters of the query. A session with a low score is no match
    /// either, but may become one when the query grows.
    scores: Vec<Option<u32>>,
    /// The place of each session in the order without a query.
    places: Vec<u32>,
    matches: Vec<u32>,
}

impl std::fmt::Debug for SessionFilter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionFilter").field("query", &self.query).finish_non_exhaustive()
    }
}

impl SessionFilter {
    /// Creates a filter for items that are in the order in which they are listed.
    pub(crate) fn new(items: &[PickerItem], query: &str) -> Self {
        let mut filter = Self {
            matcher: Matcher::new(Config::DEFAULT),
            query: String::new(),
            words: Vec::new(),
            haystacks: items.iter().map(PickerItem::haystack).collect(),
            scores: items.iter().map(|item| item.is_listed().then_some(0)).collect(),
            places: (0..).take(items.len()).collect(),
            matches: Vec::with_capacity(items.len()),
        };
        filter.collect_matches();
        filter.set_query(query, items);
        filter
    }

    /// Returns the numbers of the matching items, best first.
    pub(crate) fn matches(&self) -> &[u32] {
        &self.matches
    }

    /// Returns whether an item matches.
    pub(crate) fn is_match(&self, at: usize) -> bool {
        let least = self.least_score();
        self.scores[at].is_some_and(|score| score >= least)
    }

    /// Sets the query. If it only adds to the previous one, only the previous matches are compared again.
    pub(crate) fn set_query(&mut self, query: &str, items: &[PickerItem]) {
        let query = query.trim_start();
        if query == self.query {
            return;
        }
        let extends = query.starts_with(&self.query);
        let was_id = self.is_id_match_possible();
        query.clone_into(&mut self.query);
        let atom =
            |word: &str| Atom::new(word, CaseMatching::Smart, Normalization::Smart, AtomKind::Fuzzy, false);
        self.words = query.split_whitespace().map(atom).collect();
        // The second character can add sessions, namely those whose id begins with the query.
        let narrows = extends && (was_id || !self.is_id_match_possible());
        for (at, item) in items.iter().enumerate() {
            if !narrows || self.scores[at].is_some() {
                self.scores[at] = self.score(at, item);
            }
        }
        self.collect_matches();
    }

    /// Updates items whose text has changed.
    pub(crate) fn update(&mut self, changed: impl IntoIterator<Item = usize>, items: &[PickerItem]) {
        for at in changed {
            self.haystacks[at] = items[at].haystack();
            self.scores[at] = self.score(at, &items[at]);
        }
        self.collect_matches();
    }

    /// Sorts the list without a query by the time of each session.
    pub(crate) fn sort_by_time(&mut self, items: &[PickerItem]) {
        let mut order: Vec<u32> = (0..).take(items.len()).collect();
        order.sort_by(|&a, &b| items[b as usize].modified.cmp(&items[a as usize].modified));
        for (place, &at) in (0..).zip(&order) {
            self.places[at as usize] = place;
        }
        self.collect_matches();
    }

    /// Returns the numbers of the matching characters (graphemes) in the text of an item.
    pub(crate) fn matched_chars(&mut self, at: usize, found: &mut Vec<u32>) {
        found.clear();
        if self.scores[at] == Some(ID_SCORE) {
            return;
        }
        for word in &self.words {
            word.indices(self.haystacks[at].slice(..), &mut self.matcher, found);
        }
        found.sort_unstable();
        found.dedup();
    }

    fn score(&mut self, at: usize, item: &PickerItem) -> Option<u32> {
        if !item.is_listed() {
            return None;
        }
        if self.is_id_match_possible() && item.id.starts_with(self.query.trim_end()) {
            return Some(ID_SCORE);
        }
        let haystack = self.haystacks[at].slice(..);
        let mut total = 0;
        for word in &self.words {
            total += u32::from(word.score(haystack, &mut self.matcher)?);
        }
        Some(total)
    }

    /// Returns whether the query may be the beginning of an id. One character would match too many.
    fn is_id_match_possible(&self) -> bool {
        self.query.len() > 1 && self.words.len() == 1
    }

    /// Returns the score that a session needs: what the characters of the query give by themselves. Neighbours and
    /// beginnings of words give more, gaps less, so letters scattered over a long title are no match.
    fn least_score(&self) -> u32 {
        let chars: usize = self.words.iter().map(|word| word.needle_text().len()).sum();
        CHAR_SCORE * u32::try_from(chars).unwrap_or(u32::MAX / CHAR_SCORE)
    }

    fn collect_matches(&mut self) {
        let least = self.least_score();
        let Self { matches, scores, places, .. } = self;
        matches.clear();
        let matching = |score: &Option<u32>| score.is_some_and(|score| score >= least);
        matches.extend((0..).zip(scores.iter()).filter(|(_, score)| matching(score)).map(|(at, _)| at));
        matches.sort_unstable_by_key(|&at| (std::cmp::Reverse(scores[at as usize]), places[at as usize]));
    }
}
