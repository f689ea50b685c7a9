//! The ids of a session, and their replacements in a copy.
//!
//! A new id is a hash of the old id and the new session's id. The same old id gets the same new id everywhere,
//! also in the log of a subagent, and no table of ids is needed.
//!
//! An id that names an entry is renamed wherever it occurs outside of content: nearly every client version has
//! put such ids into new fields. An id that names no entry of the session is kept: it may refer to something
//! in another file.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use memchr::memmem;
use rethread_log::{Json, Key, Line, Span, parse_entry, unescape};
use rethread_model::{Facts, Uid};
use rustc_hash::{FxHashMap, FxHashSet};
use wide::u8x16;

use crate::shorten::PartCut;
use crate::splice::{Splice, is_escaped};

/// The location of an id: the bytes between the quotes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IdSpan {
    /// Offset in the log.
    pub(crate) at: u64,
    pub(crate) len: u32,
    pub(crate) role: IdRole,
}

/// The object that an id names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IdRole {
    /// The session that the entry is part of.
    Session,
    /// The entry's parent.
    Parent,
    /// Anything else.
    Other,
}

const UUID_LEN: usize = 36;

/// Finds the ids in an entry, outside of its message and the client's copy of a result. Returns whether the
/// entry's own id is not a UUID.
pub(crate) fn find_id_spans(raw: &[u8], line: &Line, offset: u64, found: &mut Vec<IdSpan>) -> bool {
    let start = found.len();
    let mut push = |at: usize, len: usize, role: IdRole| {
        found.push(IdSpan { at: offset + at as u64, len: u32::try_from(len).unwrap_or(0), role });
    };
    let message = line.message.map_or(Span::default(), |message| message.whole);
    // Content, or a name that a user gave.
    let texts =
        [Key::ToolUseResult, Key::Content, Key::LastPrompt, Key::CustomTitle, Key::AiTitle, Key::Summary];
    let mut skip = [message; 7];
    for (slot, key) in skip[1..].iter_mut().zip(texts) {
        *slot = line.field(key);
    }
    skip.sort_by_key(|span| span.start());
    let (session, parent) = (line.field(Key::SessionId), line.field(Key::ParentUuid));
    let role = |at: usize| match at {
        at if at == session.start() + 1 => IdRole::Session,
        at if at == parent.start() + 1 => IdRole::Parent,
        _ => IdRole::Other,
    };
    let mut at = 0;
    for span in skip.into_iter().filter(|span| !span.is_empty()).chain([Span::default()]) {
        let end = if span.is_empty() { raw.len() } else { span.start() };
        find_uuids(&raw[at..end], |place| push(at + place, UUID_LEN, role(at + place)));
        at = if span.is_empty() { end } else { span.start() + span.len() };
    }
    // A session may have any name.
    let fits = |span: Span| span.string_in(raw).is_none_or(is_uuid);
    if !fits(session) {
        push(session.start() + 1, session.len() - 2, IdRole::Session);
        found[start..].sort_by_key(|span| span.at);
    }
    !fits(line.field(Key::Uuid))
}

/// Finds the ids in a line that is not an entry, such as a torn one.
pub(crate) fn find_junk_id_spans(raw: &[u8], offset: u64, found: &mut Vec<IdSpan>) {
    let len = u32::try_from(UUID_LEN).unwrap_or(0);
    find_uuids(raw, |at| found.push(IdSpan { at: offset + at as u64, len, role: IdRole::Other }));
}

/// Finds strings that are exactly a UUID.
fn find_uuids(raw: &[u8], mut found: impl FnMut(usize)) {
    // Looks for a quote, a dash and a quote at their fixed distances, at sixteen offsets at once: few offsets
    // match.
    const MARKS: [(usize, u8); 3] = [(0, b'"'), (9, b'-'), (1 + UUID_LEN, b'"')];
    let n = raw.len().saturating_sub(1 + UUID_LEN);
    let mut next = 0;
    let mut check = |quote: usize| {
        let id = quote + 1..quote + 1 + UUID_LEN;
        if quote >= next && is_uuid(&raw[id.clone()]) && !is_escaped(raw, quote) {
            found(id.start);
            next = id.end + 1;
        }
    };
    let mut start = 0;
    while let Some([open, dash, close]) = load_sixteen(raw, MARKS.map(|(at, _)| start + at)) {
        let marks = [open, dash, close].into_iter().zip(MARKS);
        let are = marks
            .fold(u8x16::splat(u8::MAX), |are, (bytes, (_, mark))| are & bytes.simd_eq(u8x16::splat(mark)));
        let mut places = are.to_bitmask();
        while places != 0 {
            check(start + places.trailing_zeros() as usize);
            places &= places - 1;
        }
        start += 16;
    }
    let is_one = |&quote: &usize| MARKS.iter().all(|&(at, mark)| raw[quote + at] == mark);
    (start..n).filter(is_one).for_each(check);
}

/// Loads sixteen bytes from each offset, if they exist.
fn load_sixteen<const N: usize>(raw: &[u8], places: [usize; N]) -> Option<[u8x16; N]> {
    let mut found = [u8x16::splat(0); N];
    for (bytes, at) in found.iter_mut().zip(places) {
        *bytes = u8x16::new(*raw.get(at..)?.first_chunk()?);
    }
    Some(found)
}

