//! Properties of an entry, as bits.

macro_rules! flags {
    ($($(#[$doc:meta])* $name:ident $method:ident,)*) => {
        /// Properties of an entry.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[serde(transparent)]
        pub struct EntryFlags(u64);

        #[expect(non_camel_case_types, clippy::upper_case_acronyms, reason = "only names of bits")]
        enum Bit { $($name,)* }

        impl EntryFlags {
            $(
                pub(crate) const $name: Self = Self(1 << Bit::$name as u64);
                $(#[$doc])*
                pub fn $method(self) -> bool { self.has(Self::$name) }
            )*
        }
    };
}

flags! {
    /// Belongs to a subagent.
    SIDECHAIN is_sidechain,
    /// A hidden entry of the client (`isMeta`).
    META is_meta,
    /// Its id is a UUID in canonical form.
    CANONICAL_UUID has_canonical_uuid,
    /// The summary after a compaction.
    SUMMARY is_summary,
    /// A `compact_boundary`.
    BOUNDARY is_boundary,
    /// Typed by a person.
    HUMAN is_human,
    /// A slash or shell command, or its output.
    COMMAND is_command,
    /// `[Request interrupted by user]`
    INTERRUPT is_interrupt,
    /// Contains a tool result.
    RESULT has_result,
    /// Contains a tool call.
    CALL has_call,
    /// Contains text that is not blank.
    TEXT has_text,
    /// Contains blank text.
    BLANK has_blank_text,
    /// Contains thinking.
    THINKING has_thinking,
    /// Contains an image, a document or a block of another type.
    MEDIA has_media,
    /// A report of an API failure.
    API_ERROR is_api_error,
    /// Written by the client in the place of the model.
    SYNTHETIC is_synthetic,
    /// Repeats an entry under a new uuid.
    REPLAY is_replay,
    /// Other content precedes it on its line: another object, torn bytes, NUL bytes.
    PRECEDED is_preceded_on_line,
    /// Other content follows it on its line.
    FOLLOWED is_followed_on_line,
    /// Never shown: `isVirtual`.
    VIRTUAL is_virtual,
    /// Lacks a `message` that it should have.
    NO_MESSAGE lacks_message,
    /// Its content is a string.
    STRING has_string_content,
    /// Has the key `parentUuid`.
    PARENT_KEY has_parent_key,
    /// A prompt typed while the model was busy.
    QUEUED is_queued_prompt,
    /// Such a prompt typed by a person, not sent by a background task.
    TYPED is_typed_while_busy,
    /// Text that a person typed for the client and not for the model: a memory, a shell command.
    TYPED_COMMAND is_typed_command,
    /// An assistant entry without `message.id`.
    NO_MESSAGE_ID lacks_message_id,
    /// An assistant entry without `message.model`.
    NO_MODEL lacks_model,
    /// Has the key `isSidechain`.
    SIDECHAIN_KEY has_sidechain_key,
    /// A system entry of subtype `file_snapshot`.
    SNAPSHOT is_snapshot,
    /// A system entry of subtype `local_command`.
    LOCAL_COMMAND is_local_command,
    /// An attachment that briefs a fork.
    BRIEFING is_briefing,
    /// The progress of a running command.
    TOOL_PROGRESS is_tool_progress,
    /// Has no uuid, so no entry can name it.
    NO_UUID lacks_uuid,
    /// Its content is neither a string nor a list of blocks.
    MALFORMED_CONTENT has_malformed_content,
    /// The caveat that precedes a local command.
    CAVEAT is_caveat,
    /// The record of a local command, with its name.
    COMMAND_RECORD is_command_record,
    /// The output of a local command.
    COMMAND_OUTPUT is_command_output,
    /// Text that begins with a slash.
    SLASH begins_with_slash,
    /// Contains only the notice that the user interrupted.
    INTERRUPT_ONLY is_interrupt_only,
    /// Contains the client's copy of a tool result (`toolUseResult`).
    RESULT_COPY has_result_copy,
    /// The model refused: `stop_reason` is `refusal`.
    REFUSAL is_refusal,
    /// A system entry that only the user sees.
    DISPLAY_ONLY is_display_only,
    /// Has no `requestId`.
    NO_REQUEST_ID lacks_request_id,
    /// An attachment whose payload does not match its type.
    MALFORMED_ATTACHMENT is_malformed_attachment,
    /// An attachment that crashes clients which do not validate it.
    FATAL_ATTACHMENT is_fatal_attachment,
    /// A prompt cut off by the shutdown of the client.
    SHUTDOWN is_cut_by_shutdown,
    /// A user entry that only accompanies a turn.
    COMPANION is_companion,
    /// A system entry of subtype `model_refusal_fallback`.
    FALLBACK is_refusal_fallback,
    /// Such an entry that names no model.
    NO_FALLBACK_MODEL lacks_fallback_model,
    /// The client's request to continue after an interruption.
    CONTINUE_REQUEST is_continue_request,
    /// Sent by a background task in the place of the user.
    NOTIFICATION is_notification,
    /// The report of a background task.
    TASK_REPORT is_task_report,
    /// Such a report that was kept only for the record.
    RECORD_ONLY is_record_only,
    /// A shell command that the user typed.
    BASH_INPUT is_bash_input,
    /// The output of a shell command that the user typed.
    BASH_OUTPUT is_bash_output,
    /// A result after which the client does not continue on its own.
    ENDS_TURN ends_turn,
    /// A denial that ended the turn.
    DENIAL ends_turn_by_denial,
    /// An error after which a turn is not continued.
    FINAL_ERROR is_final_error,
}

impl EntryFlags {
    /// Returns whether a person typed it, as a separate prompt or while the model was busy.
    pub fn is_prompt(self) -> bool {
        self.is_human() || self.is_typed_while_busy()
    }

    /// Returns whether a user entry of a subagent gives it a task.
    pub fn is_task(self) -> bool {
        self.is_sidechain()
            && !self.has_result()
            && !self.is_meta()
            && !self.is_interrupt()
            && !self.is_command()
    }

    /// Returns whether it is the client's own report of an error, which is never sent again.
    pub fn is_failure_report(self) -> bool {
        self.is_api_error() && self.is_synthetic()
    }

    /// Returns whether all of `other` are set.
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    pub(crate) fn set(&mut self, other: Self) {
        self.0 |= other.0;
    }

    pub(crate) fn clear(&mut self, other: Self) {
        self.0 &= !other.0;
    }

    pub(crate) fn set_if(&mut self, condition: bool, other: Self) {
        if condition {
            self.set(other);
        }
    }
}
