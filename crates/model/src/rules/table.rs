//! The table of rules, by stage and name.

use super::{RuleInfo, RuleStage, between, since, until};
use crate::client::Client::{V2_0_36, V2_0_77, V2_1_20, V2_1_76, V2_1_112, V2_1_200, V2_1_325};

/// Declares the rules and their table from the same rows, so that a rule is the index of its row.
macro_rules! client_rules {
    ($($stage:ident { $($rule:ident: $clients:expr, $reason:literal, $case:literal;)+ })+) => {
        /// A behaviour that some clients have.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum ClientRule {
            $($(
                #[doc = $reason]
                $rule,
            )+)+
        }

        /// All rules, by stage and name.
        pub const CLIENT_RULES: [RuleInfo; [$($(ClientRule::$rule),+),+].len()] = [$($(
            RuleInfo {
                rule: ClientRule::$rule,
                name: stringify!($rule),
                stage: RuleStage::$stage,
                clients: $clients,
                reason: $reason,
                case: $case,
            },
        )+)+];
    };
}

client_rules! {
    Loading {
        HangsWithoutModel: between(V2_1_200, V2_1_325),
            "The client hangs if the newest answer or the newest refusal names no model.",
            "cases `f03`, `f04`, `k01`";
        HidesNotesCutByRewind: since(V2_1_325),
            "A note that a rewind cut off is hidden until an entry follows it.",
            "";
        KeepsOnlyChainsOfBigFile: between(V2_1_200, V2_1_325),
            "Of a log over 5 MiB, only the ancestors of the last entry and of the checkpoint are kept.",
            "";
        NeedsTimeOfFirstEntry: between(V2_0_77, V2_1_20),
            "The first entry must have a time, which the statistics of the client need.",
            "";
        ReadsFirstObjectOfLine: since(V2_1_200),
            "Of several objects on one line the first is read; before, the whole line was lost.",
            "";
        ReadsProgress: between(V2_1_20, V2_1_112),
            "Progress entries are part of the tree.",
            "case `c07`";
        RefusesMalformedEntries: until(V2_1_325),
            "A message without `message`, or with content of the wrong type, on the path makes the client refuse the session.",
            "case `k07`";
        RefusesMissingMessageAnywhere: between(V2_1_112, V2_1_325),
            "An entry without `message` makes the client refuse the session even if it is not on the path.",
            "";
        RefusesNullLine: between(V2_1_200, V2_1_325),
            "A line that is `null` makes the client refuse the session.",
            "case `c16`";
        RefusesTextWithoutText: between(V2_1_76, V2_1_200),
            "An answer whose first text block that is not blank has no text makes the client refuse the session.",
            "";
        ReparentsOverProgress: since(V2_1_112),
            "Children of a progress entry are reparented to its parent.",
            "case `c07`";
        SkipsOldPartOfBigFile: since(V2_1_112),
            "Of a log over 5 MiB, the part before the last boundary without preserved messages is not read.",
            "";
        SkipsToolProgress: between(V2_1_76, V2_1_112),
            "Progress of the shell and of MCP tools is not read, so its children have a missing parent.",
            "case `c07`";
        SkipsUnsendableEntries: since(V2_1_325),
            "Messages without usable content are not loaded; their children are reparented to their parent.",
            "";
        StopsAtNullLine: between(V2_1_20, V2_1_200),
            "A line that is `null` ends the reading; the rest of the file is lost.",
            "case `c16`";
    }
    Leaf {
        AcceptsLeafWithoutTime: until(V2_1_76),
            "An entry without a time can be the leaf: times are compared by a sort that treats an invalid time as equal.",
            "";
        ContinuesPastSplitReply: since(V2_1_325),
            "A checkpoint on one of several parallel results, or on one entry of a split message, does not hide what follows another.",
            "";
        EndsBranchesAtNotes: between(V2_1_112, V2_1_200),
            "A message with a trailing note ends a branch even if the conversation continues below the message.",
            "";
        FollowsCheckpoints: since(V2_1_200),
            "The position recorded in the last `last-prompt` entry decides.",
            "cases `a01`, `j01`, `j03`";
        IgnoresTrailingBriefings: since(V2_1_325),
            "A `fork_briefing` attachment is never the last entry.",
            "";
        IgnoresTrailingSnapshots: since(V2_1_325),
            "A file snapshot is never the last entry.",
            "";
        IncludesSidechainLeaves: until(V2_0_36),
            "An entry of a sidechain can be the leaf.",
            "case `a12`";
        MovesPreservedSegments: since(V2_1_76),
            "Messages given by `preservedSegment` are moved to after the summary.",
            "case `g09`";
        PicksNewestEntry: until(V2_1_112),
            "The newest entry is the leaf, wherever it is in the file.",
            "cases `a03`, `b03`, `g09`";
        PrefersNewestDescendant: since(V2_1_325),
            "Without a checkpoint, the newest descendant of the last entry is the leaf.",
            "case `j07`";
        ReadsPreservedList: since(V2_1_200),
            "Messages given by `preservedMessages` are moved to after the summary, each below the one before.",
            "case `g10`";
        ResumesNotes: since(V2_1_200),
            "If no message can be the leaf, the newest note is.",
            "";
    }
    Walk {
        AddsNotesBelowLeaf: since(V2_1_200),
            "Attachments and system entries below the leaf are added, in order of time.",
            "case `b06`; `every_prompt_is_sent` (edit/tests/clone.rs)";
        BridgesLostParents: since(V2_1_112),
            "A parent that is missing or was visited is replaced by the entry nearest in time.",
            "cases `b01`, `b09`, `c06`";
        BridgesPastSnapshots: since(V2_1_325),
            "A file snapshot does not replace a lost parent.",
            "";
        LoopsOnCycle: until(V2_1_76),
            "The client loops forever on an entry that is its own ancestor.",
            "cases `b04`, `b09`";
        RecoversInFileOrder: since(V2_1_325),
            "Recovered entries are found by call id and `sourceToolAssistantUUID` too, and are added in file order.",
            "";
        RecoversParallelCalls: since(V2_1_112),
            "Entries of a message on the path, and results of its calls, are added.",
            "cases `a00`, `d15`, `e01`";
    }
    Cleanup {
        AnswersInterruptedCalls: since(V2_1_325),
            "Open calls of the last turn are kept and get a result; the turn is not continued by a prompt.",
            "case `e07`";
        CleansEachBlock: until(V2_1_76),
            "Each block is judged separately; later versions drop whole entries.",
            "cases `d15`, `e06`, `f10`";
        DropsBlankAnswers: since(V2_1_76),
            "An answer that contains only blank text is dropped.",
            "case `f10`";
        DropsBlocksWithoutText: since(V2_1_200),
            "Text blocks without a text are dropped, and so is a message that has no others.",
            "";
        DropsLoneThinking: since(V2_1_20),
            "An answer that contains only thinking is dropped.",
            "cases `e06`, `e07`";
        DropsMalformedAttachments: since(V2_1_325),
            "Attachments whose payload does not match their type are dropped.",
            "";
        DropsMalformedBlocks: since(V2_1_325),
            "Blocks that are `null`, a string, or have no type are dropped.",
            "";
        DropsRetractedRows: since(V2_1_200),
            "Messages retracted by a refused answer are dropped.",
            "";
        EndsTurnAtInterruption: since(V2_1_200),
            "An interruption by the user ends the turn, so it is not continued.",
            "";
        EndsTurnAtRefusal: since(V2_1_200),
            "A refusal ends the turn, although it is reported like a failed request.",
            "";
        IgnoresThinkingBeforeBlankText: since(V2_1_325),
            "An answer of thinking and blank text counts as blank.",
            "";
        KeepsBlankRowsOfFullMessages: since(V2_1_112),
            "Blank text is kept if another entry of its message has content.",
            "";
        KeepsShutdownRowsApart: since(V2_1_325),
            "A prompt cut off by a shutdown is not joined to its neighbours.",
            "";
        LooksPastApiErrors: since(V2_1_112),
            "A report of a failed request at the end does not end the turn.",
            "";
        LooksPastAttachments: since(V2_1_200),
            "The entry before trailing attachments decides whether the turn was interrupted.",
            "";
        RetractsByAnyRow: since(V2_1_325),
            "Any entry except an attachment can retract messages, not only a refusal.",
            "";
        SendsApiErrors: until(V2_0_77),
            "Reports of failed requests are sent like answers.",
            "case `f13`";
        SplitsAnswersWithoutId: since(V2_1_325),
            "Each answer without `message.id` and `requestId` is a message; before, all such answers were one.",
            "case `f04`";
        TreatsNoContentAsBlank: since(V2_1_200),
            "The text `(no content)` counts as blank.",
            "";
        TreatsRemovedTextAsBlank: since(V2_1_325),
            "The text `[Empty text removed]` counts as blank.",
            "";
    }
    Merge {
        AddsLineBreakBetweenTexts: since(V2_1_112),
            "A line break is inserted where the texts of two user messages meet.",
            "case `f07`";
        AnnouncesLoadedTools: since(V2_1_325),
            "After a result that loads a tool, the text `Tool loaded.` is added.",
            "";
        DefaultsToOpus55: since(V2_1_325),
            "The default model is `claude-opus-5-5`; before, it was `claude-opus-4-8`.",
            "";
        DropsEmptyRowsBeforeMerge: since(V2_1_325),
            "Lone thinking and blank answers are dropped before rows are merged, until nothing changes.",
            "";
        DropsUserRowsWithoutBlocks: since(V2_1_325),
            "A user message without blocks is dropped.",
            "";
        DropsVirtualRows: since(V2_1_112),
            "Entries marked `isVirtual` are not sent.",
            "";
        FillsEmptyAnswers: since(V2_1_76),
            "An answer without blocks gets the text `(no content)`, unless it is the last message.",
            "";
        IgnoresDateOfModel: since(V2_1_325),
            "Two models that differ only in the date are the same.",
            "";
        JoinsAnswersAcrossAnswers: since(V2_1_76),
            "Entries of one message are joined across other answers too.",
            "";
        JoinsAnswersAcrossResults: since(V2_0_77),
            "Entries of one message are joined across results.",
            "cases `d12`, `f04`";
        JoinsUsersAfterLoneThinking: since(V2_1_325),
            "User messages that a dropped answer separated are joined.",
            "";
        KeepsBlankTextBetweenThinking: since(V2_1_200),
            "A blank text between two thinking blocks is kept.",
            "";
        MovesCallsLast: since(V2_1_200),
            "In an answer, calls follow all other blocks unless two thinking blocks would become adjacent.",
            "case `f04`";
        OffersOpus5: since(V2_1_325),
            "`opus-5` and `opus-5-5` are offered.",
            "";
        PutsResultsFirst: since(V2_0_36),
            "In a user message, results precede all other blocks.",
            "case `f04`";
        RemovesBlankTextFromAnswers: since(V2_1_112),
            "Blank texts are removed when entries of an answer are joined.",
            "";
        RemovesBlankTextFromUsers: since(V2_1_200),
            "Blank texts are removed from user messages whose content is a list.",
            "";
        RemovesEmptyTextFromAnswers: since(V2_1_325),
            "Empty texts are removed from merged answers; a placeholder replaces one between two thinking blocks.",
            "";
        RemovesFallbackBlocks: since(V2_1_325),
            "`fallback` blocks are removed from answers.",
            "";
        RemovesThinkingOfOtherModels: since(V2_1_200),
            "Thinking of a model other than that of the request is removed.",
            "case `e09`";
        SendsLocalCommands: since(V2_1_76),
            "`local_command` entries are sent as user messages.",
            "";
        SendsNotificationsAsReminders: since(V2_1_325),
            "The notification of a background task is sent as a reminder.",
            "";
        SkipsAnswersWithoutModel: since(V2_1_325),
            "An answer without a model does not choose the model of the request.",
            "cases `f03`, `f04`, `k01`";
        UsesModelOfNewestAnswer: since(V2_1_200),
            "The request uses the model of the newest answer if it is still offered, otherwise the default model.",
            "case `a00`";
    }
    Pairing {
        AddsMissingResults: since(V2_1_20),
            "A call without a following result gets a placeholder result.",
            "cases `d03`, `d07`, `d15`";
        FillsEmptiedAnswers: since(V2_1_112),
            "An answer that has lost all its blocks gets a placeholder text.",
            "";
        FillsEmptiedUserMessages: since(V2_1_112),
            "A user message that has lost all its results becomes `(no content)`; before, it was dropped.",
            "case `d03`";
        FindsRepeatedCallsAnywhere: since(V2_1_112),
            "Calls are compared with those of all earlier messages, not only of the same one.",
            "";
        RemovesExtraResults: since(V2_1_76),
            "Second results and results of other calls are removed.",
            "cases `d03`, `d07`";
        RemovesOpenServerCalls: since(V2_1_112),
            "Calls of server tools without a result in the same message are removed.",
            "";
        RemovesRepeatedCalls: since(V2_1_76),
            "A second call with the same id is removed.",
            "";
        RemovesResultsInAnswers: since(V2_1_325),
            "Results inside an answer are removed.",
            "";
        RemovesResultsWithoutAnswer: since(V2_1_76),
            "Results in a user message that follows no answer are removed.",
            "";
        SeparatesThinkingByPlaceholder: since(V2_1_200),
            "A placeholder replaces a removed call between two thinking blocks.",
            "";
    }
    Encoding {
        ChecksReferencedTools: between(V2_1_20, V2_1_76),
            "The placeholder for removed references depends on whether the client has the tools.",
            "";
        DropsOldSendMessageFields: since(V2_1_325),
            "`SendMessage` with `to` and `message` loses `type`, `recipient` and `content`.",
            "`newest_client_drops_old_fields_of_send_message` (model/tests/attachments.rs)";
        DropsPlan: between(V2_0_77, V2_1_200),
            "`ExitPlanMode` loses `plan`.",
            "";
        DropsPlanFilePath: between(V2_1_76, V2_1_200),
            "`ExitPlanMode` loses `planFilePath` too.",
            "";
        DropsSingleEditFields: since(V2_1_76),
            "`Edit` with `edits` loses the fields of a single edit.",
            "";
        KeepsCallFields: since(V2_1_325),
            "All fields of a call are sent, `caller` included.",
            "";
        KeepsCallFieldsWithoutCaller: between(V2_1_20, V2_1_76),
            "All fields of a call are sent if no call of the message has `caller`.",
            "";
        KeepsKnownToolReferences: since(V2_1_325),
            "References to tools that the client has are kept.",
            "`reminder_is_folded_into_result_with_missing_tool_references` (model/tests/attachments.rs)";
        NormalizesCalls: since(V2_0_77),
            "Tool calls are written anew, with renamed tools, trimmed inputs and only the fields the API requires.",
            "`newest_client_drops_old_fields_of_send_message` (model/tests/attachments.rs)";
        RemovesToolReferences: since(V2_0_77),
            "`tool_reference` items are removed from results.",
            "`reminder_is_folded_into_result_with_missing_tool_references` (model/tests/attachments.rs)";
        RenamesOlderTools: since(V2_1_200),
            "`RunWorkflow` is sent as `Workflow`, and older names of the stop and output tools are renamed too.",
            "";
        RenamesStopAndOutputTools: between(V2_1_76, V2_1_325),
            "The tools that stop a task and read its output are sent as `TaskStop` and `TaskOutput`.",
            "";
        RenamesTools: since(V2_1_76),
            "`Task` is sent as `Agent`.",
            "";
        SendsOnlyTextOfErrors: since(V2_1_112),
            "Of a failed result, only the text is sent.",
            "";
        SendsTextAfterNestedReminder: until(V2_1_112),
            "A reminder inside a reminder ends the outer one, so the rest is sent as text.",
            "";
    }
    Attachments {
        AddsSessionAttachment: since(V2_1_325),
            "The new prompt has an attachment in the user role unless the conversation has a `remote_session_change`.",
            "";
        AlwaysAddsSystemAttachment: since(V2_1_325),
            "The new prompt always has an attachment in the system role.",
            "";
        ListsAgents: since(V2_1_200),
            "The agents are listed with the new prompt unless the conversation lists them.",
            "";
        ListsSkills: since(V2_1_76),
            "The skills are listed with the new prompt unless the conversation lists them.",
            "case `f04`";
        MergesIntoListResults: since(V2_1_325),
            "Attachments are merged into a preceding result that is a list, unless it refers to a tool that the client has.",
            "`reminder_is_folded_into_result_with_missing_tool_references` (model/tests/attachments.rs)";
        RemindsEarly: until(V2_0_77),
            "The reminder for unused tools comes after 7 answers; later, after 10.",
            "";
        RemindsOfTasks: since(V2_1_200),
            "The reminder for unused tools concerns `TaskCreate` and `TaskUpdate`; before, `TodoWrite`.",
            "";
        SendsAttachedPictures: since(V2_0_77),
            "Images in attachments are sent.",
            "";
        SendsAttachments: since(V2_0_36),
            "Attachments are sent.",
            "`only_2_1_112_reports_an_empty_tools_delta` (model/tests/attachments.rs)";
        SendsAttachmentsAsUser: since(V2_1_325),
            "Some types of attachments are sent in the user role.",
            "";
        SendsEmptyToolChange: between(V2_1_112, V2_1_200),
            "A `deferred_tools_delta` that names no tools is sent as `(no content)`.",
            "`only_2_1_112_reports_an_empty_tools_delta` (model/tests/attachments.rs)";
        SendsRecordedRendering: since(V2_1_325),
            "The text that was recorded in the attachment is sent.",
            "";
        SendsSystemTurns: since(V2_1_200),
            "Attachments are sent between two turns if the model accepts that.",
            "`reminders_of_a_new_prompt_add_a_newline_to_a_list_result` (model/tests/attachments.rs)";
        StartsWithReminder: until(V2_1_325),
            "The first message starts with a reminder.",
            "";
    }
    Reminders {
        ExplainsDeferredTools: since(V2_1_112),
            "The list of deferred tools explains how to load them.",
            "";
        ExplainsQueuedPrompts: since(V2_1_325),
            "A queued prompt explains how messages arrive within a turn.",
            "";
        HasOneAutoModeText: since(V2_1_200),
            "Auto mode has one text; before, repetitions were short.",
            "`mode_reminders_follow_the_tool_result` (model/tests/attachments.rs)";
        HidesTodoReminder: between(V2_0_36, V2_1_200),
            "The reminder of unused todo lists asks not to mention it.",
            "";
        ListsConnectingServers: since(V2_1_200),
            "MCP servers that are still connecting are listed.",
            "";
        MarksAmbientChanges: since(V2_1_200),
            "Notes about removed tools, agents and servers say that nobody needs to be told.",
            "";
        MarksMetaPrompts: since(V2_1_325),
            "A queued prompt marked `isMeta` says that the user did not write it.",
            "";
        MarksNotificationsAsAutomatic: since(V2_1_325),
            "The notification of a background task says that it is not human input, once.",
            "";
        MarksOtherSenders: since(V2_1_200),
            "A queued prompt of any other sender says that the user did not write it.",
            "";
        NamesSenderOfQueuedPrompts: since(V2_1_76),
            "The text of a queued prompt depends on its sender.",
            "";
        NumbersLinesWithTab: since(V2_1_112),
            "Lines of an attached file are numbered as `1<tab>text`, without a warning about malware.",
            "";
        OmitsLargeDiffs: since(V2_1_200),
            "The note about a changed file says that its diff was omitted, if it was.",
            "";
        ReportsCompletedTasks: between(V2_1_76, V2_1_112),
            "The notification of a background task says that an agent completed a task.",
            "";
        SendsModeTexts: since(V2_1_112),
            "The texts of plan mode, auto mode and critical reminders are known and sent.",
            "`mode_reminders_follow_the_tool_result` (model/tests/attachments.rs)";
        SendsToolOutputVerbatim: since(V2_1_112),
            "The output in a reminder of a tool call is not quoted.",
            "";
        UsesMilderWording: since(V2_1_325),
            "Reminders of a changed date or file and of a truncated file say \"no need to\" where they said \"do not\".",
            "";
        UsesOldPlanModeWording: between(V2_1_112, V2_1_200),
            "Plan mode refers to \"critical files identified by agents\".",
            "`mode_reminders_follow_the_tool_result` (model/tests/attachments.rs)";
        UsesOldQueuedPromptWording: until(V2_1_20),
            "A prompt typed while the model was busy says \"The user sent the following message\".",
            "";
    }
}