/// Returns whether a text is a UUID as clients write it, in lower case.
pub(crate) fn is_uuid(text: &[u8]) -> bool {
    const SHAPE: &[u8; UUID_LEN] = b"00000000-0000-0000-0000-000000000000";
    let Ok(text) = <&[u8; UUID_LEN]>::try_from(text) else { return false };
    let digit = |b: u8| b.wrapping_sub(b'0') < 10 || b.wrapping_sub(b'a') < 6;
    let fits = |b: u8, shape: u8| if shape == b'-' { b == b'-' } else { digit(b) };
    // No early exit, so that the compiler can vectorise the loop.
    text.iter().zip(SHAPE).fold(true, |all, (&b, &shape)| all & fits(b, shape))
}

/// Finds ids that are not UUIDs, in fields known to contain ids only.
pub(crate) fn find_non_uuid_ids(bytes: &[u8], facts: &Facts, found: &mut Vec<IdSpan>) {
    for place in &facts.locations {
        let start = usize::try_from(place.offset).unwrap_or(usize::MAX);
        find_non_uuid_ids_in(&bytes[start..start + place.len as usize], place.offset, found);
    }
    found.sort_by_key(|span| span.at);
}

fn find_non_uuid_ids_in(raw: &[u8], offset: u64, found: &mut Vec<IdSpan>) {
    let object = raw.iter().position(|&b| b == b'{').unwrap_or(0);
    let mut waiting: Vec<(bool, Json<'_>)> = Vec::new();
    let entry = Json::new(raw[object..].trim_ascii_end());
    entry.for_each_member(|key, value| {
        if !matches!(key, b"message" | b"toolUseResult" | b"sessionId") {
            waiting.push((is_entry_id_key(key), value));
        }
    });
    while let Some((named, value)) = waiting.pop() {
        let text = value.raw_string().filter(|text| named && !is_uuid(text));
        if let Some(text) = text {
            let at = text.as_ptr().addr() - raw.as_ptr().addr();
            let len = u32::try_from(text.len()).unwrap_or(0);
            found.push(IdSpan { at: offset + at as u64, len, role: IdRole::Other });
        }
        value.for_each_member(|key, value| waiting.push((is_entry_id_key(key), value)));
        waiting.extend(value.items().map(|item| (named, item)));
    }
}

fn is_entry_id_key(key: &[u8]) -> bool {
    let ids = [&b"messageId"[..], b"snapshotMessageId", b"refusedMessageId", b"interruptedMessageId"];
    let uuid = key.to_ascii_lowercase();
    uuid.ends_with(b"uuid") || uuid.ends_with(b"uuids") || ids.contains(&key)
}

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

    /// Returns the entry that references to `uid` lead to: its replacement, if it is removed.
    pub(crate) fn replacement_of(&self, uid: Uid) -> Uid {
        self.replacements.get(&uid).map_or(uid, |replacement| replacement.uid)
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
    /// Returns whether all offsets are unchanged. Writes nothing and returns `None` if paths of large results
    /// might overlap with cuts. The entries `near` are known to be copied.
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
    ) -> Option<bool> {
        let mut changes = self.result_path_changes(raw);
        if !changes.is_empty() && !cuts.is_empty() {
            return None;
        }
        let cut_out = cuts.iter().map(|cut| cut.cut);
        changes.extend(cut_out.map(|cut| (cut.range().start, cut.range().end, cut.mark().into_bytes())));
        let knows = |uid| near.contains(&Some(uid)) || self.is_copied(uid);
        Some(self.write_changed(raw, offset, spans, parent, changes, out, &knows, &mut |_, _| {}))
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
    ) -> bool {
        let mut changes = changes.into_iter().peekable();
        let mut done = 0;
        let mut same = true;
        let mut put = |out: &mut Vec<u8>, start: usize, end: usize, with: &[u8]| {
            if start >= done {
                same &= with.len() == end - start;
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
        same
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
    use proptest::prelude::*;

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

    proptest! {
        #[test]
        fn find_uuids_finds_every_quoted_uuid(
            parts in prop::collection::vec(prop::sample::select(vec![
                format!("\"{OLD}\""), format!("\"{ENTRY}\""), format!("\\\"{OLD}\""), format!("\"{}\"", OLD.replace('1', "G")),
                format!("\"{OLD}"), "\"".into(), "-".into(), "a".into(), ",".into(), "\\".into(), "0123456".into(),
            ]), 0..40),
        ) {
            let text = parts.concat();
            let mut found = Vec::new();
            find_uuids(text.as_bytes(), |at| found.push(at));
            let is_one = |at: &usize| {
                let rest = &text.as_bytes()[*at..];
                rest.starts_with(b"\"") && rest.get(37) == Some(&b'"') && is_uuid(&rest[1..37]) && !is_escaped(text.as_bytes(), *at)
            };
            let mut expected: Vec<usize> = (0..text.len()).filter(is_one).map(|at| at + 1).collect();
            // The quote that ends one UUID does not begin another.
            expected.dedup_by(|next, one| *next == *one + UUID_LEN + 1);
            prop_assert_eq!(found, expected);
        }
    }
}
