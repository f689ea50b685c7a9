//! What is true of an entry, as bits.

macro_rules! flags {
    ($($(#[$doc:meta])* $name:ident $method:ident,)*) => {
        /// What is true of an entry.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
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
    /// It belongs to a subagent.
    SIDECHAIN is_sidechain,
    /// A hidden note of the client.
    META is_meta,
    /// Its id is a UUID, in the usual spelling.
    CANONICAL_UUID has_canonical_uuid,
    /// The summary after a compaction.
    SUMMARY is_summary,
    /// A `compact_boundary`.
    BOUNDARY is_boundary,
    /// Typed by somebody.
    HUMAN is_human,
    /// A slash or shell command, or its output.
    COMMAND is_command,
    /// `[Request interrupted by user]`
    INTERRUPT is_interrupt,
    /// It holds a tool result.
    RESULT has_result,
    /// It holds a tool call.
    CALL has_call,
    /// It holds text that is not blank.
    TEXT has_text,
    /// It holds text that is blank.
    BLANK has_blank_text,
    /// It holds thinking.
    THINKING has_thinking,
    /// It holds a picture, a document or a block of another sort.
    MEDIA has_media,
    /// A report of an API failure.
    API_ERROR is_api_error,
    /// Written by the client in the model's place.
    SYNTHETIC is_synthetic,
    /// It repeats an entry under a new uuid.
    REPLAY is_replay,
    /// Something stands before it on its line: another object, torn bytes, NUL bytes.
    PRECEDED is_preceded_on_line,
    /// Something stands behind it on its line.
    FOLLOWED is_followed_on_line,
    /// Shown to nobody: `isVirtual`.
    VIRTUAL is_virtual,
    /// It has no `message` where it should.
    NO_MESSAGE lacks_message,
    /// Its content is a string.
    STRING has_string_content,
    /// It has the key `parentUuid`.
    PARENT_KEY has_parent_key,
    /// A prompt that was typed while the model was busy.
    QUEUED is_queued_prompt,
    /// Such a prompt that a person typed, not a background task.
    TYPED is_typed_while_busy,
    /// Words that a person typed for the client and not for the model: a memory, a shell command.
    TYPED_COMMAND is_typed_command,
    /// An assistant entry without `message.id`.
    NO_MESSAGE_ID lacks_message_id,
    /// An assistant entry without `message.model`.
    NO_MODEL lacks_model,
    /// It has the key `isSidechain`.
    SIDECHAIN_KEY has_sidechain_key,
    /// A system entry of subtype `file_snapshot`.
    SNAPSHOT is_snapshot,
    /// A system entry of subtype `local_command`.
    LOCAL_COMMAND is_local_command,
    /// An attachment that briefs a fork.
    BRIEFING is_briefing,
    /// The progress of a running command.
    TOOL_PROGRESS is_tool_progress,
    /// It has no uuid, so nothing can name it.
    NO_UUID lacks_uuid,
    /// Its content is neither a string nor a list of blocks.
    MALFORMED_CONTENT has_malformed_content,
    /// The note that a local command precedes.
    CAVEAT is_caveat,
    /// What was typed as a local command, with its name.
    COMMAND_RECORD is_command_record,
    /// The output of a local command.
    COMMAND_OUTPUT is_command_output,
    /// A text that begins with a slash.
    SLASH begins_with_slash,
    /// It says nothing but that the user interrupted.
    INTERRUPT_ONLY is_interrupt_only,
    /// The client kept a copy of a result in it.
    RESULT_COPY has_result_copy,
    /// The model refused: `stop_reason` is `refusal`.
    REFUSAL is_refusal,
    /// A system entry that only the user sees.
    DISPLAY_ONLY is_display_only,
    /// It has no `requestId`.
    NO_REQUEST_ID lacks_request_id,
    /// An attachment whose payload is not what its type asks for.
    MALFORMED_ATTACHMENT is_malformed_attachment,
    /// An attachment that stops clients which do not look before they read it.
    FATAL_ATTACHMENT is_fatal_attachment,
    /// A prompt that the end of the client cut off.
    SHUTDOWN is_cut_by_shutdown,
    /// A user entry that only accompanies a turn.
    COMPANION is_companion,
    /// A system entry of subtype `model_refusal_fallback`.
    FALLBACK is_refusal_fallback,
    /// Such an entry that names no model.
    NO_FALLBACK_MODEL lacks_fallback_model,
    /// The client's request to go on after an interruption.
    CONTINUE_REQUEST is_continue_request,
    /// Sent by a background task in the user's place.
    NOTIFICATION is_notification,
    /// The report of a background task.
    TASK_REPORT is_task_report,
    /// Such a report that was only kept for the record.
    RECORD_ONLY is_record_only,
    /// A shell command that the user typed.
    BASH_INPUT is_bash_input,
    /// The output of one.
    BASH_OUTPUT is_bash_output,
    /// A result after which the client does not go on by itself.
    ENDS_TURN ends_turn,
    /// A denial that ended the turn.
    DENIAL ends_turn_by_denial,
    /// A failure after which a turn is not taken up again.
    FINAL_ERROR is_final_error,
}

impl EntryFlags {
    /// Returns whether a person typed it, as a prompt of its own or while the model was busy.
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

    /// Tells whether it is the client's own report of a failure, which is never sent again.
    pub fn is_failure_report(self) -> bool {
        self.is_api_error() && self.is_synthetic()
    }

    /// Tells whether all of `other` are set.
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
