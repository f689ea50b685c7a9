//! The two loops that most bytes pass through, for the widest registers that the machine has.
//!
//! They are written once, over [`Lanes`], and compiled for sixteen bytes at a time, which every
//! machine can do, and for thirty-two where AVX2 is there; which one runs is decided at run time.

use wide::u8x16;

use super::{Broken, string_stops};

/// What matters in 64 bytes, a bit for each.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block {
    quotes: u64,
    /// Backslashes and control characters.
    specials: u64,
    /// Brackets of either kind. Left empty by [`Lanes::stops`].
    brackets: u64,
}

/// A way to look at 64 bytes.
pub(super) trait Lanes: Copy {
    /// Finds quotes, brackets and what is special in a string.
    fn block(self, bytes: &[u8; 64]) -> Block;
    /// Finds what can end or bend a string.
    fn stops(self, bytes: &[u8; 64]) -> u64;
}

/// Sixteen bytes at a time.
#[derive(Clone, Copy)]
struct Narrow;

impl Lanes for Narrow {
    #[inline(always)]
    fn block(self, bytes: &[u8; 64]) -> Block {
        let mut block = Block { quotes: 0, specials: 0, brackets: 0 };
        for (i, part) in bytes.as_chunks::<16>().0.iter().enumerate() {
            let part = u8x16::new(*part);
            let limit = u8x16::splat(0x1f);
            let special = part.simd_eq(u8x16::splat(b'\\')) | part.max(limit).simd_eq(limit);
            // `[` and `]` differ from `{` and `}` in one bit.
            let folded = part | u8x16::splat(0x20);
            let bracket = folded.simd_eq(u8x16::splat(b'{')) | folded.simd_eq(u8x16::splat(b'}'));
            let quote = part.simd_eq(u8x16::splat(b'"'));
            block.quotes |= u64::from(quote.to_bitmask()) << (16 * i);
            block.specials |= u64::from(special.to_bitmask()) << (16 * i);
            block.brackets |= u64::from(bracket.to_bitmask()) << (16 * i);
        }
        block
    }

    #[inline(always)]
    fn stops(self, bytes: &[u8; 64]) -> u64 {
        let parts = bytes.as_chunks::<16>().0.iter().enumerate();
        parts.fold(0, |bits, (i, part)| bits | u64::from(string_stops(u8x16::new(*part))) << (16 * i))
    }
}

/// Something that is done with one way of looking or the other.
pub(super) trait Task {
    type Output;
    fn run(self, lanes: impl Lanes) -> Self::Output;
}

