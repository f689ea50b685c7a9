//! Configurations of property tests.

use proptest::test_runner::{Config, RngSeed};

/// Returns a configuration with this number of cases, unless `PROPTEST_CASES` is set.
pub fn test_cases(cases: u32) -> Config {
    let is_set = std::env::var_os("PROPTEST_CASES").is_some();
    if is_set { Config::default() } else { Config::with_cases(cases) }
}

/// Returns a configuration with a seed that depends on the name, so that each property gets other cases.
pub fn named_test_cases(name: &str, cases: u32) -> Config {
    let mut config = test_cases(cases);
    if let RngSeed::Fixed(seed) = &mut config.rng_seed {
        *seed = name.bytes().fold(*seed, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
    }
    config
}
