//! How often a property is tried, and with what.

use proptest::test_runner::{Config, RngSeed};

/// So many cases, unless `PROPTEST_CASES` asks for others.
pub fn test_cases(cases: u32) -> Config {
    let asked = std::env::var_os("PROPTEST_CASES").is_some();
    if asked { Config::default() } else { Config::with_cases(cases) }
}

/// So many cases, others than those of properties with other names.
pub fn named_test_cases(name: &str, cases: u32) -> Config {
    let mut config = test_cases(cases);
    if let RngSeed::Fixed(seed) = &mut config.rng_seed {
        *seed = name.bytes().fold(*seed, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
    }
    config
}
