//! The text index: one document for each block of a message, in tantivy. Texts are not stored in it.

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use rethread_model::{MessageKey, TextSource};
use tantivy::merge_policy::NoMergePolicy;
use tantivy::schema::document::{ReferenceValue, ReferenceValueLeaf};
use tantivy::schema::{
    FAST, Field, INDEXED, IndexRecordOption, Schema, TextFieldIndexing, TextOptions, Value,
};
use tantivy::tokenizer::{Token, TokenStream, Tokenizer};
use tantivy::{Document, Index as TantivyIndex, IndexWriter, Term};

use crate::catalogue::{Catalogue, LogId};
use crate::error::IndexError;
use crate::text_files::{self, TextFile};
use crate::tokens::Tokens;

/// The name of the directory of the text index.
const DIR: &str = "texts";

/// The name under which tantivy knows our tokens.
const TOKENIZER: &str = "rethread";

/// The number of threads that index.
const THREADS: usize = 2;

/// The memory of each of these threads, after which it writes a segment.
const THREAD_MEMORY: usize = 60 << 20;

/// The size of texts that wait to be indexed.
const MAX_QUEUED: usize = 24 << 20;

/// The fields of a document.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields {
    /// The text of a block.
    pub(crate) text: Field,
    /// The number of the log.
    pub(crate) log: Field,
    /// The number of the message; 0 for a title.
    pub(crate) message: Field,
    /// The offset of the entry in the log.
    pub(crate) offset: Field,
    /// The number of the block in the entry, and the source of the text; see [`pack`].
    pub(crate) block: Field,
    /// The number of the tool's name; 0 for none.
    pub(crate) tool: Field,
    /// The number of the model's name; 0 for none.
    pub(crate) model: Field,
    /// The time in milliseconds since 1970, or the smallest number.
    pub(crate) time: Field,
    /// The identity of the message.
    pub(crate) key: Field,
    /// The number of the log of which this is the title.
    pub(crate) title_of: Field,
}

impl Fields {
    fn build() -> (Schema, Self) {
        let mut schema = Schema::builder();
        let indexing = TextFieldIndexing::default()
            .set_tokenizer(TOKENIZER)
            .set_index_option(IndexRecordOption::WithFreqsAndPositions);
        let fields = Self {
            text: schema.add_text_field("text", TextOptions::default().set_indexing_options(indexing)),
            log: schema.add_u64_field("log", INDEXED | FAST),
            message: schema.add_u64_field("message", FAST),
            offset: schema.add_u64_field("offset", FAST),
            block: schema.add_u64_field("block", FAST),
            tool: schema.add_u64_field("tool", FAST),
            model: schema.add_u64_field("model", FAST),
            time: schema.add_i64_field("time", FAST),
            key: schema.add_u64_field("key", FAST),
            title_of: schema.add_u64_field("title_of", INDEXED),
        };
        (schema.build(), fields)
    }
}

/// Packs the number of a block and the source of its text into one number.
pub(crate) fn pack(block: u32, source: TextSource) -> u64 {
    u64::from(block) << 8 | source as u64
}

/// Reverses [`pack`].
pub(crate) fn unpack(packed: u64) -> (u32, TextSource) {
    (u32::try_from(packed >> 8).unwrap_or(u32::MAX), TextSource::from_index(packed & 0xff))
}

/// One text of a log.
#[derive(Debug)]
pub(crate) struct BlockDocument {
    pub(crate) text: String,
    pub(crate) log: LogId,
    pub(crate) message_n: u32,
    pub(crate) offset: u64,
    pub(crate) block: u32,
    pub(crate) source: TextSource,
    pub(crate) tool: i64,
    pub(crate) model: i64,
    pub(crate) time: Option<i64>,
    pub(crate) key: MessageKey,
}

/// A document on its way to the index.
pub(crate) struct QueuedDocument {
    document: BlockDocument,
    fields: Fields,
    _room: Option<QueueRoom>,
}

/// The value of a field.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FieldData<'d> {
    Text(&'d str),
    Number(u64),
    Time(i64),
}

impl<'d> Value<'d> for FieldData<'d> {
    type ArrayIter = std::iter::Empty<Self>;
    type ObjectIter = std::iter::Empty<(&'d str, Self)>;

    fn as_value(&self) -> ReferenceValue<'d, Self> {
        ReferenceValue::Leaf(match *self {
            Self::Text(text) => ReferenceValueLeaf::Str(text),
            Self::Number(number) => ReferenceValueLeaf::U64(number),
            Self::Time(time) => ReferenceValueLeaf::I64(time),
        })
    }
}

