//! Finds many words in a text at once.
//!
//! Nearly every position starts no word, so the common case is rejection: the next three bytes are looked up in a
//! small bit table that stays in the L1 cache. An automaton for as many words does not fit there and is slower.

use std::collections::BTreeMap;
use std::ops::Range;

/// The number of table rows as a power of two; the first two bytes of a word select the row.
const ROWS: u32 = 12;
/// The bits of a row; the third byte selects one, ignoring its high bits and so its case.
const ROW: usize = 32;
/// The number of bytes compared at once.
const WIDE: usize = 8;

/// A set of words, each with a value.
pub(super) struct WordFinder<T> {
    /// The bits of the word prefixes that exist.
    rows: Box<[u32; 1 << ROWS]>,
    /// The number of bits set before each row.
    before: Box<[u16; 1 << ROWS]>,
    /// The words of each set bit.
    lists: Vec<Vec<Word<T>>>,
}

/// A word in comparable form.
#[derive(Clone)]
struct Word<T> {
    /// Its first bytes, in lower case if case does not matter.
    first: u64,
    /// The bits to compare.
    mask: u64,
    /// The case bits to set before comparing, if case does not matter.
    fold: u64,
    /// The bytes after `first`.
    rest: Box<[u8]>,
    len: usize,
    exact: bool,
    value: T,
}

impl<T> Word<T> {
    fn new(word: &str, exact: bool, value: T) -> Self {
        let word = if exact { word.to_owned() } else { word.to_ascii_lowercase() };
        let (first, rest) = word.as_bytes().split_at(word.len().min(WIDE));
        let packed = |byte: &dyn Fn(u8) -> u8| {
            let mut bytes = [0; WIDE];
            bytes.iter_mut().zip(first).for_each(|(slot, b)| *slot = byte(*b));
            u64::from_le_bytes(bytes)
        };
        Self {
            first: packed(&|b| b),
            mask: packed(&|_| 0xff),
            fold: packed(&|b| if !exact && b.is_ascii_lowercase() { 0x20 } else { 0 }),
            rest: rest.into(),
            len: word.len(),
            exact,
            value,
        }
    }

    /// Returns whether a text starts with the word; `eight` are its first bytes.
    fn matches(&self, eight: u64, text: &[u8]) -> bool {
        (eight | self.fold) & self.mask == self.first
            && (self.rest.is_empty()
                || text.get(WIDE..self.len).is_some_and(|after| {
                    if self.exact { *after == *self.rest } else { after.eq_ignore_ascii_case(&self.rest) }
                }))
    }

    /// Returns the table positions of the word.
    fn positions(&self) -> Vec<(usize, usize)> {
        // Any byte may follow a short word.
        let bytes = [0, 1, 2].map(|at: usize| {
            let [byte, fold] = [self.first, self.fold].map(|packed| packed.to_le_bytes()[at]);
            if at < self.len { vec![byte, byte & !fold] } else { (0..=u8::MAX).collect() }
        });
        let [a, b, c] = &bytes;
        let pairs = a.iter().flat_map(|a| b.iter().map(|b| [*a, *b]));
        let heads = pairs.flat_map(|[a, b]| c.iter().map(move |c| [a, b, *c, 0, 0, 0, 0, 0]));
        let mut positions: Vec<_> = heads.map(|head| table_position(u64::from_le_bytes(head))).collect();
        positions.sort_unstable();
        positions.dedup();
        positions
    }
}

/// Returns the row and the bit of the table for a prefix.
fn table_position(eight: u64) -> (usize, usize) {
    let row = (eight as u16).wrapping_mul(0x79b1) >> (16 - ROWS);
    (usize::from(row), (eight >> 16) as usize % ROW)
}

impl<T: Copy> WordFinder<T> {
    /// Creates a finder from words, each with whether its case matters and its value.
    pub(super) fn new<'w>(words: impl IntoIterator<Item = (&'w str, bool, T)>) -> Self {
        let mut lists: BTreeMap<(usize, usize), Vec<Word<T>>> = BTreeMap::new();
        for (word, exact, value) in words {
            let word = Word::new(word, exact, value);
            for position in word.positions() {
                lists.entry(position).or_default().push(word.clone());
            }
        }
        let mut rows = Box::new([0_u32; 1 << ROWS]);
        let mut before = Box::new([0_u16; 1 << ROWS]);
        for (row, bit) in lists.keys() {
            rows[*row] |= 1 << bit;
        }
        for row in 1..rows.len() {
            let lists = u32::from(before[row - 1]) + rows[row - 1].count_ones();
            before[row] = u16::try_from(lists).expect("words of two bytes or more make few lists");
        }
        Self { rows, before, lists: lists.into_values().collect() }
    }

    /// Visits all occurrences of words, in order.
    pub(super) fn each(&self, bytes: &[u8], mut visit: impl FnMut(Range<usize>, T)) {
        for (at, eight) in bytes.windows(WIDE).enumerate() {
            let eight = u64::from_le_bytes(std::array::from_fn(|n| eight[n]));
            if self.may_begin(eight) {
                self.at(bytes, at, eight, &mut visit);
            }
        }
        // The last bytes, too few for a window, are padded.
        let last = bytes.len().saturating_sub(WIDE - 1);
        let mut filled = [0; 2 * WIDE];
        filled[..bytes.len() - last].copy_from_slice(&bytes[last..]);
        for (at, eight) in (last..bytes.len()).zip(filled.windows(WIDE)) {
            let eight = u64::from_le_bytes(std::array::from_fn(|n| eight[n]));
            if self.may_begin(eight) {
                self.at(bytes, at, eight, &mut visit);
            }
        }
    }

    /// Returns whether a word may start with these bytes.
    #[inline(always)]
    fn may_begin(&self, eight: u64) -> bool {
        let (row, bit) = table_position(eight);
        self.rows[row] >> bit & 1 == 1
    }

    /// Visits the words at a position where one may start.
    #[inline(never)]
    fn at(&self, bytes: &[u8], at: usize, eight: u64, visit: &mut impl FnMut(Range<usize>, T)) {
        let (row, bit) = table_position(eight);
        let lower = self.rows[row] & ((1 << bit) - 1);
        for word in &self.lists[usize::from(self.before[row]) + lower.count_ones() as usize] {
            if word.matches(eight, &bytes[at..]) {
                visit(at..at + word.len, word.value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(words: &[(&str, bool)], text: &str) -> Vec<(usize, usize)> {
        let all = WordFinder::new(words.iter().enumerate().map(|(n, (word, exact))| (*word, *exact, n)));
        let mut seen = Vec::new();
        all.each(text.as_bytes(), |range, n| seen.push((range.start, n)));
        seen
    }

    #[test]
    fn words_are_found_at_every_position() {
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
