//! How often a property is tried.

use proptest::test_runner::Config;

/// So many cases, unless `PROPTEST_CASES` asks for others.
pub fn tries(cases: u32) -> Config {
    let asked = std::env::var_os("PROPTEST_CASES").is_some();
    if asked { Config::default() } else { Config::with_cases(cases) }
}
