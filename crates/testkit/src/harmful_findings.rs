//! What clients would lose of a session, found in both ways.

use rethread_model::{
    Client, Finding, Session, check, harmful_findings, intended_path_to, newest_client_chain, resume,
    session_intended_path,
};

/// Finds what any client would lose or be refused of a session.
///
/// # Panics
///
/// If what is known of plain sessions at once is not what the rules of each client say.
pub fn harmful_findings_of(session: &Session) -> Vec<Finding> {
    let mut found = check(session, &Client::ALL);
    found.retain(Finding::is_harmful);
    assert_eq!(harmful_findings(session, &Client::ALL), found, "what is known at once is not what is found");
    let resumed = resume(&session.facts, Client::NEWEST);
    assert_eq!(newest_client_chain(session), resumed.chain, "the newest client takes another chain");
    let n = session.facts.nodes.len();
    for end in [None, n.checked_sub(1), (n > 0).then_some(n / 2)] {
        let meant = session_intended_path(session, end);
        assert_eq!(meant, intended_path_to(&session.facts, end), "another conversation is meant at {end:?}");
    }
    if let Some(path) = session.paths(Client::NEWEST).iter().find(|path| path.active) {
        assert_eq!(path.resumes_at, resumed.tip(), "the newest client goes on elsewhere");
    }
    found
}
