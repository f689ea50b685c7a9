//! The subagents that a document shows: those of its session, of the sessions that it continues from, and of
//! those whose calls were copied into it.

use std::sync::Arc;

use rethread_model::{CallId, IndexGroups, NodeId, StepId};
use rethread_render::{CallSidecars, DocumentAgent, DocumentPart};
use rustc_hash::FxHashMap;

use super::log::ExportLog;
use super::plan::DocumentFiles;
use super::survey::Surveys;
use crate::library::Library;
use crate::session::{Subagent, SubagentCalls, SubagentMeta};

/// The subagents of some sessions, loaded.
pub(super) struct SubagentSet {
    /// Logs of sessions and subagents.
    logs: Vec<ExportLog>,
    /// The steps of inline subagents, for each log.
    steps: Vec<IndexGroups<StepId, StepId>>,
    members: Vec<ExportedSubagent>,
    /// Indexes of the subagents, by session and index in it.
    places: FxHashMap<(usize, usize), usize>,
    /// The subagents that the calls of each subagent started, by call.
    nested: Vec<FxHashMap<CallId, Vec<usize>>>,
    /// The subagents that were started by the calls with these ids.
    by_call_id: FxHashMap<String, Vec<usize>>,
}

/// A subagent.
struct ExportedSubagent {
    session: usize,
    name: String,
    file: String,
    /// The log that contains it: one of `logs`, or that of the exported session.
    log: Option<usize>,
    /// Its first entry, if it is inline in a session's log.
    root: Option<NodeId>,
    /// The call that started it is unknown.
    is_unlinked: bool,
}

impl SubagentSet {
    /// Loads the subagents of the exported session, of those that it continues from, and of those whose calls
    /// also occur in one of these.
    pub(super) fn new(
        library: &Library,
        surveys: &Surveys,
        files: &DocumentFiles,
        own: usize,
        earlier: impl Iterator<Item = usize>,
    ) -> Self {
        let mut cast = Self {
            logs: Vec::new(),
            steps: Vec::new(),
            members: Vec::new(),
            places: FxHashMap::default(),
            nested: Vec::new(),
            by_call_id: FxHashMap::default(),
        };
        let mut others: Vec<usize> = surveys.sessions_with_calls(own);
        others.extend(
            earlier.flat_map(|before| surveys.sessions_with_calls(before).into_iter().chain([before])),
        );
        others.sort_unstable();
        others.dedup();
        others.retain(|&other| other != own);
        for session in std::iter::once(own).chain(others) {
            cast.add(library, surveys, files, session, session == own);
        }
        cast.find_nested(library.skips());
        cast
    }

    fn add(
        &mut self,
        library: &Library,
        surveys: &Surveys,
        files: &DocumentFiles,
        session: usize,
        own: bool,
    ) {
        let survey = &surveys.sessions[session];
        // The log of another session is read only if it contains an inline subagent.
        let inline = survey.agents.iter().any(|agent| agent.root.is_some());
        let log = if own || !inline {
            None
        } else {
            let Ok(log) = library.export_log(&survey.source, u64::MAX) else { return };
            Some(self.add_log(log))
        };
        for (index, agent) in survey.agents.iter().enumerate() {
            let Some(file) = files.agents.get(&(session, index)) else { continue };
            let log = match &agent.file {
                Some(file) => {
                    let Ok(log) = library.export_log(&file.clone().into(), u64::MAX) else { continue };
                    Some(self.add_log(log))
                }
                None => log,
            };
            let n = self.members.len();
            self.places.insert((session, index), n);
            let call_id = survey.agent_calls[index].as_ref();
            self.members.push(ExportedSubagent {
                session,
                name: name_of(agent, index),
                file: file.clone(),
                log,
                root: agent.root,
                is_unlinked: call_id.is_none(),
            });
            if let Some(id) = call_id {
                self.by_call_id.entry(id.clone()).or_default().push(n);
            }
        }
    }

    fn add_log(&mut self, log: ExportLog) -> usize {
        self.steps.push(log.session().steps_by_sidechain_root());
        self.logs.push(log);
        self.logs.len() - 1
    }

