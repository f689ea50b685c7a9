//! The subagents that a document shows: those of its session, of the sessions that it continues from, and of
//! those whose calls were copied into it.

use std::sync::Arc;

use rethread_model::{
    CallId, CallSidecars, IndexGroups, NodeId, SessionIndex, StepId, SubagentNo, TranscriptPart,
    TranscriptSubagent,
};
use rethread_store::SkippedPaths;
use rustc_hash::FxHashMap;

use super::log::ExportLog;
use super::plan::DocumentFiles;
use super::survey::Surveys;
use crate::session::{SubagentCalls, SubagentMeta};
use crate::transcript::subagent_name;

/// The subagents of some sessions, loaded.
pub(super) struct SubagentSet {
    /// Logs of sessions and subagents.
    logs: Vec<Arc<ExportLog>>,
    /// The steps of inline subagents, for each log.
    steps: Vec<IndexGroups<StepId, StepId>>,
    members: Vec<SubagentMember>,
    /// The subagents, by session and index in it.
    numbers: FxHashMap<(SessionIndex, usize), SubagentNo>,
    /// The subagents that the calls of each subagent started, by call.
    nested: Vec<FxHashMap<CallId, Vec<SubagentNo>>>,
    /// The subagents that were started by the calls with these ids.
    by_call_id: FxHashMap<String, Vec<SubagentNo>>,
}

/// A subagent.
struct SubagentMember {
    session: SessionIndex,
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
        skips: &SkippedPaths,
        surveys: &Surveys,
        files: &DocumentFiles,
        own: SessionIndex,
        earlier: impl Iterator<Item = SessionIndex>,
    ) -> Self {
        let mut set = Self {
            logs: Vec::new(),
            steps: Vec::new(),
            members: Vec::new(),
            numbers: FxHashMap::default(),
            nested: Vec::new(),
            by_call_id: FxHashMap::default(),
        };
        let mut others: Vec<SessionIndex> = surveys.sessions_with_calls(own);
        others.extend(
            earlier.flat_map(|before| surveys.sessions_with_calls(before).into_iter().chain([before])),
        );
        others.sort_unstable();
        others.dedup();
        others.retain(|&other| other != own);
        for session in std::iter::once(own).chain(others) {
            set.add(surveys, files, session, session == own);
        }
        set.find_nested(skips);
        set
    }

    fn add(&mut self, surveys: &Surveys, files: &DocumentFiles, session: SessionIndex, own: bool) {
        let survey = &surveys.sessions[session];
        // The log of another session is read only if it contains an inline subagent.
        let inline = survey.agents.iter().any(|agent| agent.root.is_some());
        let log = if own || !inline {
            None
        } else {
            let Ok(log) = surveys.log(session) else { return };
            Some(self.add_log(log))
        };
        for (index, agent) in survey.agents.iter().enumerate() {
            let Some(file) = files.agents.get(&(session, index)) else { continue };
            let log = match &agent.file {
                Some(file) => {
                    let Ok(log) = surveys.logs.read(&file.clone().into(), u64::MAX) else { continue };
                    Some(self.add_log(log))
                }
                None => log,
            };
            let n = self.members.len();
            self.numbers.insert((session, index), SubagentNo::from_index(n));
            let call_id = survey.agent_calls[index].as_ref();
            self.members.push(SubagentMember {
                session,
                name: subagent_name(agent, index),
                file: file.clone(),
                log,
                root: agent.root,
                is_unlinked: call_id.is_none(),
            });
            if let Some(id) = call_id {
                self.by_call_id.entry(id.clone()).or_default().push(SubagentNo::from_index(n));
            }
        }
    }

    fn add_log(&mut self, log: Arc<ExportLog>) -> usize {
        self.steps.push(log.session().steps_by_sidechain_root());
        self.logs.push(log);
        self.logs.len() - 1
    }

    /// Links nested subagents: one that no call of a session started was started by another subagent.
    fn find_nested(&mut self, skips: &SkippedPaths) {
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
            self.nested[by].entry(call).or_default().push(SubagentNo::from_index(n));
            self.members[n].is_unlinked = false;
        }
    }

    /// Returns the subagents that the calls of a session's log started, by call.
    pub(super) fn agents_by_call(&self, log: &ExportLog) -> Arc<FxHashMap<CallId, Vec<SubagentNo>>> {
        let facts = &log.session().facts;
        let mut agents: FxHashMap<CallId, Vec<SubagentNo>> = FxHashMap::default();
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
    fn part<'p>(
        &'p self,
        own: &'p OwnSession,
        number: SubagentNo,
        anchor_prefix: String,
    ) -> TranscriptPart<'p> {
        let member = &self.members[number.index()];
        let (log, steps) = match member.log {
            Some(log) => (&*self.logs[log], &self.steps[log]),
            None => (&*own.log, &own.steps),
        };
        TranscriptPart {
            session: &log.loaded.source.file.id,
            anchor_prefix,
            steps: log.subagent_stream(member.root, steps),
            sidecars: call_sidecars(log, &Arc::new(self.nested[number.index()].clone())),
        }
    }

    /// Returns all subagents, for display under their calls.
    pub(super) fn subagents<'p>(&'p self, own: &'p OwnSession) -> Vec<TranscriptSubagent<'p>> {
        let subagent = |(n, member): (usize, &SubagentMember)| {
            let part = self.part(own, SubagentNo::from_index(n), format!("a{}-", n + 1));
            TranscriptSubagent {
                name: member.name.clone(),
                log: None,
                messages: part.steps.item_headers().filter(|item| item.kind.is_some()).count(),
                part: Some(part),
            }
        };
        self.members.iter().enumerate().map(subagent).collect()
    }

    /// Returns the documents of the subagents, by number.
    pub(super) fn files(&self) -> Vec<String> {
        self.members.iter().map(|member| member.file.clone()).collect()
    }

    /// Returns a subagent of the exported session, for a separate document.
    pub(super) fn standalone_part<'p>(
        &'p self,
        own: &'p OwnSession,
        session: SessionIndex,
        index: usize,
    ) -> Option<(SubagentNo, TranscriptPart<'p>)> {
        let number = *self.numbers.get(&(session, index))?;
        Some((number, self.part(own, number, String::new())))
    }

    /// Returns the subagents of the exported session whose call is unknown.
    pub(super) fn unlinked(&self, session: SessionIndex) -> Vec<SubagentNo> {
        let unlinked = |(n, member): (usize, &SubagentMember)| {
            (member.is_unlinked && member.session == session).then_some(SubagentNo::from_index(n))
        };
        self.members.iter().enumerate().filter_map(unlinked).collect()
    }
}

/// The exported session.
pub(super) struct OwnSession {
    pub(super) log: Arc<ExportLog>,
    /// The steps of its inline subagents.
    steps: IndexGroups<StepId, StepId>,
}

impl OwnSession {
    pub(super) fn new(log: Arc<ExportLog>) -> Self {
        Self { steps: log.session().steps_by_sidechain_root(), log }
    }
}

/// Returns the sidecars of the calls of a log.
pub(super) fn call_sidecars<'a>(
    log: &'a ExportLog,
    subagents: &Arc<FxHashMap<CallId, Vec<SubagentNo>>>,
) -> CallSidecars<'a> {
    let read =
        |text: &str, wanted: &dyn Fn(&std::path::Path) -> bool| log.loaded.whole_result_if(text, wanted);
    CallSidecars { subagents: Arc::clone(subagents), whole_result: Some(Box::new(read)) }
}