impl Document for QueuedDocument {
    type Value<'d> = FieldData<'d>;
    type FieldsValuesIter<'d> = std::vec::IntoIter<(Field, FieldData<'d>)>;

    fn iter_fields_and_values(&self) -> Self::FieldsValuesIter<'_> {
        let Self { document, fields, .. } = self;
        let log = document.log.0.cast_unsigned();
        let mut values = vec![
            (fields.text, FieldData::Text(&document.text)),
            (fields.log, FieldData::Number(log)),
            (fields.message, FieldData::Number(document.message_n.into())),
            (fields.offset, FieldData::Number(document.offset)),
            (fields.block, FieldData::Number(pack(document.block, document.source))),
            (fields.tool, FieldData::Number(document.tool.cast_unsigned())),
            (fields.model, FieldData::Number(document.model.cast_unsigned())),
            (fields.time, FieldData::Time(document.time.unwrap_or(i64::MIN))),
            (fields.key, FieldData::Number(document.key.to_u64())),
        ];
        if document.source == TextSource::Title {
            values.push((fields.title_of, FieldData::Number(log)));
        }
        values.into_iter()
    }
}

/// The room in the queue that a document takes until it is indexed.
struct QueueRoom {
    queue: Arc<Queue>,
    bytes: usize,
}

/// Bounds the texts that wait to be indexed, so that reading does not run ahead.
#[derive(Debug, Default)]
struct Queue {
    bytes: Mutex<usize>,
    changed: Condvar,
}

impl Queue {
    /// Waits until there is room, and takes it. A text that is larger than the queue waits until it is empty.
    fn take_room(self: &Arc<Self>, bytes: usize) -> QueueRoom {
        let taken = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = |taken: &mut usize| *taken > 0 && *taken + bytes > MAX_QUEUED;
        let mut taken = self.changed.wait_while(taken, is_full).unwrap_or_else(PoisonError::into_inner);
        *taken += bytes;
        QueueRoom { queue: Arc::clone(self), bytes }
    }
}

impl Drop for QueueRoom {
    fn drop(&mut self) {
        *self.queue.bytes.lock().unwrap_or_else(PoisonError::into_inner) -= self.bytes;
        self.queue.changed.notify_all();
    }
}

/// A commit of the text index. The catalogue names the last one that it knows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TextCommit {
    /// Identifies the catalogue.
    pub(crate) catalogue: i64,
    /// The number of the commit, from 1; 0 before the first one.
    pub(crate) number: i64,
}

impl TextCommit {
    /// Returns whether a text index with this last commit has everything up to this one.
    pub(crate) fn is_in(self, last: Option<Self>) -> bool {
        let is_reached = |last: Self| last.catalogue == self.catalogue && last.number >= self.number;
        self.number == 0 || last.is_some_and(is_reached)
    }

    fn to_payload(self) -> String {
        format!("{} {}", self.catalogue, self.number)
    }

    fn from_payload(payload: &str) -> Option<Self> {
        let (catalogue, number) = payload.split_once(' ')?;
        Some(Self { catalogue: catalogue.parse().ok()?, number: number.parse().ok()? })
    }
}

/// The text index of a directory.
#[derive(Debug, Clone)]
pub(crate) struct TextIndex {
    pub(crate) index: TantivyIndex,
    pub(crate) fields: Fields,
}

impl TextIndex {
    /// Opens the text index in a directory; `None` if there is none.
    pub(crate) fn open(dir: &Path) -> Result<Option<Self>, IndexError> {
        let dir = dir.join(DIR);
        if !dir.join("meta.json").is_file() {
            return Ok(None);
        }
        let (schema, fields) = Fields::build();
        let index = TantivyIndex::open_in_dir(dir)?;
        if index.schema() != schema {
            return Err(IndexError::Damaged("the text index has other fields"));
        }
        index.tokenizers().register(TOKENIZER, BlockTokenizer::default());
        Ok(Some(Self { index, fields }))
    }

    /// Creates the text index in a directory.
    pub(crate) fn create(dir: &Path) -> Result<Self, IndexError> {
        let (schema, fields) = Fields::build();
        let index = TantivyIndex::create_in_dir(dir.join(DIR), schema)?;
        index.tokenizers().register(TOKENIZER, BlockTokenizer::default());
        Ok(Self { index, fields })
    }

    /// Returns the name of the directory of the text index.
    pub(crate) fn dir_name() -> &'static str {
        DIR
    }

    /// Returns the last commit, if there was one.
    pub(crate) fn last_commit(&self) -> Result<Option<TextCommit>, IndexError> {
        Ok(self.index.load_metas()?.payload.as_deref().and_then(TextCommit::from_payload))
    }

    /// Fails if a file of the text index is not as the catalogue recorded it.
    pub(crate) fn check_files(&self, dir: &Path, catalogue: &Catalogue) -> Result<(), IndexError> {
        text_files::check(&self.index, &dir.join(DIR), &catalogue.text_files()?)
    }

    /// Returns the files of the text index, to be recorded.
    pub(crate) fn files(&self, dir: &Path) -> Result<Vec<TextFile>, IndexError> {
        text_files::files_of(&self.index, &dir.join(DIR))
    }

    /// Returns the term of a log.
    pub(crate) fn log_term(&self, log: LogId) -> Term {
        Term::from_field_u64(self.fields.log, log.0.cast_unsigned())
    }
}

