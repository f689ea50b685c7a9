//! The two loops that process most bytes, for the widest registers of the machine.
//!
//! They are written once, over [`Lanes`], and compiled for sixteen bytes at a time, which every machine
//! supports, and for thirty-two with AVX2. The choice is made at run time.

use wide::u8x16;

use super::ScanError;

/// The bytes that matter inside a string, as bit masks over 64 bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StringBits {
    quotes: u64,
    backslashes: u64,
    controls: u64,
}

/// The bytes that matter for the structure of JSON, as bit masks over 64 bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StructureBits {
    strings: StringBits,
    /// `{` and `[`
    opens: u64,
    /// `}` and `]`
    closes: u64,
    /// `,` and `:`
    separators: u64,
}

/// Classifies 64 bytes at a time.
pub(super) trait Lanes: Copy {
    /// Finds the bytes that matter inside a string.
    fn string_bits(self, bytes: &[u8; 64]) -> StringBits;
    /// Finds those and the structural bytes.
    fn structure_bits(self, bytes: &[u8; 64]) -> StructureBits;
}

/// Sixteen bytes at a time.
#[derive(Clone, Copy)]
struct Lanes16;

impl Lanes16 {
    #[inline(always)]
    fn bitmask(bytes: &[u8; 64], mask: impl Fn(u8x16) -> u8x16) -> u64 {
        let parts = bytes.as_chunks::<16>().0.iter().enumerate();
        parts.fold(0, |bits, (i, part)| bits | u64::from(mask(u8x16::new(*part)).to_bitmask()) << (16 * i))
    }

    #[inline(always)]
    fn eq_mask(bytes: &[u8; 64], byte: u8) -> u64 {
        Self::bitmask(bytes, |part| part.simd_eq(u8x16::splat(byte)))
    }

    /// Matches `byte` with one bit ignored: `[` and `]` differ from `{` and `}` in one bit.
    #[inline(always)]
    fn eq_mask_folded(bytes: &[u8; 64], byte: u8) -> u64 {
        Self::bitmask(bytes, |part| (part | u8x16::splat(0x20)).simd_eq(u8x16::splat(byte)))
    }
}

impl Lanes for Lanes16 {
    #[inline(always)]
    fn string_bits(self, bytes: &[u8; 64]) -> StringBits {
        let limit = u8x16::splat(0x1f);
        StringBits {
            quotes: Self::eq_mask(bytes, b'"'),
            backslashes: Self::eq_mask(bytes, b'\\'),
            controls: Self::bitmask(bytes, |part| part.max(limit).simd_eq(limit)),
        }
    }

    #[inline(always)]
    fn structure_bits(self, bytes: &[u8; 64]) -> StructureBits {
        StructureBits {
            strings: self.string_bits(bytes),
            opens: Self::eq_mask_folded(bytes, b'{'),
            closes: Self::eq_mask_folded(bytes, b'}'),
            separators: Self::eq_mask(bytes, b',') | Self::eq_mask(bytes, b':'),
        }
    }
}

/// A task that is generic over the width of the lanes.
pub(super) trait LaneTask {
    type Output;
    fn run(self, lanes: impl Lanes) -> Self::Output;
}

