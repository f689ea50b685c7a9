//! The ids of a session, and their replacements in a copy.
//!
//! A new id is a hash of the old id and the new session's id. The same old id gets the same new id everywhere,
//! also in the log of a subagent, and no table of ids is needed.
//!
//! An id that names an entry is renamed wherever it occurs outside of content: nearly every client version has
//! put such ids into new fields. An id that names no entry of the session is kept: it may refer to something
//! in another file.

mod spans;

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use memchr::memmem;
use rethread_log::{Line, parse_entry, unescape};
use rethread_model::{Facts, Uid};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::shorten::PartCut;
use crate::splice::Splice;
pub(crate) use spans::{IdRole, IdSpan, find_id_spans, find_junk_id_spans, find_non_uuid_ids, is_uuid};
use spans::{UUID_LEN, find_non_uuid_ids_in};

/// Maps the ids of a session to those of its copy.
#[derive(Debug, Clone)]
pub struct IdMap<'a> {
    /// The copy's id, in quotes.
    quoted_session: Vec<u8>,
    /// Seed of generated ids; `None` if ids are kept.
    seed: Option<u64>,
    /// The source's id, and its form in paths.
    source: Option<SourceId>,
    /// The logs whose entries are copied.
    copied_logs: Vec<&'a Facts>,
    /// Other entries that are copied.
    extra_entries: Arc<FxHashSet<Uid>>,
    /// Some ids are not UUIDs.
    has_non_uuid_ids: bool,
    /// Removed entries, each with its replacement.
    replacements: FxHashMap<Uid, Replacement>,
}

/// An entry that replaces a removed one in references.
#[derive(Debug, Clone)]
pub(crate) struct Replacement {
    pub(crate) uid: Uid,
    /// Its id as written, if ids are kept.
    pub(crate) text: Option<String>,
}

/// The result of mapping an id.
enum IdReplacement<'t> {
    /// Replace it with an existing id.
    Text(&'t [u8]),
    /// Replace it with a generated id.
    Generated([u8; UUID_LEN]),
    /// Keep it.
    Unchanged,
    /// It names no known entry.
    Unknown(Uid),
}

#[derive(Debug, Clone)]
struct SourceId {
    uid: Uid,
    /// The source's id as written in the path of a large result, and the project names before it, old and new.
    id: Vec<u8>,
    project: Option<(Vec<u8>, Vec<u8>)>,
}

impl<'a> IdMap<'a> {
    /// Returns the map that keeps every id.
    pub(crate) fn identity() -> Self {
        Self {
            quoted_session: Vec::new(),
            seed: None,
            source: None,
            copied_logs: Vec::new(),
            extra_entries: Arc::default(),
            has_non_uuid_ids: false,
            replacements: FxHashMap::default(),
        }
    }

    /// Creates the map for the copy `to` of the session `from`; `keep` keeps the ids of entries.
    pub fn new(from: &str, to: &str, keep: bool) -> Self {
        let seed = xxhash_rust::xxh3::xxh3_64(to.as_bytes());
        let own = SourceId { uid: Uid::new(from.as_bytes()), id: from.as_bytes().to_vec(), project: None };
        Self {
            quoted_session: format!("\"{to}\"").into_bytes(),
            seed: (!keep).then_some(seed),
            source: Some(own).filter(|own| is_uuid(&own.id)),
            copied_logs: Vec::new(),
            extra_entries: Arc::default(),
            has_non_uuid_ids: false,
            replacements: FxHashMap::default(),
        }
    }

    /// Renames the project directory in the paths of large results.
    pub fn in_project(mut self, from: &str, to: &str) -> Self {
        if let Some(own) = self.source.as_mut().filter(|_| from != to) {
            own.project = Some((from.as_bytes().to_vec(), to.as_bytes().to_vec()));
        }
        self
    }

    /// Also renames these entries: those of subagents.
    pub fn with_entries(mut self, more: FxHashSet<Uid>) -> Self {
        self.extra_entries = Arc::new(more);
        self
    }

    /// Renames the entries of a log.
    pub fn with_log(mut self, facts: &'a Facts) -> Self {
        self.copied_logs.push(facts);
        self
    }

    /// Sets whether some ids of the log are not UUIDs.
    pub(crate) fn with_non_uuid_ids(mut self, has_non_uuid_ids: bool) -> Self {
        self.has_non_uuid_ids = has_non_uuid_ids;
        self
    }

    /// Sets the replacements of removed entries.
    pub(crate) fn with_replacements(mut self, replacements: FxHashMap<Uid, Replacement>) -> Self {
        self.replacements = replacements;
        self
    }