/// Runs a task with the widest lanes that there are.
#[inline]
pub(super) fn with_lanes<T: Task>(task: T) -> T::Output {
    #[cfg(target_arch = "x86_64")]
    if let Some(avx2) = avx2::lanes() {
        return avx2.run(task);
    }
    task.run(Narrow)
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::__m256i;
    use std::sync::OnceLock;

    use pulp::x86::V3;

    use super::{Block, Lanes, Task};

    /// Thirty-two bytes at a time. Holding one proves that the machine can.
    #[derive(Clone, Copy)]
    pub(super) struct Avx2(V3);

    pub(super) fn lanes() -> Option<Avx2> {
        static FOUND: OnceLock<Option<V3>> = OnceLock::new();
        FOUND.get_or_init(V3::try_new).map(Avx2)
    }

    impl Avx2 {
        #[inline(always)]
        pub(super) fn run<T: Task>(self, task: T) -> T::Output {
            struct Run<T>(T, Avx2);
            impl<T: Task> pulp::NullaryFnOnce for Run<T> {
                type Output = T::Output;
                #[inline(always)]
                fn call(self) -> T::Output {
                    self.0.run(self.1)
                }
            }
            self.0.vectorize(Run(task, self))
        }
    }

    /// Thirty-two bytes. Everything about them must be inlined: a call would pass them by memory.
    impl Avx2 {
        #[inline(always)]
        fn set(self, byte: u8) -> __m256i {
            self.0.avx._mm256_set1_epi8(byte.cast_signed())
        }

        #[inline(always)]
        fn is(self, part: __m256i, byte: u8) -> __m256i {
            self.0.avx2._mm256_cmpeq_epi8(part, self.set(byte))
        }

        #[inline(always)]
        fn or(self, a: __m256i, b: __m256i) -> __m256i {
            self.0.avx2._mm256_or_si256(a, b)
        }

        /// Control characters.
        #[inline(always)]
        fn is_control(self, part: __m256i) -> __m256i {
            self.is(self.0.avx2._mm256_max_epu8(part, self.set(0x1f)), 0x1f)
        }

        #[inline(always)]
        fn bits(self, low: __m256i, high: __m256i) -> u64 {
            let low = self.0.avx2._mm256_movemask_epi8(low).cast_unsigned();
            let high = self.0.avx2._mm256_movemask_epi8(high).cast_unsigned();
            u64::from(low) | u64::from(high) << 32
        }

        #[inline(always)]
        fn load(bytes: &[u8; 64]) -> [__m256i; 2] {
            pulp::cast(*bytes)
        }
    }

    impl Lanes for Avx2 {
        #[inline(always)]
        fn block(self, bytes: &[u8; 64]) -> Block {
            let [a, b] = Self::load(bytes);
            let (fold_a, fold_b) = (self.or(a, self.set(0x20)), self.or(b, self.set(0x20)));
            Block {
                quotes: self.bits(self.is(a, b'"'), self.is(b, b'"')),
                specials: self.bits(
                    self.or(self.is(a, b'\\'), self.is_control(a)),
                    self.or(self.is(b, b'\\'), self.is_control(b)),
                ),
                brackets: self.bits(
                    self.or(self.is(fold_a, b'{'), self.is(fold_a, b'}')),
                    self.or(self.is(fold_b, b'{'), self.is(fold_b, b'}')),
                ),
            }
        }

        #[inline(always)]
        fn stops(self, bytes: &[u8; 64]) -> u64 {
            let [a, b] = Self::load(bytes);
            self.bits(
                self.or(self.or(self.is(a, b'"'), self.is(a, b'\\')), self.is_control(a)),
                self.or(self.or(self.is(b, b'"'), self.is(b, b'\\')), self.is_control(b)),
            )
        }
    }
}

/// Returns the number of the first bit at or above `from`, or 64.
#[inline(always)]
fn first_bit(bits: u64, from: u32) -> u32 {
    if from >= 64 { 64 } else { (bits >> from << from).trailing_zeros() }
}

/// Finds the closing quote of the string whose inner bytes begin at `at`.
pub(super) struct StringEnd<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
}

/// Where a string ends, and what was seen in it.
pub(super) struct StringSeen {
    pub(super) end: usize,
    pub(super) escaped: bool,
    pub(super) suspicious: bool,
}

impl Task for StringEnd<'_> {
    type Output = Result<StringSeen, Broken>;

    #[inline(always)]
    fn run(self, lanes: impl Lanes) -> Self::Output {
        let Self { bytes, at } = self;
        let mut seen = StringSeen { end: 0, escaped: false, suspicious: false };
        let mut pos = at;
        while let Some(chunk) = bytes.get(pos..).and_then(<[u8]>::first_chunk::<64>) {
            let stops = lanes.stops(chunk);
            let mut done = 0;
            loop {
                let stop = first_bit(stops, done);
                if stop == 64 {
                    // A backslash at the very end takes the next byte with it.
                    pos += done.max(64) as usize;
                    break;
                }
                match chunk[stop as usize] {
                    b'"' => {
                        seen.end = pos + stop as usize;
                        return Ok(seen);
                    }
                    b'\\' => {
                        seen.escaped = true;
                        done = stop + 2;
                    }
                    _ => {
                        seen.suspicious = true;
                        done = stop + 1;
                    }
                }
            }
        }
        // The last bytes of a line, one by one.
        loop {
            match *bytes.get(pos).ok_or(Broken::CutShort)? {
                b'"' => {
                    seen.end = pos;
                    return Ok(seen);
                }
                b'\\' => {
                    seen.escaped = true;
                    pos += 1;
                }
                byte => seen.suspicious |= byte < 0x20,
            }
            pos += 1;
        }
    }
}

/// Steps over the object or array that begins at `at` by counting brackets outside strings; tells
/// whether something odd was seen.
///
/// What is short is seen whole in a block of 64 bytes; a string that goes on behind the block is
/// stepped over by itself.
pub(super) struct ContainerEnd<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
}

