//! The events of transcripts, in reading order.

use std::io;
use std::sync::Arc;

use insta::assert_snapshot;
use rethread_log::Json;
use rethread_model::{
    BlockView, CallEvent, CallId, CallSidecars, Client, EntryNo, ListedSubagent, MessageEvent, MessageNo,
    NoteEvent, PartEvent, RandomAccessLog, ResultEvent, Session, StepNodes, StepStream, SubagentEvent,
    SubagentNo, Transcript, TranscriptHeader, TranscriptPart, TranscriptRange, TranscriptSubagent,
    TranscriptWriter, VisibleContent, VisibleThinking, Visit,
};
use rethread_testkit::{LogBuilder, PendingCall};
use serde_json::json;

/// A log whose text is read piece by piece.
struct TestLog {
    bytes: Vec<u8>,
    session: Session,
    layout: StepNodes,
}

impl TestLog {
    fn new(log: &LogBuilder) -> Self {
        let session = Session::read(&log.bytes());
        Self { bytes: log.bytes(), layout: StepNodes::new(&session), session }
    }

    fn part(&self, sidecars: CallSidecars<'static>) -> TranscriptPart<'_> {
        let paths = self.session.paths(Client::NEWEST);
        let path = paths.iter().find(|path| path.main).expect("a conversation");
        TranscriptPart {
            session: "test",
            anchor_prefix: String::new(),
            steps: StepStream::to_step(&self.session, &self.layout, self, (path.step, None), true),
            sidecars,
        }
    }

    fn transcript(&self, content: VisibleContent, range: TranscriptRange) -> Transcript<'_> {
        Transcript {
            header: TranscriptHeader::default(),
            parts: vec![self.part(CallSidecars::default())],
            subagents: Arc::default(),
            unlinked: Vec::new(),
            range,
            content,
        }
    }
}

impl RandomAccessLog for TestLog {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        bytes.copy_from_slice(&self.bytes[start..start + bytes.len()]);
        Ok(())
    }

    fn is_unchanged(&self, _: EntryNo, _: &[u8]) -> bool {
        true
    }
}

/// Records the events, one per line, indented by nesting.
#[derive(Default)]
struct EventRecorder {
    lines: String,
    indent: usize,
}

impl EventRecorder {
    fn record(&mut self, line: &str) -> io::Result<()> {
        self.lines += &format!("{:1$}{line}\n", "", 2 * self.indent);
        Ok(())
    }

    fn begin(&mut self, line: &str) -> io::Result<()> {
        self.record(line)?;
        self.indent += 1;
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        self.indent -= 1;
        Ok(())
    }
}

fn describe_result(result: &ResultEvent<'_>) -> String {
    let anchor = if result.has_anchor { "#" } else { "" };
    format!("{anchor}{} {:?}", result.message.anchor(), result.text())
}

impl TranscriptWriter for EventRecorder {
    fn begin_part(&mut self, part: &PartEvent<'_>) -> io::Result<()> {
        self.record(&format!("part {} of {}: {}", part.index + 1, part.count, part.session))
    }

    fn begin_message(&mut self, event: &MessageEvent<'_>) -> io::Result<()> {
        self.begin(&format!("{} {}", event.message.kind.name(), event.anchor()))
    }

    fn text(&mut self, _: &MessageEvent<'_>, block: &BlockView<'_>) -> io::Result<()> {
        self.record(&format!("text {:?}", block.text()))
    }

    fn thinking(&mut self, _: &MessageEvent<'_>, block: &BlockView<'_>) -> io::Result<()> {
        self.record(&format!("thinking {:?}", block.text()))
    }

    fn media(&mut self, _: &MessageEvent<'_>, block: Json<'_>) -> io::Result<()> {
        self.record(&format!("media {}", rethread_model::describe_media(block)))
    }