    /// Returns the new id of an entry that is known to be in the copy.
    pub(crate) fn new_entry_id<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match self.seed {
            Some(seed) => {
                String::from_utf8_lossy(&generate_id(Uid::new(text.as_bytes()), seed)).into_owned().into()
            }
            None => text.into(),
        }
    }

    /// Returns the new id of an entry; `text` gives the old one as written.
    pub(crate) fn new_id_or(&self, uid: Uid, text: impl FnOnce() -> String) -> String {
        match self.generated_id(uid) {
            Some(name) => String::from_utf8_lossy(&name).into_owned(),
            None => text(),
        }
    }

    /// Returns whether the ids of entries are kept.
    pub(crate) fn keeps_ids(&self) -> bool {
        self.seed.is_none()
    }

    /// Returns the session's id in quotes, to replace `old`.
    pub(crate) fn quoted_session<'t>(&'t self, old: &'t [u8]) -> &'t [u8] {
        if self.quoted_session.is_empty() { old } else { &self.quoted_session }
    }

    /// Returns the new id of an entry; `None` if ids are kept.
    pub(crate) fn generated_id(&self, uid: Uid) -> Option<[u8; UUID_LEN]> {
        self.seed.map(|seed| generate_id(uid, seed))
    }

    pub(crate) fn is_copied(&self, uid: Uid) -> bool {
        self.extra_entries.contains(&uid) || self.copied_logs.iter().any(|facts| facts.node_of(uid).is_some())
    }

    /// Maps the id in an id span.
    fn replacement_at<'t>(
        &'t self,
        text: &'t [u8],
        role: IdRole,
        knows: &dyn Fn(Uid) -> bool,
    ) -> IdReplacement<'t> {
        if role == IdRole::Session {
            return IdReplacement::Text(&self.quoted_session[1..self.quoted_session.len() - 1]);
        }
        // An escape makes it longer than a UUID.
        let uid = if text.len() == UUID_LEN { Uid::new(text) } else { Uid::new(unescape(text).as_bytes()) };
        if let Some(replacement) = self.replacements.get(&uid) {
            return match (self.seed, &replacement.text) {
                (Some(seed), _) => IdReplacement::Generated(generate_id(replacement.uid, seed)),
                (None, Some(text)) => IdReplacement::Text(text.as_bytes()),
                (None, None) => IdReplacement::Unchanged,
            };
        }
        if self.source.as_ref().is_some_and(|own| own.uid == uid) {
            return IdReplacement::Text(&self.quoted_session[1..self.quoted_session.len() - 1]);
        }
        match self.seed {
            None => IdReplacement::Unchanged,
            Some(seed) if knows(uid) => IdReplacement::Generated(generate_id(uid, seed)),
            Some(_) => IdReplacement::Unknown(uid),
        }
    }

    /// Renames the ids of one line, after all other changes.
    pub(crate) fn rename_ids(&self, splice: &mut Splice<'_>) {
        if self.quoted_session.is_empty() {
            return;
        }
        let mut found = Vec::new();
        find_id_spans(splice.raw, &splice.line, 0, &mut found);
        if self.has_non_uuid_ids {
            find_non_uuid_ids_in(splice.raw, 0, &mut found);
        }
        for span in found {
            let at = usize::try_from(span.at).unwrap_or(0);
            let text = &splice.raw[at..at + span.len as usize];
            let name = match self.replacement_at(text, span.role, &|uid| self.is_copied(uid)) {
                IdReplacement::Text(name) => name.to_vec(),
                IdReplacement::Generated(name) => name.to_vec(),
                IdReplacement::Unchanged | IdReplacement::Unknown(_) => continue,
            };
            splice.replace_bytes(at, at + text.len(), name);
        }
        for (start, end, with) in self.result_path_changes(splice.raw) {
            splice.replace_bytes(start, end, with);
        }
    }

    /// Returns the map for another log of the same session.
    pub fn for_other_log(&self) -> Self {
        Self { copied_logs: Vec::new(), ..self.without_replacements() }
    }

    /// Returns the map without replacements: metadata about removed entries names those entries.
    pub(crate) fn without_replacements(&self) -> Self {
        Self {
            quoted_session: self.quoted_session.clone(),
            seed: self.seed,
            source: self.source.clone(),
            copied_logs: self.copied_logs.clone(),
            extra_entries: Arc::clone(&self.extra_entries),
            has_non_uuid_ids: self.has_non_uuid_ids,
            replacements: FxHashMap::default(),
        }
    }

    /// Writes an entry with its ids renamed.
    pub(crate) fn write(&self, raw: &[u8], offset: u64, spans: &[IdSpan], out: &mut Vec<u8>) {
        let knows = |uid| self.is_copied(uid);
        self.write_changed(
            raw,
            offset,
            spans,
            None,
            self.result_path_changes(raw),
            out,
            &knows,
            &mut |_, _| {},
        );
    }

    /// Writes an entry with its ids renamed, its parent set to `parent` if that is given, and `cuts` applied.
    /// Writes nothing and returns `false` if paths of large results might overlap with cuts. The entries `near` are
    /// known to be copied.
    #[expect(clippy::too_many_arguments, reason = "an entry and its changes")]
    pub(crate) fn write_edited(
        &self,
        raw: &[u8],
        offset: u64,
        spans: &[IdSpan],
        near: [Option<Uid>; 2],
        parent: Option<&[u8]>,
        cuts: &[PartCut],
        out: &mut Vec<u8>,
    ) -> bool {
        let mut changes = self.result_path_changes(raw);
        if !changes.is_empty() && !cuts.is_empty() {
            return false;
        }
        let cut_out = cuts.iter().map(|cut| cut.cut);
        changes.extend(cut_out.map(|cut| (cut.range().start, cut.range().end, cut.mark().into_bytes())));
        let knows = |uid| near.contains(&Some(uid)) || self.is_copied(uid);
        self.write_changed(raw, offset, spans, parent, changes, out, &knows, &mut |_, _| {});
        true
    }

    /// Writes an entry with its ids renamed, where `knows` decides which ids are known. Calls `unknown` for the
    /// others, with the output before them.
    pub(crate) fn write_with_lookup(
        &self,
        raw: &[u8],
        spans: &[IdSpan],
        out: &mut Vec<u8>,
        knows: &dyn Fn(Uid) -> bool,
        unknown: &mut dyn FnMut(&[u8], Uid),
    ) {
        self.write_changed(raw, 0, spans, None, self.result_path_changes(raw), out, knows, unknown);
    }

    #[expect(clippy::too_many_arguments, reason = "an entry, its changes and the callbacks")]
    fn write_changed(
        &self,
        raw: &[u8],
        offset: u64,
        spans: &[IdSpan],
        parent: Option<&[u8]>,
        changes: Vec<(usize, usize, Vec<u8>)>,
        out: &mut Vec<u8>,
        knows: &dyn Fn(Uid) -> bool,
        unknown: &mut dyn FnMut(&[u8], Uid),
    ) {
        let mut changes = changes.into_iter().peekable();
        let mut done = 0;
        let mut put = |out: &mut Vec<u8>, start: usize, end: usize, with: &[u8]| {
            if start >= done {
                out.extend_from_slice(&raw[done..start]);
                out.extend_from_slice(with);
                done = end;
            }
        };
        for span in spans {
            let at = usize::try_from(span.at - offset).unwrap_or(0);
            let text = &raw[at..at + span.len as usize];
            while let Some((start, end, with)) = changes.next_if(|(start, ..)| *start < at) {
                put(out, start, end, &with);
            }
            let renamed = match parent {
                Some(name) if span.role == IdRole::Parent => IdReplacement::Text(name),
                _ => self.replacement_at(text, span.role, knows),
            };
            match renamed {
                IdReplacement::Text(name) => put(out, at, at + text.len(), name),
                IdReplacement::Generated(name) => put(out, at, at + text.len(), &name),
                IdReplacement::Unknown(uid) => {
                    put(out, at, at, &[]);
                    unknown(out, uid);
                }
                IdReplacement::Unchanged => {}
            }
        }
        for (start, end, with) in changes {
            put(out, start, end, &with);
        }
        put(out, raw.len(), raw.len(), &[]);
    }

    /// Rewrites the paths of large results in a block or another value.
    pub(crate) fn rewrite_result_paths<'v>(&self, value: Cow<'v, [u8]>) -> Cow<'v, [u8]> {
        let results = self.result_path_changes(&value);
        if results.is_empty() {
            return value;
        }
        let mut out = Vec::with_capacity(value.len());
        let mut done = 0;
        for (start, end, with) in results {
            out.extend_from_slice(&value[done..start]);
            out.extend(with);
            done = end;
        }
        out.extend_from_slice(&value[done..]);
        out.into()
    }

    /// Finds the session's id in the paths of large results, which are copied too. Thinking is signed and is not
    /// changed.
    pub(crate) fn result_path_changes(&self, raw: &[u8]) -> Vec<(usize, usize, Vec<u8>)> {
        let Some(own) = &self.source else { return Vec::new() };
        let mut found = Vec::new();
        static FINDER: LazyLock<memmem::Finder<'static>> =
            LazyLock::new(|| memmem::Finder::new(b"tool-results"));
        for at in FINDER.find_iter(raw) {
            let before = &raw[..at];
            let cut = before.strip_suffix(b"/").or_else(|| before.strip_suffix(b"\\\\"));
            let Some(cut) = cut.filter(|cut| cut.ends_with(&own.id)) else { continue };
            let separator = &before[cut.len()..];
            let (mut start, end) = (cut.len() - own.id.len(), cut.len());
            let mut with = self.quoted_session[1..self.quoted_session.len() - 1].to_vec();
            if let Some((from, to)) = &own.project {
                let above = raw[..start].strip_suffix(separator);
                if let Some(above) = above.filter(|above| above.ends_with(from)) {
                    start = above.len() - from.len();
                    with = [to.as_slice(), separator, &with].concat();
                }
            }
            found.push((start, end, with));
        }
        if !found.is_empty() && memmem::find(raw, b"thinking").is_some() {
            let mut line = Line::default();
            parse_entry(raw, &mut line);
            let in_thinking = |at: usize| {
                let signed = line.blocks.iter().filter(|block| !block.signature.is_empty());
                signed.map(|b| b.whole).any(|span| (span.start()..span.start() + span.len()).contains(&at))
            };
            found.retain(|&(start, ..)| !in_thinking(start));
        }
        found
    }
}