impl Task for ContainerEnd<'_> {
    type Output = Result<(usize, bool), Broken>;

    #[inline(always)]
    fn run(self, lanes: impl Lanes) -> Self::Output {
        let Self { bytes, at } = self;
        let mut suspicious = false;
        let mut depth = 1usize;
        let mut pos = at + 1;
        loop {
            let mut padded = [b' '; 64];
            let rest = bytes.get(pos..).filter(|rest| !rest.is_empty()).ok_or(Broken::CutShort)?;
            let chunk = rest.first_chunk::<64>().unwrap_or_else(|| {
                padded[..rest.len()].copy_from_slice(rest);
                &padded
            });
            let block = lanes.block(chunk);
            let mut done = 0;
            loop {
                let hit = first_bit(block.quotes | block.brackets, done);
                if hit == 64 {
                    pos += 64;
                    break;
                }
                done = hit + 1;
                match chunk[hit as usize] {
                    b'"' => {
                        let stops = block.quotes | block.specials;
                        let mut stop = first_bit(stops, done);
                        while stop < 63 && chunk[stop as usize] == b'\\' {
                            stop = first_bit(stops, stop + 2);
                        }
                        let end = if stop < 64 && chunk[stop as usize] == b'"' {
                            pos + stop as usize
                        } else {
                            let string = StringEnd { bytes, at: pos + stop as usize }.run(lanes)?;
                            suspicious |= string.suspicious;
                            string.end
                        };
                        suspicious |= odd_neighbours(bytes, pos + hit as usize, end);
                        if end >= pos + 63 {
                            pos = end + 1;
                            break;
                        }
                        done = u32::try_from(end + 1 - pos).unwrap_or(64);
                    }
                    b'{' | b'[' => depth += 1,
                    _ => {
                        depth -= 1;
                        if depth == 0 {
                            return Ok((pos + done as usize, suspicious));
                        }
                    }
                }
            }
        }
    }
}

/// A string stands behind `{`, `[`, `,` or `:` and before `}`, `]`, `,` or `:`, or someone else than
/// a client wrote the line.
#[inline(always)]
fn odd_neighbours(bytes: &[u8], open: usize, close: usize) -> bool {
    let before = bytes[open - 1];
    let after = bytes.get(close + 1).copied().unwrap_or(b',');
    !matches!(before, b'{' | b'[' | b',' | b':') || !matches!(after, b'}' | b']' | b',' | b':')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What a reader of single bytes finds.
    fn plainly(bytes: &[u8]) -> Option<usize> {
        let (mut depth, mut in_string, mut at) = (1, false, 1);
        while at < bytes.len() {
            match (in_string, bytes[at]) {
                (true, b'\\') => at += 1,
                (_, b'"') => in_string = !in_string,
                (false, b'{' | b'[') => depth += 1,
                (false, b'}' | b']') => depth -= 1,
                _ => {}
            }
            at += 1;
            if depth == 0 {
                return Some(at);
            }
        }
        None
    }

    fn check(bytes: &[u8]) {
        let narrow = ContainerEnd { bytes, at: 0 }.run(Narrow);
        let widest = with_lanes(ContainerEnd { bytes, at: 0 });
        assert_eq!(narrow, widest, "all lanes see the same");
        assert_eq!(widest.ok().map(|(end, _)| end), plainly(bytes), "{}", String::from_utf8_lossy(bytes));
    }

    #[test]
    fn everything_is_seen_at_every_offset_of_a_block() {
        let inner = r#"{"k":"short","l":"a long string that does not end \"inside\" the same block \\ at all, no","m":[{"n":"\\"}],"o":1}"#;
        for shift in 0..70 {
            let value = format!("[{}{inner},{inner}]", " ".repeat(shift));
            for tail in ["", "}", &" ".repeat(100)] {
                check(format!("{value}{tail}").as_bytes());
            }
            for cut in value.len() - 70..value.len() {
                check(&value.as_bytes()[..cut]);
            }
        }
    }

    proptest! {
        #[test]
        fn blocks_and_single_bytes_agree(text in "\\[[\\[\\]{}\\\\\"a \n]{0,200}") {
            check(text.as_bytes());
        }
    }
}
