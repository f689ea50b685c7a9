//! Finds the messages that match a query in the text index.

use rayon::prelude::*;
use rethread_model::{MessageKey, TextSource};
use rustc_hash::FxHashMap;
use tantivy::columnar::Column;
use tantivy::postings::{Postings, SegmentPostings};
use tantivy::query::{EnableScoring, PhraseQuery, Query as TantivyQuery, TermQuery};
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, DocSet, InvertedIndexReader, Searcher, SegmentReader, TERMINATED, Term};

use super::candidates::{Candidate, LogNo, MatchMasks};
use super::scope::Scope;
use crate::error::IndexError;
use crate::query::{Clause, Query, WordSequence};
use crate::texts::{Fields, TextIndex, unpack};

/// The first words of a query that are compared; see [`Query::MAX_GROUPS`].
type Mask = u64;

/// Finds the messages with documents that match any part of a query, in all segments.
pub(super) fn find_candidates(
    texts: &TextIndex,
    searcher: &Searcher,
    query: &Query,
    scope: &Scope<'_>,
) -> Result<Vec<Candidate>, IndexError> {
    let search = SegmentSearch { fields: texts.fields, searcher, query, scope };
    let found: Vec<Vec<Candidate>> = searcher
        .segment_readers()
        .par_iter()
        .map(|reader| search.find(reader))
        .collect::<Result<_, tantivy::TantivyError>>()?;
    Ok(found.into_iter().flatten().collect())
}

/// A search in the segments of an index.
struct SegmentSearch<'s> {
    fields: Fields,
    searcher: &'s Searcher,
    query: &'s Query,
    scope: &'s Scope<'s>,
}

/// The matches in a segment, by document.
struct DocumentMatches {
    /// The groups of the query that a document matches.
    groups: Vec<Mask>,
    scores: Vec<f32>,
    excluded: Vec<bool>,
    phrases: Vec<bool>,
}

/// The columns of a segment.
struct Columns {
    log: Column<u64>,
    message: Column<u64>,
    offset: Column<u64>,
    block: Column<u64>,
    tool: Column<u64>,
    model: Column<u64>,
    time: Column<i64>,
    key: Column<u64>,
}