/// Runs a task with the widest lanes available.
#[inline]
pub(super) fn with_lanes<T: LaneTask>(task: T) -> T::Output {
    #[cfg(target_arch = "x86_64")]
    if let Some(avx2) = avx2::detect() {
        return avx2.run(task);
    }
    task.run(Lanes16)
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::__m256i;
    use std::sync::OnceLock;

    use pulp::x86::V3;

    use super::{LaneTask, Lanes, StringBits, StructureBits};

    /// Thirty-two bytes at a time. A value of this type proves that the machine supports it.
    #[derive(Clone, Copy)]
    pub(super) struct Avx2(V3);

    pub(super) fn detect() -> Option<Avx2> {
        static FOUND: OnceLock<Option<V3>> = OnceLock::new();
        FOUND.get_or_init(V3::try_new).map(Avx2)
    }

    impl Avx2 {
        #[inline(always)]
        pub(super) fn run<T: LaneTask>(self, task: T) -> T::Output {
            struct VectorizedTask<T>(T, Avx2);
            impl<T: LaneTask> pulp::NullaryFnOnce for VectorizedTask<T> {
                type Output = T::Output;
                #[inline(always)]
                fn call(self) -> T::Output {
                    self.0.run(self.1)
                }
            }
            self.0.vectorize(VectorizedTask(task, self))
        }
    }

    /// Everything here must be inlined: a call would pass the 32 bytes through memory.
    impl Avx2 {
        #[inline(always)]
        fn splat(self, byte: u8) -> __m256i {
            self.0.avx._mm256_set1_epi8(byte.cast_signed())
        }

        #[inline(always)]
        fn cmp_eq(self, part: __m256i, byte: u8) -> __m256i {
            self.0.avx2._mm256_cmpeq_epi8(part, self.splat(byte))
        }

        #[inline(always)]
        fn or(self, a: __m256i, b: __m256i) -> __m256i {
            self.0.avx2._mm256_or_si256(a, b)
        }

        /// Matches control characters.
        #[inline(always)]
        fn is_control(self, part: __m256i) -> __m256i {
            self.cmp_eq(self.0.avx2._mm256_max_epu8(part, self.splat(0x1f)), 0x1f)
        }

        #[inline(always)]
        fn bitmask(self, low: __m256i, high: __m256i) -> u64 {
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
        fn string_bits(self, bytes: &[u8; 64]) -> StringBits {
            let [a, b] = Self::load(bytes);
            StringBits {
                quotes: self.bitmask(self.cmp_eq(a, b'"'), self.cmp_eq(b, b'"')),
                backslashes: self.bitmask(self.cmp_eq(a, b'\\'), self.cmp_eq(b, b'\\')),
                controls: self.bitmask(self.is_control(a), self.is_control(b)),
            }
        }

        #[inline(always)]
        fn structure_bits(self, bytes: &[u8; 64]) -> StructureBits {
            let [a, b] = Self::load(bytes);
            let (fold_a, fold_b) = (self.or(a, self.splat(0x20)), self.or(b, self.splat(0x20)));
            StructureBits {
                strings: self.string_bits(bytes),
                opens: self.bitmask(self.cmp_eq(fold_a, b'{'), self.cmp_eq(fold_b, b'{')),
                closes: self.bitmask(self.cmp_eq(fold_a, b'}'), self.cmp_eq(fold_b, b'}')),
                separators: self.bitmask(
                    self.or(self.cmp_eq(a, b','), self.cmp_eq(a, b':')),
                    self.or(self.cmp_eq(b, b','), self.cmp_eq(b, b':')),
                ),
            }
        }
    }
}

/// Finds escaped bytes: those after an odd number of consecutive backslashes.
///
/// `carry` says whether the previous block escapes the first byte, and is updated for the next block.
/// Adding the first bit of a run to the run carries to the bit after its end; whether that position has
/// the same parity as the start gives the parity of the run's length.
#[inline(always)]
fn find_escaped(backslashes: u64, carry: &mut u64) -> u64 {
    if backslashes == 0 {
        return std::mem::take(carry);
    }
    const EVEN: u64 = 0x5555_5555_5555_5555;
    let backslashes = backslashes & !*carry;
    let after_backslash = backslashes << 1 | *carry;
    let odd_starts = backslashes & !EVEN & !after_backslash;
    let (runs, overflow) = odd_starts.overflowing_add(backslashes);
    *carry = u64::from(overflow);
    (EVEN ^ (runs << 1)) & after_backslash
}

/// Sets every bit that has an odd number of set bits at or below it.
#[inline(always)]
fn prefix_xor(mut bits: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
}

/// Returns the 64 bytes at `pos`, padded with blanks at the end of the line; `None` after it.
#[inline(always)]
fn chunk_at<'a>(bytes: &'a [u8], pos: usize, padded: &'a mut [u8; 64]) -> Option<&'a [u8; 64]> {
    let rest = bytes.get(pos..).filter(|rest| !rest.is_empty())?;
    if let Some(chunk) = rest.first_chunk::<64>() {
        return Some(chunk);
    }
    *padded = [b' '; 64];
    padded[..rest.len()].copy_from_slice(rest);
    Some(padded)
}

/// Finds the closing quote of the string whose inner bytes begin at `at`.
pub(super) struct StringEnd<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
}

/// The end of a string, and what it contains.
pub(super) struct ScannedString {
    pub(super) end: usize,
    pub(super) escaped: bool,
    pub(super) suspicious: bool,
}

