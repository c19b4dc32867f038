//! The items of a list, one by one while its response arrives, so that a list is never held as a whole.
//!
//! ```text
//! response ─► chunk ─► ItemSplitter ─┬─► the text of an item ─► object
//!                                    └─► everything else ─► metadata of the list
//! ```

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::pin::Pin;

use futures::{AsyncBufRead, AsyncBufReadExt};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The field with the items.
const ITEMS: &[u8] = b"items";

/// Why a response is not a list.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ListError {
    #[error("the response ended early: {0}")]
    Read(#[from] std::io::Error),
    #[error("the response is not JSON")]
    Unbalanced,
    #[error("the response ended before the list did")]
    Truncated,
    #[error("item {position} of the list cannot be read: {source}")]
    Item { position: usize, source: serde_json::Error },
    #[error("the metadata of the list cannot be read: {0}")]
    Metadata(#[source] serde_json::Error),
}

impl ListError {
    /// Whether the response ended early.
    pub(super) fn is_end(&self) -> bool {
        matches!(self, ListError::Read(_) | ListError::Truncated)
    }
}

/// The metadata of a list.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ListMetadata {
    pub resource_version: String,
    /// The token of the next page; empty after the last one.
    pub r#continue: String,
}

/// A list that is being read.
pub(super) struct ListItems<K> {
    body: Pin<Box<dyn AsyncBufRead + Send>>,
    splitter: ItemSplitter,
    /// The number of items that were read.
    read: usize,
    item: PhantomData<fn() -> K>,
}

impl<K: DeserializeOwned> ListItems<K> {
    /// Reads a list from the body of a response.
    pub(super) fn from_body(body: impl AsyncBufRead + Send + 'static) -> Self {
        ListItems { body: Box::pin(body), splitter: ItemSplitter::default(), read: 0, item: PhantomData }
    }

    /// The next item; `None` after the last one.
    pub(super) async fn next(&mut self) -> Result<Option<K>, ListError> {
        loop {
            if let Some(text) = self.splitter.items.pop_front() {
                let item = serde_json::from_slice(&text);
                self.read += 1;
                return item.map(Some).map_err(|source| ListError::Item { position: self.read, source });
            }
            let chunk = self.body.fill_buf().await?;
            if chunk.is_empty() {
                return Ok(None);
            }
            let length = chunk.len();
            self.splitter.push(chunk)?;
            self.body.as_mut().consume(length);
        }
    }

    /// The metadata, after the last item.
    pub(super) fn metadata(self) -> Result<ListMetadata, ListError> {
        self.splitter.metadata()
    }
}

/// Splits the text of a list, in chunks of any size, into its items and everything else.
#[derive(Debug, Default)]
struct ItemSplitter {
    /// Number of open braces and brackets.
    depth: usize,
    is_in_string: bool,
    /// Whether the next byte of a string is escaped.
    is_escaped: bool,
    /// The last string of the outermost object, up to one byte more than the name that is looked for.
    name: Vec<u8>,
    is_in_items: bool,
    /// The beginning of an item.
    partial: Vec<u8>,
    /// Complete items.
    items: VecDeque<Vec<u8>>,
    /// The list without its items.
    rest: Vec<u8>,
}

impl ItemSplitter {
    fn push(&mut self, chunk: &[u8]) -> Result<(), ListError> {
        // Where the part begins that is not kept yet.
        let mut from = 0;
        for (at, byte) in chunk.iter().enumerate() {
            if self.is_in_string {
                self.push_string(*byte);
                continue;
            }
            match byte {
                b'"' => {
                    self.is_in_string = true;
                    if self.depth == 1 {
                        self.name.clear();
                    }
                }
                b'[' if self.depth == 1 && self.name == ITEMS => {
                    self.keep(&chunk[from..=at]);
                    from = at + 1;
                    (self.depth, self.is_in_items) = (2, true);
                }
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth = self.depth.checked_sub(1).ok_or(ListError::Unbalanced)?;
                    if self.is_in_items && self.depth == 1 {
                        self.keep(&chunk[from..at]);
                        from = at;
                        self.finish_item();
                        self.is_in_items = false;
                    }
                }
                b',' if self.is_in_items && self.depth == 2 => {
                    self.keep(&chunk[from..at]);
                    from = at + 1;
                    self.finish_item();
                }
                _ => {}
            }
        }
        self.keep(&chunk[from..]);
        Ok(())
    }

    fn push_string(&mut self, byte: u8) {
        match byte {
            _ if self.is_escaped => self.is_escaped = false,
            b'\\' => self.is_escaped = true,
            b'"' => {
                self.is_in_string = false;
                return;
            }
            _ => {}
        }
        if self.depth == 1 && self.name.len() <= ITEMS.len() {
            self.name.push(byte);
        }
    }

    fn keep(&mut self, part: &[u8]) {
        let kept = if self.is_in_items { &mut self.partial } else { &mut self.rest };
        kept.extend_from_slice(part);
    }

    fn finish_item(&mut self) {
        if self.partial.iter().any(|byte| !byte.is_ascii_whitespace()) {
            self.items.push_back(std::mem::take(&mut self.partial));
        }
        self.partial.clear();
    }

    fn metadata(self) -> Result<ListMetadata, ListError> {
        #[derive(Deserialize)]
        struct List {
            #[serde(default)]
            metadata: ListMetadata,
        }

        if self.depth > 0 || self.is_in_string || self.rest.is_empty() {
            return Err(ListError::Truncated);
        }
        serde_json::from_slice(&self.rest).map(|List { metadata }| metadata).map_err(ListError::Metadata)
    }
}