impl SegmentSearch<'_> {
    fn find(&self, reader: &SegmentReader) -> tantivy::Result<Vec<Candidate>> {
        let n = reader.max_doc() as usize;
        let mut matches = DocumentMatches {
            groups: vec![0; n],
            scores: vec![0.0; n],
            excluded: vec![false; if self.query.excluded.is_empty() { 0 } else { n }],
            phrases: vec![false; if self.query.whole_phrase.is_some() { n } else { 0 }],
        };
        for (at, group) in self.query.groups.iter().enumerate() {
            for &clause in group {
                self.for_each_match(reader, clause, |doc, score| {
                    matches.groups[doc as usize] |= 1 << at;
                    matches.scores[doc as usize] += score;
                })?;
            }
        }
        if self.query.groups.is_empty() {
            // Only filters: every message is a match.
            matches.groups.fill(1);
        }
        for &clause in &self.query.excluded {
            self.for_each_match(reader, clause, |doc, _| matches.excluded[doc as usize] = true)?;
        }
        if let Some(clause) = self.query.whole_phrase {
            self.for_each_match(reader, clause, |doc, _| matches.phrases[doc as usize] = true)?;
        }
        self.collect(reader, &matches)
    }

    /// Passes the documents that match a clause, with their scores.
    fn for_each_match(
        &self,
        reader: &SegmentReader,
        clause: usize,
        mut take: impl FnMut(DocId, f32),
    ) -> tantivy::Result<()> {
        let Clause::Words(words) = &self.query.clauses[clause] else { return Ok(()) };
        if let ([head @ .., prefix], true) = (&words.tokens[..], words.is_prefix) {
            return match head.is_empty() {
                true => self.for_each_with_prefix(reader, prefix, take),
                false => self.for_each_sequence_with_prefix(reader, head, prefix, take),
            };
        }
        let Some(query) = self.query_of(words) else { return Ok(()) };
        let weight = query.weight(EnableScoring::enabled_from_searcher(self.searcher))?;
        weight.for_each(reader, &mut |doc, score| take(doc, score))
    }

    /// Translates a sequence of whole words.
    fn query_of(&self, words: &WordSequence) -> Option<Box<dyn TantivyQuery>> {
        let mut terms: Vec<Term> = words.tokens.iter().map(|token| self.term_of(token)).collect();
        Some(match terms.len() {
            0 => return None,
            1 => Box::new(TermQuery::new(terms.pop()?, IndexRecordOption::WithFreqs)),
            _ => Box::new(PhraseQuery::new(terms)),
        })
    }

    fn term_of(&self, token: &str) -> Term {
        Term::from_field_text(self.fields.text, token)
    }

    /// Passes the documents with a token that begins so.
    fn for_each_with_prefix(
        &self,
        reader: &SegmentReader,
        prefix: &str,
        mut take: impl FnMut(DocId, f32),
    ) -> tantivy::Result<()> {
        let index = reader.inverted_index(self.fields.text)?;
        for_each_posting(&index, prefix, IndexRecordOption::Basic, |postings| {
            if !reader.is_deleted(postings.doc()) {
                take(postings.doc(), 1.0);
            }
        })
    }

    /// Passes the documents in which some words are followed by one that begins so.
    ///
    /// tantivy's own query reserves two kilobytes for each word that may begin so, before it looks for any.
    fn for_each_sequence_with_prefix(
        &self,
        reader: &SegmentReader,
        head: &[String],
        prefix: &str,
        mut take: impl FnMut(DocId, f32),
    ) -> tantivy::Result<()> {
        let index = reader.inverted_index(self.fields.text)?;
        let mut has_prefix = vec![false; reader.max_doc() as usize];
        self.for_each_with_prefix(reader, prefix, |doc, _| has_prefix[doc as usize] = true)?;
        // For each document, the positions that the next word may have.
        let mut next: Option<FxHashMap<DocId, Vec<u32>>> = None;
        let mut positions = Vec::new();
        for word in head {
            let option = IndexRecordOption::WithFreqsAndPositions;
            let Some(mut postings) = index.read_postings(&self.term_of(word), option)? else { return Ok(()) };
            let mut followed: FxHashMap<DocId, Vec<u32>> = FxHashMap::default();
            while postings.doc() != TERMINATED {
                let doc = postings.doc();
                let wanted = next.as_ref().map(|next| next.get(&doc));
                if has_prefix[doc as usize] && wanted != Some(None) {
                    postings.positions(&mut positions);
                    if let Some(Some(wanted)) = wanted {
                        positions.retain(|position| wanted.binary_search(position).is_ok());
                    }
                    if !positions.is_empty() {
                        followed.insert(doc, positions.iter().map(|position| position + 1).collect());
                    }
                }
                postings.advance();
            }
            next = Some(followed);
        }
        let next = next.unwrap_or_default();
        for_each_posting(&index, prefix, IndexRecordOption::WithFreqsAndPositions, |postings| {
            let Some(wanted) = next.get(&postings.doc()) else { return };
            postings.positions(&mut positions);
            if positions.iter().any(|position| wanted.binary_search(position).is_ok()) {
                take(postings.doc(), 1.0);
            }
        })
    }

    /// Turns documents that match into messages. Documents of a message are next to each other, unless it grew.
    fn collect(&self, reader: &SegmentReader, matches: &DocumentMatches) -> tantivy::Result<Vec<Candidate>> {
        let any_excluded = |doc: usize| matches.excluded.get(doc).copied().unwrap_or(false);
        let docs: Vec<DocId> = (0..reader.max_doc())
            .filter(|&doc| matches.groups[doc as usize] != 0 || any_excluded(doc as usize))
            .filter(|&doc| !reader.is_deleted(doc))
            .collect();
        if docs.is_empty() {
            return Ok(Vec::new());
        }
        let columns = Columns::open(reader)?;
        let logs = values(&columns.log, &docs);
        let messages = values(&columns.message, &docs);
        let offsets = values(&columns.offset, &docs);
        let blocks = values(&columns.block, &docs);
        let keys = values(&columns.key, &docs);
        let mut found: Vec<Candidate> = Vec::new();
        // Most documents of a log follow each other.
        let mut last_log: (u64, Option<LogNo>) = (0, None);
        for (at, &doc) in docs.iter().enumerate() {
            if last_log.0 != logs[at] {
                last_log = (logs[at], self.scope.log_of(logs[at].cast_signed()));
            }
            let Some(log) = last_log.1 else { continue };
            let (block, source) = unpack(blocks[at]);
            let is_hidden = !self.scope.is_visible(log, offsets[at], source)
                || !self.scope.filters.sources.contains(source);
            if is_hidden || !self.passes(&columns, doc, log, source) {
                continue;
            }
            let doc = doc as usize;
            let masks = MatchMasks {
                groups: matches.groups[doc],
                in_one_block: matches.groups[doc],
                is_excluded: any_excluded(doc),
                has_phrase: matches.phrases.get(doc).copied().unwrap_or(false),
            };
            let candidate = Candidate {
                log,
                message_n: u32::try_from(messages[at]).unwrap_or(u32::MAX),
                key: MessageKey::from_u64(keys[at]),
                masks,
                score: matches.scores[doc],
                source,
                offset: offsets[at],
                block,
                time: columns.time.first(doc as DocId).filter(|&time| time != i64::MIN),
                all: self.query.all_groups(),
            };
            match found.last_mut() {
                Some(last) if last.is_same_message(&candidate) => last.merge(&candidate),
                _ => found.push(candidate),
            }
        }
        Ok(found)
    }

    /// Returns whether a document passes the filters that apply to single messages.
    fn passes(&self, columns: &Columns, doc: DocId, log: LogNo, source: TextSource) -> bool {
        let scope = self.scope;
        if let Some(tools) = &scope.tools
            && !columns.tool.first(doc).is_some_and(|tool| tools.contains(&tool.cast_signed()))
        {
            return false;
        }
        if let Some(models) = &scope.models {
            // Only what a model writes is by it; the rest of the session is about it.
            let is_by_model = matches!(source, TextSource::Answer | TextSource::Thinking | TextSource::Input);
            if is_by_model
                && !columns.model.first(doc).is_some_and(|model| models.contains(&model.cast_signed()))
            {
                return false;
            }
        }
        if scope.has_time_limits() {
            let time = columns.time.first(doc).filter(|&time| time != i64::MIN);
            return scope.contains_time(log, time);
        }
        true
    }
}