impl LaneTask for StringEnd<'_> {
    type Output = Result<ScannedString, ScanError>;

    #[inline(always)]
    fn run(self, lanes: impl Lanes) -> Self::Output {
        let mut seen = ScannedString { end: 0, escaped: false, suspicious: false };
        let mut padded = [0; 64];
        let mut pos = self.at;
        let mut carry = 0;
        loop {
            let chunk = chunk_at(self.bytes, pos, &mut padded).ok_or(ScanError::CutShort)?;
            let StringBits { quotes, backslashes, controls } = lanes.string_bits(chunk);
            let ends = quotes & !find_escaped(backslashes, &mut carry);
            // Bits after the end do not belong to the string.
            let inside = ends.wrapping_sub(1) & !ends;
            seen.escaped |= backslashes & inside != 0;
            seen.suspicious |= controls & inside != 0;
            if ends != 0 {
                seen.end = pos + ends.trailing_zeros() as usize;
                return Ok(seen);
            }
            pos += 64;
        }
    }
}

/// Skips the object or array that begins at `at` by counting brackets outside strings; also returns
/// whether anything suspicious was seen.
pub(super) struct ContainerEnd<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
}

impl LaneTask for ContainerEnd<'_> {
    type Output = Result<(usize, bool), ScanError>;

    #[inline(always)]
    fn run(self, lanes: impl Lanes) -> Self::Output {
        let mut padded = [0; 64];
        let mut suspicious = false;
        let mut depth = 1u32;
        let mut pos = self.at + 1;
        // State carried between blocks: whether the last byte escapes, is inside a string, can precede a
        // string, ends a string.
        let (mut escapes, mut in_string, mut before, mut ended) = (0, 0u64, 1u64, 0u64);
        loop {
            let chunk = chunk_at(self.bytes, pos, &mut padded).ok_or(ScanError::CutShort)?;
            let StructureBits { strings, opens, closes, separators } = lanes.structure_bits(chunk);
            let quotes = strings.quotes & !find_escaped(strings.backslashes, &mut escapes);
            // The bytes of strings, including the opening quote but not the closing one.
            let inside = prefix_xor(quotes) ^ in_string;
            let (opens, closes, separators) = (opens & !inside, closes & !inside, separators & !inside);
            // A string follows `{`, `[`, `,` or `:` and precedes `}`, `]`, `,` or `:`; otherwise no
            // client wrote the line. An end at the last bit is checked in the next block.
            let may_precede = (opens | separators) << 1 | before;
            let may_follow = closes | separators;
            let mut invalid = quotes & inside & !may_precede;
            invalid |= quotes & !inside & !(may_follow >> 1 | 1 << 63);
            invalid |= ended & !may_follow & 1;
            // A backslash outside a string is invalid JSON, and the bytes it seems to escape may be
            // misread.
            invalid |= strings.controls | strings.backslashes & !inside;
            if closes.count_ones() >= depth {
                let mut brackets = opens | closes;
                while brackets != 0 {
                    let bit = brackets & brackets.wrapping_neg();
                    if opens & bit != 0 {
                        depth += 1;
                    } else {
                        depth -= 1;
                        if depth == 0 {
                            // Bits after the end do not belong to the container.
                            suspicious |= invalid & (bit - 1) != 0;
                            return Ok((pos + bit.trailing_zeros() as usize + 1, suspicious));
                        }
                    }
                    brackets &= brackets - 1;
                }
            } else {
                depth =
                    depth.checked_add(opens.count_ones()).ok_or(ScanError::NotJson)? - closes.count_ones();
            }
            suspicious |= invalid != 0;
            in_string = ((inside.cast_signed()) >> 63).cast_unsigned();
            before = (opens | separators) >> 63;
            ended = (quotes & !inside) >> 63;
            pos += 64;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The reference implementation, byte by byte.
    fn bytewise_container_end(bytes: &[u8]) -> Option<usize> {
        let (mut depth, mut in_string, mut at) = (1, false, 1);
        while at < bytes.len() {
            match (in_string, bytes[at]) {
                (true, b'\\') => at += 1,
                (false, b'\\') => return None,
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
        let narrow = ContainerEnd { bytes, at: 0 }.run(Lanes16);
        let widest = with_lanes(ContainerEnd { bytes, at: 0 });
        assert_eq!(narrow, widest, "lanes of all widths agree");
        // Invalid JSON may end elsewhere, but must be reported as suspicious.
        if widest.is_ok_and(|(_, suspicious)| suspicious) {
            return;
        }
        assert_eq!(
            widest.ok().map(|(end, _)| end),
            bytewise_container_end(bytes),
            "{}",
            String::from_utf8_lossy(bytes)
        );
    }

    #[test]
    fn special_bytes_are_found_at_every_offset_of_a_block() {
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
        fn blockwise_and_bytewise_scans_agree(text in "\\[[\\[\\]{}\\\\\"a \n]{0,200}") {
            check(text.as_bytes());
        }
    }
}
