//! Prints the time that each query needs in a process that has searched before: the best of twenty, with and without looking
//! for changed logs.
//!
//! `search_times CONFIG_DIR CACHE_DIR QUERY…`

use std::time::{Duration, Instant};

use rethread::{Library, Query, QuerySyntax, SearchLimits};

#[expect(clippy::print_stdout, reason = "an example prints")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [config, cache, queries @ ..] = &args[..] else {
        return Err("search_times CONFIG CACHE QUERY…".into());
    };
    let library = Library::builder().root(config).cache_dir(cache).open();
    let syntax = QuerySyntax { parse_time: &|text| Err(format!("no time: {text}")) };
    for typed in queries {
        let query = Query::parse(typed, &syntax)?;
        let mut best = Duration::MAX;
        for _ in 0..20 {
            let started = Instant::now();
            library.search(&query, typed, &SearchLimits::default())?;
            best = best.min(started.elapsed());
        }
        println!("{best:.1?}");
    }
    Ok(())
}