    fn begin_call(&mut self, call: &CallEvent<'_>) -> io::Result<()> {
        let results: Vec<String> = call.results.iter().map(describe_result).collect();
        self.begin(&format!("call {} = [{}]", call.block.tool(), results.join(", ")))
    }

    fn end_call(&mut self, _: &CallEvent<'_>) -> io::Result<()> {
        self.end()
    }

    fn orphan_result(&mut self, result: &ResultEvent<'_>) -> io::Result<()> {
        self.record(&format!("orphan result {}", describe_result(result)))
    }

    fn end_message(&mut self, _: &MessageEvent<'_>) -> io::Result<()> {
        self.end()
    }

    fn remark(&mut self, event: &MessageEvent<'_>) -> io::Result<()> {
        self.record(&format!("remark {}", event.anchor()))
    }

    fn note(&mut self, event: &NoteEvent<'_>) -> io::Result<()> {
        self.record(&format!("note {}: {}", event.note.kind, event.note.text))
    }

    fn compaction(&mut self, _: &NoteEvent<'_>) -> io::Result<()> {
        self.record("compaction")
    }

    fn begin_subagent(&mut self, event: &SubagentEvent<'_>) -> io::Result<()> {
        self.begin(&format!("subagent {}", event.subagent.name))
    }

    fn end_subagent(&mut self, _: &SubagentEvent<'_>) -> io::Result<()> {
        self.end()
    }

    fn linked_subagent(&mut self, event: &SubagentEvent<'_>) -> io::Result<()> {
        self.record(&format!("link to subagent {}", event.subagent.name))
    }

