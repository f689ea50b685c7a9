//! Finds many words in a text at once.
//!
//! Nearly every place of a text begins no word, so the work is in telling that: three bytes are looked up in a small
//! table of bits, which stays in the nearest cache. An automaton for as many words does not, and is slower.

use std::ops::Range;

use rustc_hash::FxHashMap;

/// The bits of the table.
const BITS: u32 = 17;
/// How many bytes of a word are looked up.
const HEAD: usize = 3;

/// Words, and what each stands for.
pub(super) struct Words<T> {
    /// Which heads there are, as they may be spelled.
    heads: Box<[u64]>,
    /// The words, by their heads in small letters.
    by_head: FxHashMap<u32, Group<T>>,
}

/// The words that begin alike.
struct Group<T> {
    /// Which bytes, in small letters, may stand behind the head: most places are told apart by that.
    next: [bool; 256],
    words: Vec<Word<T>>,
}

impl<T> Default for Group<T> {
    fn default() -> Self {
        Self { next: [false; 256], words: Vec::new() }
    }
}

struct Word<T> {
    /// How it is spelled; in small letters if that does not matter.
    spelled: Box<[u8]>,
    exact: bool,
    what: T,
}

/// Three bytes as a number, in small letters.
fn lower(head: u32) -> u32 {
    let [a, b, c, _] = head.to_le_bytes().map(|b| b.to_ascii_lowercase());
    u32::from_le_bytes([a, b, c, 0])
}

fn hash(head: u32) -> usize {
    ((head << 8).wrapping_mul(0x9e37_79b1) >> (32 - BITS)) as usize
}

impl<T: Copy> Words<T> {
    pub(super) fn new() -> Self {
        Self { heads: vec![0; 1 << (BITS - 6)].into_boxed_slice(), by_head: FxHashMap::default() }
    }

    /// Adds a word; `exact` says that it has to be spelled so.
    pub(super) fn add(&mut self, word: &str, exact: bool, what: T) {
        let spelled = if exact { word.to_owned() } else { word.to_ascii_lowercase() };
        let spelled = spelled.into_bytes().into_boxed_slice();
        // A shorter word may have anything behind it.
        let mut heads = vec![0_u32];
        for at in 0..HEAD {
            let bytes: Vec<u8> = match spelled.get(at) {
                Some(b) if exact => vec![*b],
                Some(b) => vec![*b, b.to_ascii_uppercase()],
                None => (0..=u8::MAX).collect(),
            };
            heads = heads
                .iter()
                .flat_map(|head| bytes.iter().map(move |b| head | u32::from(*b) << (8 * at)))
                .collect();
        }
        for head in &heads {
            let bit = hash(*head);
            self.heads[bit / 64] |= 1 << (bit % 64);
        }
        let mut keys: Vec<u32> = heads.into_iter().map(lower).collect();
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            let group = self.by_head.entry(key).or_default();
            match spelled.get(HEAD) {
                Some(next) => group.next[usize::from(next.to_ascii_lowercase())] = true,
                None => group.next = [true; 256],
            }
            group.words.push(Word { spelled: spelled.clone(), exact, what });
        }
    }

    /// Visits every place where a word stands, in order.
    pub(super) fn each(&self, bytes: &[u8], mut visit: impl FnMut(Range<usize>, T)) {
        let Ok(heads) = <&[u64; 1 << (BITS - 6)]>::try_from(&*self.heads) else { return };
        for (at, four) in bytes.windows(4).enumerate() {
            let head = u32::from_le_bytes([four[0], four[1], four[2], four[3]]) & 0x00ff_ffff;
            let bit = hash(head);
            if heads[bit / 64] >> (bit % 64) & 1 == 1 {
                self.at(bytes, at, head, &mut visit);
            }
        }
        // What is too short for a window is filled up.
        for at in bytes.len().saturating_sub(HEAD)..bytes.len() {
            let byte = |n: usize| bytes.get(at + n).copied().unwrap_or(0);
            let head = u32::from_le_bytes([byte(0), byte(1), byte(2), 0]);
            self.at(bytes, at, head, &mut visit);
        }
    }

    /// Visits the words that stand at a place.
    fn at(&self, bytes: &[u8], at: usize, head: u32, visit: &mut impl FnMut(Range<usize>, T)) {
        let Some(group) = self.by_head.get(&lower(head)) else { return };
        let next = bytes.get(at + HEAD).map(u8::to_ascii_lowercase);
        if next.is_some_and(|next| !group.next[usize::from(next)]) {
            return;
        }
        for word in &group.words {
            // Two words are told apart by their next bytes too.
            if word.spelled.get(HEAD).is_some_and(|b| Some(b.to_ascii_lowercase()) != next) {
                continue;
            }
            let end = at + word.spelled.len();
            let stands = bytes.get(at..end).is_some_and(|bytes| {
                if word.exact { *bytes == *word.spelled } else { bytes.eq_ignore_ascii_case(&word.spelled) }
            });
            if stands {
                visit(at..end, word.what);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(words: &[(&str, bool)], text: &str) -> Vec<(usize, usize)> {
        let mut all = Words::new();
        for (n, (word, exact)) in words.iter().enumerate() {
            all.add(word, *exact, n);
        }
        let mut seen = Vec::new();
        all.each(text.as_bytes(), |range, n| seen.push((range.start, n)));
        seen
    }

    #[test]
    fn words_are_found_wherever_they_stand() {
        let words = [("pass", false), ("pw", false), ("SK", true), ("password", false), ("://", false)];
        assert_eq!(found(&words, "PassWord pW sk SK"), [(0, 0), (0, 3), (9, 1), (15, 2)]);
        assert_eq!(found(&words, "a://b"), [(1, 4)]);
        for text in ["", "p", "pw", "xpw", "passwor"] {
            let plain: Vec<(usize, usize)> = words
                .iter()
                .enumerate()
                .flat_map(|(n, (word, _))| text.match_indices(word).map(move |(at, _)| (at, n)))
                .collect();
            assert_eq!(found(&words, text), plain, "{text}");
        }
    }
}
