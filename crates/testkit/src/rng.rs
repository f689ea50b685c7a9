//! A random generator that gives the same sequence for a seed on every machine.

/// A linear congruential generator; the quality of its randomness does not matter here.
pub(crate) struct TestRng(pub(crate) u64);

impl TestRng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    /// Returns `n` characters of an ASCII alphabet.
    pub(crate) fn chars(&mut self, alphabet: &str, n: usize) -> String {
        let chars = alphabet.as_bytes();
        (0..n).map(|_| char::from(chars[usize::try_from(self.next()).unwrap_or(0) % chars.len()])).collect()
    }
}