/// Adds documents to the text index. They become visible when they are committed.
pub(crate) struct TextWriter {
    text: TextIndex,
    writer: IndexWriter<QueuedDocument>,
    queue: Arc<Queue>,
    /// The last commit.
    commit: TextCommit,
}

impl TextWriter {
    /// Begins to write, after the last commit that the catalogue knows. The directory must be locked.
    pub(crate) fn new(text: TextIndex, known: TextCommit) -> Result<Self, IndexError> {
        // A writer that was killed may have made another one.
        let last = text.last_commit()?.filter(|last| last.catalogue == known.catalogue);
        let commit = last.filter(|last| last.number > known.number).unwrap_or(known);
        let writer = text.index.writer_with_num_threads(THREADS, THREADS * THREAD_MEMORY)?;
        // Merging is left to `merge_small`, because a process that searches must not wait for large merges.
        writer.set_merge_policy(Box::new(NoMergePolicy));
        Ok(Self { text, writer, queue: Arc::default(), commit })
    }

    /// Adds documents. Those of one call are kept together.
    pub(crate) fn add(&self, documents: Vec<BlockDocument>) -> Result<(), IndexError> {
        if documents.is_empty() {
            return Ok(());
        }
        let bytes = documents.iter().map(|document| document.text.len()).sum();
        // The last document keeps the room of all until it is indexed.
        let mut room = Some(self.queue.take_room(bytes));
        let (fields, last) = (self.text.fields, documents.len() - 1);
        let queued = documents.into_iter().enumerate().map(|(at, document)| {
            let room = room.take_if(|_| at == last);
            tantivy::indexer::UserOperation::Add(QueuedDocument { document, fields, _room: room })
        });
        self.writer.run(queued)?;
        Ok(())
    }

    /// Removes the documents of a log.
    pub(crate) fn remove_log(&self, log: LogId) {
        self.writer.delete_term(self.text.log_term(log));
    }

    /// Removes the title of a log.
    pub(crate) fn remove_title(&self, log: LogId) {
        self.writer.delete_term(Term::from_field_u64(self.text.fields.title_of, log.0.cast_unsigned()));
    }

    /// Makes everything visible; returns the commit that does.
    pub(crate) fn commit(&mut self) -> Result<TextCommit, IndexError> {
        let commit = TextCommit { number: self.commit.number + 1, ..self.commit };
        let mut prepared = self.writer.prepare_commit()?;
        prepared.set_payload(&commit.to_payload());
        prepared.commit()?;
        self.commit = commit;
        Ok(commit)
    }

    /// Merges small segments, of which each run adds one.
    pub(crate) fn merge_small(&mut self) -> Result<(), IndexError> {
        // The sizes below which segments are merged, and the number of them that a search can do with.
        for (limit, max_count) in [(1_000, 8), (10_000, 8), (100_000, 24)] {
            let mut small = self.text.index.searchable_segment_metas()?;
            small.retain(|segment| segment.num_docs() < limit);
            if small.len() > max_count {
                let ids: Vec<_> = small.iter().map(tantivy::SegmentMeta::id).collect();
                self.writer.merge(&ids).wait()?;
            }
        }
        Ok(())
    }

    /// Waits until all files are written.
    pub(crate) fn finish(self) -> Result<TextIndex, IndexError> {
        let Self { text, writer, .. } = self;
        let removed = writer.garbage_collect_files().wait();
        writer.wait_merging_threads()?;
        removed?;
        Ok(text)
    }
}

/// Our tokens, for tantivy.
#[derive(Clone, Default)]
struct BlockTokenizer {
    token: Token,
}

/// The tokens of one text, for tantivy.
struct BlockTokens<'t> {
    tokens: Tokens<'t>,
    token: &'t mut Token,
}

impl Tokenizer for BlockTokenizer {
    type TokenStream<'t> = BlockTokens<'t>;

    fn token_stream<'t>(&'t mut self, text: &'t str) -> BlockTokens<'t> {
        self.token.reset();
        BlockTokens { tokens: Tokens::new(text), token: &mut self.token }
    }
}

impl TokenStream for BlockTokens<'_> {
    fn advance(&mut self) -> bool {
        let Some(span) = self.tokens.next_into(&mut self.token.text) else { return false };
        self.token.position = span.position as usize;
        (self.token.offset_from, self.token.offset_to) = (span.start, span.end);
        true
    }

    fn token(&self) -> &Token {
        self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        self.token
    }
}