/// Derives a new id from an old one.
fn generate_id(uid: Uid, seed: u64) -> [u8; UUID_LEN] {
    crate::plan::uuid_of(xxhash_rust::xxh3::xxh3_128_with_seed(&uid.to_bytes(), seed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rename_entry(raw: &str, names: &IdMap<'_>) -> String {
        let mut line = Line::default();
        parse_entry(raw.as_bytes(), &mut line);
        let (mut found, mut out) = (Vec::new(), Vec::new());
        find_id_spans(raw.as_bytes(), &line, 0, &mut found);
        names.write(raw.as_bytes(), 0, &found, &mut out);
        let mut splice = Splice::new(raw.as_bytes());
        names.rename_ids(&mut splice);
        assert_eq!(out, splice.finish(), "write and rename_ids agree");
        String::from_utf8(out).expect("UTF-8")
    }

    const OLD: &str = "11111111-1111-4111-8111-111111111111";
    const NEW: &str = "22222222-2222-4222-8222-222222222222";
    const ENTRY: &str = "33333333-3333-4333-8333-333333333333";

    #[test]
    fn only_entry_and_session_ids_are_renamed() {
        let log = format!(r#"{{"type":"user","uuid":"{ENTRY}","message":{{"content":"x"}}}}"#);
        let session = rethread_model::Session::read(log.as_bytes());
        let names = IdMap::new(OLD, NEW, false).with_log(&session.facts);
        let fresh = names.new_entry_id(ENTRY).into_owned();
        let raw = format!(
            r#"{{"uuid":"{ENTRY}","parentUuid":"{NEW}","message":{{"content":[{{"text":"{ENTRY}"}}]}},"newField":{{"a":["{ENTRY}"]}},"text":"\"{ENTRY}\"","sessionId":"any"}}"#
        );
        let expected = format!(
            r#"{{"uuid":"{fresh}","parentUuid":"{NEW}","message":{{"content":[{{"text":"{ENTRY}"}}]}},"newField":{{"a":["{fresh}"]}},"text":"\"{ENTRY}\"","sessionId":"{NEW}"}}"#
        );
        assert_eq!(rename_entry(&raw, &names), expected);
        let keep = IdMap::new(OLD, NEW, true).with_log(&session.facts);
        assert_eq!(rename_entry(&raw, &keep), raw.replace(r#""any""#, &format!("\"{NEW}\"")));
    }

    #[test]
    fn large_result_paths_point_to_the_copy() {
        let names = IdMap::new(OLD, NEW, false).in_project("-a", "-b");
        let raw = format!(
            r#"{{"message":{{"content":[{{"type":"thinking","thinking":"/p/-a/{OLD}/tool-results/x","signature":"s"}},{{"type":"text","text":"see /p/-a/{OLD}/tool-results/x and C:\\p\\{OLD}\\tool-results and {OLD}"}}]}}}}"#
        );
        let expected = format!(
            r#"{{"message":{{"content":[{{"type":"thinking","thinking":"/p/-a/{OLD}/tool-results/x","signature":"s"}},{{"type":"text","text":"see /p/-b/{NEW}/tool-results/x and C:\\p\\{NEW}\\tool-results and {OLD}"}}]}}}}"#
        );
        assert_eq!(rename_entry(&raw, &names), expected);
    }
}
