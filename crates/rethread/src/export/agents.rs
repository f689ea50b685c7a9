//! The subagents that a document shows: those of its session, of the sessions that it goes on from,
//! and of those whose calls were copied into it.

use rethread_model::Item;
use rethread_render::{Agent, Part, Side};
use rustc_hash::FxHashMap;

use super::plan::Files;
use super::survey::Surveys;
use crate::library::Library;
use crate::session::{Calls, Loaded, Started, Subagent};

/// The subagents of some sessions, read.
pub(super) struct Cast {
    /// Logs of sessions and subagents.
    logs: Vec<Loaded>,
    members: Vec<Member>,
    /// The members that the calls with these ids started.
    by_call_id: FxHashMap<String, Vec<usize>>,
}

/// A subagent.
struct Member {
    session: usize,
    index: usize,
    name: String,
    file: String,
    /// The log that it stands in: one of `logs`, or that of the session whose documents are written.
    log: Option<usize>,
    /// Its first entry, if it stands in a session's own log.
    root: Option<usize>,
    /// The subagent that started it, and by which call, if it was not a session.
    of: Option<(usize, usize)>,
    /// No call is known that started it.
    lost: bool,
}

impl Cast {
    /// Reads the subagents of the session that is written, of those that it goes on from, and of those
    /// whose calls stand in one of these too.
    pub(super) fn new(
        library: &Library,
        surveys: &Surveys,
        files: &Files,
        own: usize,
        earlier: impl Iterator<Item = usize>,
    ) -> Self {
        let mut cast = Self { logs: Vec::new(), members: Vec::new(), by_call_id: FxHashMap::default() };
        let mut others: Vec<usize> = surveys.starters(own);
        others.extend(earlier.flat_map(|before| surveys.starters(before).into_iter().chain([before])));
        others.sort_unstable();
        others.dedup();
        others.retain(|&other| other != own);
        for session in std::iter::once(own).chain(others) {
            cast.add(library, surveys, files, session, session == own);
        }
        cast.find_nested(library.skips());
        cast
    }

    fn add(&mut self, library: &Library, surveys: &Surveys, files: &Files, session: usize, own: bool) {
        let survey = &surveys.sessions[session];
        // The log of another session is read only if a subagent stands in it.
        let inline = survey.agents.iter().any(|agent| agent.root.is_some());
        let log = if own || !inline {
            None
        } else {
            let Ok(loaded) = library.load(&survey.source) else { return };
            self.logs.push(loaded);
            Some(self.logs.len() - 1)
        };
        for (index, agent) in survey.agents.iter().enumerate() {
            let Some(file) = files.agents.get(&(session, index)) else { continue };
            let log = match &agent.file {
                Some(file) => {
                    let Ok(loaded) = library.load(&file.clone().into()) else { continue };
                    self.logs.push(loaded);
                    Some(self.logs.len() - 1)
                }
                None => log,
            };
            let n = self.members.len();
            let call_id = survey.agent_calls[index].as_ref();
            self.members.push(Member {
                session,
                index,
                name: name_of(agent, index),
                file: file.clone(),
                log,
                root: agent.root,
                of: None,
                lost: call_id.is_none(),
            });
            if let Some(id) = call_id {
                self.by_call_id.entry(id.clone()).or_default().push(n);
            }
        }
    }

    /// What no call of a session started was started by another subagent.
    fn find_nested(&mut self, skips: &rethread_store::Skips) {
        if !self.members.iter().any(|member| member.lost && member.root.is_none()) {
            return;
        }
        let calls: Vec<(usize, Calls<'_>)> = self
            .members
            .iter()
            .enumerate()
            .filter(|(_, member)| member.root.is_none())
            .filter_map(|(n, member)| Some((n, Calls::new(&self.logs[member.log?].session))))
            .collect();
        let mut found = Vec::new();
        for (n, member) in self.members.iter().enumerate().filter(|(_, member)| member.lost) {
            let Some(log) = member.log.filter(|_| member.root.is_none()) else { continue };
            let started = Started::new(&self.logs[log].source.file, skips);
            let by = calls
                .iter()
                .filter(|(other, _)| *other != n)
                .find_map(|(other, calls)| Some((*other, calls.that_started(&started)?)));
            found.extend(by.map(|by| (n, by)));
        }
        for (n, by) in found {
            self.members[n].of = Some(by);
            self.members[n].lost = false;
        }
    }

    /// Returns what belongs to the calls of a session's log.
    pub(super) fn side<'a>(&self, loaded: &'a Loaded) -> Side<'a> {
        let facts = &loaded.session.facts;
        let mut agents: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
        if !self.by_call_id.is_empty() {
            for (call, found) in facts.calls.iter().enumerate() {
                if let Some(members) = self.by_call_id.get(facts.call_id(found)) {
                    agents.insert(call, members.clone());
                }
            }
        }
        side(loaded, agents)
    }

    /// Returns what a subagent said and did. `own` is the session whose documents are written.
    fn part<'p>(&'p self, own: &'p Loaded, n: usize, prefix: String) -> Part<'p> {
        let member = &self.members[n];
        let log = member.log.map_or(own, |log| &self.logs[log]);
        let mut nested: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
        for (other, started) in self.members.iter().enumerate() {
            if let Some((_, call)) = started.of.filter(|(by, _)| *by == n) {
                nested.entry(call).or_default().push(other);
            }
        }
        Part {
            session: &log.source.file.id,
            prefix,
            items: log.reader().side_items(member.root),
            side: side(log, nested),
        }
    }

    /// Returns all subagents as they are shown under their calls.
    pub(super) fn agents<'p>(&'p self, own: &'p Loaded) -> Vec<Agent<'p>> {
        let agent = |(n, member): (usize, &Member)| {
            let part = self.part(own, n, format!("a{}-", n + 1));
            Agent {
                name: member.name.clone(),
                file: member.file.clone(),
                messages: part.items.iter().filter(|item| matches!(item, Item::Message(_))).count(),
                part,
            }
        };
        self.members.iter().enumerate().map(agent).collect()
    }

    /// Returns a subagent of the session that is written, for a document of its own.
    pub(super) fn alone<'p>(
        &'p self,
        own: &'p Loaded,
        session: usize,
        index: usize,
    ) -> Option<(usize, Part<'p>)> {
        let n = self.members.iter().position(|m| m.session == session && m.index == index)?;
        Some((n, self.part(own, n, String::new())))
    }

    /// Returns the subagents of the session that is written for which no call is known.
    pub(super) fn lost(&self, session: usize) -> Vec<usize> {
        let lost = |(n, member): (usize, &Member)| (member.lost && member.session == session).then_some(n);
        self.members.iter().enumerate().filter_map(lost).collect()
    }
}

fn side<'a>(loaded: &'a Loaded, agents: FxHashMap<usize, Vec<usize>>) -> Side<'a> {
    Side { agents, whole_result: Some(Box::new(|text: &str| loaded.whole_result(text))) }
}

/// Names a subagent; the same name can lie in several directories of one session.
pub(super) fn name_of(agent: &Subagent, index: usize) -> String {
    match agent.path.as_deref().and_then(std::path::Path::file_stem) {
        Some(stem) => format!("{}_{}", index + 1, super::output::safe_name(&stem.to_string_lossy())),
        None => format!("{}_inline", index + 1),
    }
}