    fn end(&mut self, subagents: &[ListedSubagent<'_>]) -> io::Result<()> {
        for listed in subagents {
            self.record(&format!("listed {}, call {:?}", listed.subagent.name, listed.call_id))?;
        }
        Ok(())
    }
}

fn events(transcript: &Transcript<'_>) -> String {
    let mut recorder = EventRecorder::default();
    transcript.walk(&mut recorder).expect("recorded");
    assert_eq!(recorder.indent, 0, "every beginning has an end");
    recorder.lines
}

/// A session with parallel calls, a result without a call, a note, a compaction and a hidden message.
fn small_session() -> LogBuilder {
    let mut log = LogBuilder::new(1);
    log.meta("<local-command-caveat>hidden</local-command-caveat>");
    log.prompt("compare the files");
    let calls = log.calls(&[("Read", json!({ "file_path": "a" })), ("Read", json!({ "file_path": "b" }))]);
    log.result(&calls[1], "text of b");
    log.result(&calls[0], "text of a");
    log.message(&[
        json!({ "type": "thinking", "thinking": "they differ", "signature": "x" }),
        json!({ "type": "thinking", "thinking": "", "signature": "encrypted" }),
        json!({ "type": "text", "text": " " }),
        json!({ "type": "text", "text": "they differ" }),
    ]);
    log.system("informational", "a note of the client");
    log.entry(
        "user",
        json!({ "message": { "role": "user", "content": [
            { "type": "tool_result", "tool_use_id": "toolu_missing", "content": "orphaned" },
            { "type": "text", "text": "beside it" },
        ] } }),
    );
    log.compact("a summary");
    log.prompt("go on");
    let unanswered = log.call("Bash", &json!({ "command": "sleep 100" }));
    assert!(!unanswered.id.is_empty());
    log
}

#[test]
fn results_are_under_their_calls_and_hidden_content_is_left_out() {
    let log = TestLog::new(&small_session());
    let all = log.transcript(VisibleContent::default(), TranscriptRange::default());
    assert_snapshot!(events(&all), @r#"
    part 1 of 1: test
    prompt m2
      text "compare the files"
    answer m3
      call Read = [#m5 "text of a"]
      call Read = [#m4 "text of b"]
    answer m6
      thinking "they differ"
      text "they differ"
    note informational: a note of the client
    result m7
      orphan result #m7 "orphaned"
      text "beside it"
    compaction
    summary m8
      text "This session is being continued from a previous conversation that ran out of context. a summary"
    prompt m9
      text "go on"
    answer m10
      call Bash = []
    "#);
}

#[test]
fn hidden_thinking_and_tools_leave_no_empty_messages() {
    let log = TestLog::new(&small_session());
    let content = VisibleContent { thinking: VisibleThinking::Hidden, tools: false, images: true };
    assert_snapshot!(events(&log.transcript(content, TranscriptRange::default())), @r#"
    part 1 of 1: test
    prompt m2
      text "compare the files"
    answer m6
      text "they differ"
    note informational: a note of the client
    result m7
      text "beside it"
    compaction
    summary m8
      text "This session is being continued from a previous conversation that ran out of context. a summary"
    prompt m9
      text "go on"
    "#);
    let content = VisibleContent { thinking: VisibleThinking::All, ..content };
    let all = events(&log.transcript(content, TranscriptRange::default()));
    assert_eq!(all.lines().filter(|line| line.trim() == "thinking \"\"").count(), 1, "{all}");
}

#[test]
fn range_selects_turns_and_messages() {
    let log = TestLog::new(&small_session());
    let shown = |range: TranscriptRange| {
        let all = events(&log.transcript(VisibleContent::default(), range));
        let anchors = all.split_whitespace().filter(|word| word.starts_with('m') && word.len() < 4);
        anchors.collect::<Vec<_>>().join(" ")
    };
    let turns = |turns| TranscriptRange { turns: Some(turns), ..TranscriptRange::default() };
    assert_snapshot!(shown(turns(1..=1)), @"m2 m3 m6 m7 m8");
    assert_snapshot!(shown(turns(2..=2)), @"m9 m10");
    assert_snapshot!(shown(TranscriptRange { from: MessageNo::new(6), ..TranscriptRange::default() }), @"m6 m7 m8 m9 m10");
    let only = Some([2, 6].into_iter().filter_map(MessageNo::new).collect());
    assert_snapshot!(shown(TranscriptRange { only, ..TranscriptRange::default() }), @"m2 m6");
}

#[test]
fn reading_starts_at_the_call_of_a_result() {
    let log = TestLog::new(&small_session());
    let part = log.part(CallSidecars::default());
    let mut numbers = (1..=20).filter_map(MessageNo::new);
    let with_result = numbers.find(|&n| part.steps.reading_start(n) != n);
    assert_eq!(with_result.map(|n| part.steps.reading_start(n)), MessageNo::new(3));
}

#[test]
fn result_of_a_repeated_block_is_shown_under_its_first_copy() {
    let mut log = LogBuilder::new(1);
    log.prompt("run it");
    let call = json!({ "type": "tool_use", "id": "toolu_1", "name": "Bash", "input": { "command": "ls" } });
    log.block("msg_1", &call);
    // A client wrote a queued prompt between two entries of one message, and repeated a block.
    log.prompt("queued");
    let uuid = log.block("msg_1", &call);
    log.result(&PendingCall { id: "toolu_1".to_owned(), uuid }, "the files");
    let log = TestLog::new(&log);
    let all = events(&log.transcript(VisibleContent::default(), TranscriptRange::default()));
    assert_snapshot!(all, @r#"
    part 1 of 1: test
    prompt m1
      text "run it"
    answer m2
      call Bash = [#m4 "the files"]
    prompt m3
      text "queued"
    "#);
}

/// The log of a subagent that starts another one.
fn nesting_log(number: u32) -> TestLog {
    let mut log = LogBuilder::new(number);
    log.prompt(&format!("task {number}"));
    let call = log.call("Task", &json!({ "prompt": "the next task" }));
    log.result(&call, "done");
    log.answer(&format!("answer {number}"));
    TestLog::new(&log)
}

#[test]
fn subagents_are_shown_once_and_linked_beyond_the_maximum_depth() {
    let logs: Vec<TestLog> = (0..8).map(nesting_log).collect();
    let starts = |numbers: Vec<usize>| CallSidecars {
        subagents: Arc::new(
            [(CallId::from_index(0), numbers.into_iter().map(SubagentNo::from_index).collect())]
                .into_iter()
                .collect(),
        ),
        whole_result: None,
    };
    // Each subagent starts the next one; the conversation starts the first one twice.
    let subagents = (0..7).map(|n| TranscriptSubagent {
        name: format!("s{n}"),
        log: None,
        part: Some(logs[n + 1].part(if n < 5 { starts(vec![n + 1]) } else { CallSidecars::default() })),
        messages: 4,
    });
    let transcript = Transcript {
        header: TranscriptHeader::default(),
        parts: vec![logs[0].part(starts(vec![0, 0]))],
        subagents: Arc::new(subagents.collect()),
        unlinked: vec![SubagentNo::from_index(6)],
        range: TranscriptRange::default(),
        content: VisibleContent { thinking: VisibleThinking::Hidden, ..VisibleContent::default() },
    };
    assert_snapshot!(events(&transcript), @r#"
    part 1 of 1: test
    prompt m1
      text "task 0"
    answer m2
      call Task = [#m3 "done"]
        subagent s0
          prompt m1
            text "task 1"
          answer m2
            call Task = [#m3 "done"]
              subagent s1
                prompt m1
                  text "task 2"
                answer m2
                  call Task = [#m3 "done"]
                    subagent s2
                      prompt m1
                        text "task 3"
                      answer m2
                        call Task = [#m3 "done"]
                          subagent s3
                            prompt m1
                              text "task 4"
                            answer m2
                              call Task = [#m3 "done"]
                                link to subagent s4
                            answer m4
                              text "answer 4"
                      answer m4
                        text "answer 3"
                answer m4
                  text "answer 2"
          answer m4
            text "answer 1"
        link to subagent s0
    answer m4
      text "answer 0"
    listed s0, call Some("toolu_000000000100")
    listed s6, call None
    "#);
}

#[test]
fn whole_results_are_read_once_for_each_file() {
    let mut log = LogBuilder::new(1);
    log.prompt("run it twice");
    for _ in 0..2 {
        let call = log.call("Bash", &json!({ "command": "long" }));
        log.result(&call, "<persisted-output>beginning");
    }
    let log = TestLog::new(&log);
    let whole = |_: &str, wanted: &dyn Fn(&std::path::Path) -> bool| {
        wanted(std::path::Path::new("file")).then(|| "the whole text".to_owned())
    };
    let mut transcript = log.transcript(VisibleContent::default(), TranscriptRange::default());
    transcript.parts[0].sidecars.whole_result = Some(Box::new(whole));
    let all = events(&transcript);
    assert_eq!(all.matches("the whole text").count(), 1, "{all}");
    assert_eq!(all.matches("<persisted-output>").count(), 1, "{all}");
}

/// Counts all messages and skips their content.
#[derive(Default)]
struct MessageCounter {
    raw: usize,
    shown: usize,
}

impl TranscriptWriter for MessageCounter {
    fn raw_message(&mut self, _: &MessageEvent<'_>) -> io::Result<Visit> {
        self.raw += 1;
        Ok(Visit::Skip)
    }

    fn begin_message(&mut self, _: &MessageEvent<'_>) -> io::Result<()> {
        self.shown += 1;
        Ok(())
    }
}

#[test]
fn raw_messages_include_hidden_ones_and_replace_their_content() {
    let log = TestLog::new(&small_session());
    let mut counter = MessageCounter::default();
    let transcript = log.transcript(VisibleContent::default(), TranscriptRange::default());
    transcript.walk(&mut counter).expect("counted");
    let all = transcript.parts[0].steps.item_headers().filter(|item| item.kind.is_some()).count();
    assert_eq!((counter.raw, counter.shown), (all, 0));
}