impl Columns {
    fn open(reader: &SegmentReader) -> tantivy::Result<Self> {
        let fast = reader.fast_fields();
        Ok(Self {
            log: fast.u64("log")?,
            message: fast.u64("message")?,
            offset: fast.u64("offset")?,
            block: fast.u64("block")?,
            tool: fast.u64("tool")?,
            model: fast.u64("model")?,
            time: fast.i64("time")?,
            key: fast.u64("key")?,
        })
    }
}

/// Returns the values of some documents, all of which have one.
fn values(column: &Column<u64>, docs: &[DocId]) -> Vec<u64> {
    let mut values = vec![0; docs.len()];
    match column.index.get_cardinality() {
        tantivy::columnar::Cardinality::Full => column.values.get_vals(docs, &mut values),
        _ => {
            for (value, &doc) in values.iter_mut().zip(docs) {
                *value = column.first(doc).unwrap_or(0);
            }
        }
    }
    values
}

/// Passes each occurrence in a document of each token that begins so.
fn for_each_posting(
    index: &InvertedIndexReader,
    prefix: &str,
    option: IndexRecordOption,
    mut take: impl FnMut(&mut SegmentPostings),
) -> tantivy::Result<()> {
    let mut terms = index.terms().range().ge(prefix.as_bytes());
    if let Some(end) = next_prefix(prefix.as_bytes()) {
        terms = terms.lt(end);
    }
    let mut terms = terms.into_stream()?;
    while let Some((_, info)) = terms.next() {
        let mut postings = index.read_postings_from_terminfo(info, option)?;
        while postings.doc() != TERMINATED {
            take(&mut postings);
            postings.advance();
        }
    }
    Ok(())
}

/// Returns the smallest bytes after all that begin with `prefix`.
fn next_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return Some(end);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_end_before_the_next_one() {
        assert_eq!(next_prefix(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(next_prefix(b"a\xff"), Some(b"b".to_vec()));
        assert_eq!(next_prefix(b"\xff"), None);
    }
}
