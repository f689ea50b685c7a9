//! The places of ids in a log.

use rethread_log::{Json, Key, Line, Span};
use rethread_model::Facts;
use wide::u8x16;

use crate::splice::is_escaped;

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

/// The length of a UUID as text.
pub(super) const UUID_LEN: usize = 36;

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

/// Finds ids of an entry that are not UUIDs.
pub(super) fn find_non_uuid_ids_in(raw: &[u8], offset: u64, found: &mut Vec<IdSpan>) {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OLD: &str = "11111111-1111-4111-8111-111111111111";
    const ENTRY: &str = "33333333-3333-4333-8333-333333333333";

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