#[cfg(test)]
mod tests {
    use futures::io::Cursor;
    use serde_json::{Value, json};

    use super::*;

    /// The items and the metadata of a list that arrives in chunks of this size.
    fn split(text: &str, size: usize) -> Result<(Vec<Value>, ListMetadata), ListError> {
        let mut splitter = ItemSplitter::default();
        for chunk in text.as_bytes().chunks(size) {
            splitter.push(chunk)?;
        }
        let items = std::mem::take(&mut splitter.items);
        let items = items.iter().map(|item| serde_json::from_slice(item).unwrap());
        Ok((items.collect(), splitter.metadata()?))
    }

    #[test]
    fn items_are_found_in_each_order_of_fields_and_at_each_chunk_size() {
        let items = json!([{"items": [{"a": "]}\\\""}, {}], "metadata": {"name": "x"}}, {}, {"b": [[1, "{"], "é"]}, 7]);
        let text = items.to_string();
        let (metadata, kind) =
            (r#""metadata": {"resourceVersion":"7", "continue":"t", "items":[5]}"#, r#""kind":"items""#);
        for list in [
            format!("{{{metadata},{kind}, \"items\" : {text}}}"),
            format!("{{\"items\":{text},{kind},{metadata}}}\n"),
            format!("{{{kind},\"items\":[ {} ],{metadata}}}", &text[1..text.len() - 1]),
        ] {
            for size in 1..list.len() {
                let (found, ListMetadata { resource_version, r#continue }) = split(&list, size).unwrap();
                assert_eq!(Value::from(found), items, "{list}");
                assert_eq!((&*resource_version, &*r#continue), ("7", "t"), "{list}");
            }
        }
    }

    #[test]
    fn lists_without_items_are_empty() {
        for list in ["{}", r#"{"items":null}"#, r#"{"items":[]}"#, r#"{"items":[ ],"metadata":{}}"#] {
            let (found, metadata) = split(list, 3).unwrap();
            assert!(found.is_empty() && metadata.resource_version.is_empty(), "{list}");
        }
    }

    #[test]
    fn what_is_no_complete_list_is_an_error() {
        for (text, wanted) in [
            ("", "the response ended before the list did"),
            (r#"{"metadata":{},"items":[{"a":1},"#, "the response ended before the list did"),
            (r#"{"metadata":{"resourceVersion":"7"},"items":[{}]"#, "the response ended before the list did"),
            (r#"{"kind":"#, "the response ended before the list did"),
            ("]", "the response is not JSON"),
            ("5", "the metadata of the list cannot be read"),
            (r#"{"metadata":5}"#, "the metadata of the list cannot be read"),
        ] {
            let error = split(text, 4).unwrap_err().to_string();
            assert!(error.starts_with(wanted), "{text}: {error}");
        }
    }

    #[tokio::test]
    async fn items_are_read_one_by_one() {
        let mut list =
            ListItems::<Value>::from_body(Cursor::new(r#"{"items":[1,2],"metadata":{"resourceVersion":"3"}}"#));
        for wanted in [Some(json!(1)), Some(json!(2)), None] {
            assert_eq!(list.next().await.unwrap(), wanted);
        }
        assert_eq!(list.metadata().unwrap().resource_version, "3");
        let mut list = ListItems::<Value>::from_body(Cursor::new(r#"{"items":[{}, {"a"}]}"#));
        assert_eq!(list.next().await.unwrap(), Some(json!({})));
        let error = list.next().await.unwrap_err().to_string();
        assert!(error.starts_with("item 2 of the list cannot be read: "), "{error}");
    }
}
