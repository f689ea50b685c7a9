//! Harmful findings, computed by both implementations.

use rethread_model::{
    Client, Finding, Session, check, harmful_findings, intended_path_to, newest_client_chain, resume,
    session_intended_path,
};

/// Finds everything that a client would lose or refuse.
///
/// # Panics
///
/// Panics if the fast path for plain sessions disagrees with the rules of a client.
pub fn harmful_findings_of(session: &Session) -> Vec<Finding> {
    let mut found = check(session, &Client::ALL);
    found.retain(Finding::is_harmful);
    assert_eq!(harmful_findings(session, &Client::ALL), found, "the fast path and `check` disagree");
    let resumed = resume(&session.facts, Client::NEWEST);
    assert_eq!(newest_client_chain(session), resumed.chain, "the newest client takes another chain");
    let mut nodes = session.facts.nodes.keys();
    let middle = nodes.clone().nth(nodes.len() / 2);
    for end in [None, nodes.next_back(), middle] {
        let intended = session_intended_path(session, end);
        assert_eq!(intended, intended_path_to(&session.facts, end), "the intended path to {end:?} differs");
    }
    if let Some(path) = session.paths(Client::NEWEST).iter().find(|path| path.active) {
        assert_eq!(path.resumes_at, resumed.tip(), "the newest client resumes elsewhere");
    }
    found
}