    /// Links nested subagents: one that no call of a session started was started by another subagent.
    fn find_nested(&mut self, skips: &rethread_store::SkippedPaths) {
        self.nested.resize_with(self.members.len(), FxHashMap::default);
        if !self.members.iter().any(|member| member.is_unlinked && member.root.is_none()) {
            return;
        }
        // The calls of all subagents; for each id, the first two subagents that make it.
        let mut by_agent: FxHashMap<&str, Vec<(usize, CallId)>> = FxHashMap::default();
        let mut by_id: FxHashMap<&str, Vec<(usize, CallId)>> = FxHashMap::default();
        for (n, member) in self.members.iter().enumerate().filter(|(_, member)| member.root.is_none()) {
            let Some(log) = member.log else { continue };
            let calls = SubagentCalls::new(self.logs[log].session());
            let note = |places: &mut Vec<(usize, CallId)>, call: CallId| {
                if places.len() < 2 {
                    places.push((n, call));
                }
            };
            calls.by_agent.iter().for_each(|(agent, call)| note(by_agent.entry(agent).or_default(), *call));
            calls.by_id.iter().for_each(|(id, call)| note(by_id.entry(id).or_default(), *call));
        }
        let mut found = Vec::new();
        for (n, member) in self.members.iter().enumerate().filter(|(_, member)| member.is_unlinked) {
            let Some(log) = member.log.filter(|_| member.root.is_none()) else { continue };
            let started = SubagentMeta::new(&self.logs[log].loaded.source.file, skips);
            let of_other =
                |places: &Vec<(usize, CallId)>| places.iter().copied().find(|&(other, _)| other != n);
            let named = by_agent.get(started.id.as_str()).and_then(of_other);
            let by_call = || by_id.get(started.call_id.as_deref()?).and_then(of_other);
            found.extend(named.or_else(by_call).map(|by| (n, by)));
        }
        for (n, (by, call)) in found {
            self.nested[by].entry(call).or_default().push(n);
            self.members[n].is_unlinked = false;
        }
    }

    /// Returns the subagents that the calls of a session's log started, by call.
    pub(super) fn agents_by_call(&self, log: &ExportLog) -> Arc<FxHashMap<CallId, Vec<usize>>> {
        let facts = &log.session().facts;
        let mut agents: FxHashMap<CallId, Vec<usize>> = FxHashMap::default();
        if !self.by_call_id.is_empty() {
            for (call, found) in facts.calls.iter_enumerated() {
                if let Some(members) = self.by_call_id.get(facts.call_id(found)) {
                    agents.insert(call, members.clone());
                }
            }
        }
        Arc::new(agents)
    }

    /// Returns the items of a subagent. `own` is the exported session, with the steps of its inline
    /// subagents.
    fn part<'p>(&'p self, own: &'p OwnSession, n: usize, prefix: String) -> DocumentPart<'p> {
        let member = &self.members[n];
        let (log, steps) = match member.log {
            Some(log) => (&self.logs[log], &self.steps[log]),
            None => (&own.log, &own.steps),
        };
        DocumentPart {
            session: &log.loaded.source.file.id,
            prefix,
            items: log.agent_passage(member.root, steps),
            sidecars: call_sidecars(log, &Arc::new(self.nested[n].clone())),
        }
    }

    /// Returns all subagents, for display under their calls.
    pub(super) fn agents<'p>(&'p self, own: &'p OwnSession) -> Vec<DocumentAgent<'p>> {
        let agent = |(n, member): (usize, &ExportedSubagent)| {
            let part = self.part(own, n, format!("a{}-", n + 1));
            DocumentAgent {
                name: member.name.clone(),
                file: member.file.clone(),
                messages: part.items.item_headers().filter(|brief| brief.kind.is_some()).count(),
                part,
            }
        };
        self.members.iter().enumerate().map(agent).collect()
    }

    /// Returns a subagent of the exported session, for a separate document.
    pub(super) fn standalone_part<'p>(
        &'p self,
        own: &'p OwnSession,
        session: usize,
        index: usize,
    ) -> Option<(usize, DocumentPart<'p>)> {
        let n = *self.places.get(&(session, index))?;
        Some((n, self.part(own, n, String::new())))
    }

    /// Returns the subagents of the exported session whose call is unknown.
    pub(super) fn unlinked(&self, session: usize) -> Vec<usize> {
        let lost = |(n, member): (usize, &ExportedSubagent)| {
            (member.is_unlinked && member.session == session).then_some(n)
        };
        self.members.iter().enumerate().filter_map(lost).collect()
    }
}

/// The exported session.
pub(super) struct OwnSession {
    pub(super) log: ExportLog,
    /// The steps of its inline subagents.
    steps: IndexGroups<StepId, StepId>,
}

impl OwnSession {
    pub(super) fn new(log: ExportLog) -> Self {
        Self { steps: log.session().steps_by_sidechain_root(), log }
    }
}

/// Returns the sidecars of the calls of a log.
pub(super) fn call_sidecars<'a>(
    log: &'a ExportLog,
    agents: &Arc<FxHashMap<CallId, Vec<usize>>>,
) -> CallSidecars<'a> {
    let read =
        |text: &str, wanted: &dyn Fn(&std::path::Path) -> bool| log.loaded.whole_result_if(text, wanted);
    CallSidecars { agents: Arc::clone(agents), whole_result: Some(Box::new(read)) }
}

/// Returns a unique name for a subagent; the same file name can occur in several directories of one session.
pub(super) fn name_of(agent: &Subagent, index: usize) -> String {
    match agent.path.as_deref().and_then(std::path::Path::file_stem) {
        Some(stem) => format!("{}_{}", index + 1, super::export_dir::safe_name(&stem.to_string_lossy())),
        None => format!("{}_inline", index + 1),
    }
}
