//! Finds many words in a text at once.
//!
//! Nearly every place of a text begins no word, so the work is in telling that: the next three bytes are looked up in a
//! small table of bits, which stays in the nearest cache. An automaton for as many words does not, and is slower.

use std::collections::BTreeMap;
use std::ops::Range;

/// The rows of the table, as a power of two: one for the first two bytes of a word.
const ROWS: u32 = 12;
/// The bits of a row: one for the third byte, in which large and small letters are the same, and many others too.
const ROW: usize = 32;
/// How many bytes of a word are compared at once.
const WIDE: usize = 8;

/// Words, and what each stands for.
pub(super) struct WordFinder<T> {
    /// Which heads there are.
    rows: Box<[u32; 1 << ROWS]>,
    /// How many bits are set in the rows before each.
    before: Box<[u16; 1 << ROWS]>,
    /// The words of each bit that is set.
    lists: Vec<Vec<Word<T>>>,
}

/// A word, ready to be compared.
#[derive(Clone)]
struct Word<T> {
    /// Its first bytes, in small letters if that does not matter.
    first: u64,
    /// The bits that count of what is compared with them.
    mask: u64,
    /// The bits that tell large letters from small ones, if that does not matter.
    fold: u64,
    /// What follows them.
    rest: Box<[u8]>,
    len: usize,
    exact: bool,
    value: T,
}

impl<T> Word<T> {
    fn new(spelled: &str, exact: bool, what: T) -> Self {
        let spelled = if exact { spelled.to_owned() } else { spelled.to_ascii_lowercase() };
        let (first, rest) = spelled.as_bytes().split_at(spelled.len().min(WIDE));
        let wide = |byte: &dyn Fn(u8) -> u8| {
            let mut bytes = [0; WIDE];
            bytes.iter_mut().zip(first).for_each(|(slot, b)| *slot = byte(*b));
            u64::from_le_bytes(bytes)
        };
        Self {
            first: wide(&|b| b),
            mask: wide(&|_| 0xff),
            fold: wide(&|b| if !exact && b.is_ascii_lowercase() { 0x20 } else { 0 }),
            rest: rest.into(),
            len: spelled.len(),
            exact,
            value: what,
        }
    }

    /// Tells whether it stands at the beginning of a text, whose first bytes are `eight`.
    fn stands(&self, eight: u64, text: &[u8]) -> bool {
        (eight | self.fold) & self.mask == self.first
            && (self.rest.is_empty()
                || text.get(WIDE..self.len).is_some_and(|behind| {
                    if self.exact { *behind == *self.rest } else { behind.eq_ignore_ascii_case(&self.rest) }
                }))
    }

    /// The places in the table that stand for it.
    fn places(&self) -> Vec<(usize, usize)> {
        // Behind a short word there may be anything.
        let bytes = [0, 1, 2].map(|at: usize| {
            let [byte, fold] = [self.first, self.fold].map(|wide| wide.to_le_bytes()[at]);
            if at < self.len { vec![byte, byte & !fold] } else { (0..=u8::MAX).collect() }
        });
        let [a, b, c] = &bytes;
        let pairs = a.iter().flat_map(|a| b.iter().map(|b| [*a, *b]));
        let heads = pairs.flat_map(|[a, b]| c.iter().map(move |c| [a, b, *c, 0, 0, 0, 0, 0]));
        let mut places: Vec<_> = heads.map(|head| place(u64::from_le_bytes(head))).collect();
        places.sort_unstable();
        places.dedup();
        places
    }
}

/// The row and the bit of the table for what begins with these bytes.
fn place(eight: u64) -> (usize, usize) {
    let row = (eight as u16).wrapping_mul(0x79b1) >> (16 - ROWS);
    (usize::from(row), (eight >> 16) as usize % ROW)
}

impl<T: Copy> WordFinder<T> {
    /// Makes words ready: how each is spelled, whether it has to be spelled so, and what it stands for.
    pub(super) fn new<'w>(words: impl IntoIterator<Item = (&'w str, bool, T)>) -> Self {
        let mut lists: BTreeMap<(usize, usize), Vec<Word<T>>> = BTreeMap::new();
        for (word, exact, what) in words {
            let word = Word::new(word, exact, what);
            for place in word.places() {
                lists.entry(place).or_default().push(word.clone());
            }
        }
        let mut rows = Box::new([0_u32; 1 << ROWS]);
        let mut before = Box::new([0_u16; 1 << ROWS]);
        for (row, bit) in lists.keys() {
            rows[*row] |= 1 << bit;
        }
        for row in 1..rows.len() {
            before[row] = before[row - 1] + rows[row - 1].count_ones() as u16;
        }
        Self { rows, before, lists: lists.into_values().collect() }
    }

    /// Visits every place where a word stands, in order.
    pub(super) fn each(&self, bytes: &[u8], mut visit: impl FnMut(Range<usize>, T)) {
        for (at, eight) in bytes.windows(WIDE).enumerate() {
            let eight = u64::from_le_bytes(std::array::from_fn(|n| eight[n]));
            if self.may_begin(eight) {
                self.at(bytes, at, eight, &mut visit);
            }
        }
        // What is too short for a window is filled up.
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

    /// Tells whether a word may begin with these bytes.
    #[inline(always)]
    fn may_begin(&self, eight: u64) -> bool {
        let (row, bit) = place(eight);
        self.rows[row] >> bit & 1 == 1
    }

    /// Visits the words that stand at a place where one may begin.
    #[inline(never)]
    fn at(&self, bytes: &[u8], at: usize, eight: u64, visit: &mut impl FnMut(Range<usize>, T)) {
        let (row, bit) = place(eight);
        let lower = self.rows[row] & ((1 << bit) - 1);
        for word in &self.lists[usize::from(self.before[row]) + lower.count_ones() as usize] {
            if word.stands(eight, &bytes[at..]) {
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
