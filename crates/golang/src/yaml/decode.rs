//! From tree to JSON in the order of goyaml.v2: later keys win, and a merge counts at its position.

use serde_json::{Map, Value};

use super::YamlError;
use super::compose::{MAX_DEPTH, NodeContent, NodeId, Tree, YamlNode, YamlScalar};
use super::scalar::{ScalarError, Typed, resolve};

/// Maximum bytes of text that aliases repeat; Go shares texts, here they are copied.
const MAX_REPEATED_TEXT: usize = 32 << 20;

const MERGE_TAG: &str = "tag:yaml.org,2002:merge";

pub(super) fn decode(tree: &Tree<'_>) -> Result<Value, YamlError> {
    Decoder { tree, depth: 0, aliases: 0, decoded: 0, repeated: 0, repeated_text: 0 }.value(Tree::ROOT)
}

struct Decoder<'a> {
    tree: &'a Tree<'a>,
    /// Lists and mappings that contain the node.
    depth: usize,
    /// Aliases that contain the node.
    aliases: usize,
    decoded: usize,
    /// The number of decoded nodes behind an alias.
    repeated: usize,
    repeated_text: usize,
}

impl<'a> Decoder<'a> {
    fn value(&mut self, id: NodeId) -> Result<Value, YamlError> {
        let node = self.enter(id)?;
        match &node.content {
            NodeContent::Scalar(scalar) => {
                let value = self.typed(scalar).and_then(Typed::into_value);
                value.map_err(|error| node.place.error(error.to_string()))
            }
            NodeContent::Alias(target) => self.behind_alias(|decoder| decoder.value(*target)),
            NodeContent::Sequence(items) => {
                self.nested(node, |decoder| items.iter().map(|item| decoder.value(*item)).collect())
            }
            NodeContent::Mapping(_) => {
                let mut map = Map::new();
                self.fill(node, &mut map)?;
                Ok(Value::Object(map))
            }
        }
    }

    /// Adds the entries of a mapping to the map.
    fn fill(&mut self, mapping: &'a YamlNode<'a>, map: &mut Map<String, Value>) -> Result<(), YamlError> {
        let NodeContent::Mapping(entries) = &mapping.content else { return Ok(()) };
        self.nested(mapping, |decoder| {
            for entry in entries.chunks_exact(2) {
                if is_merge(decoder.tree.node(entry[0])) {
                    decoder.merge(entry[1], map)?;
                } else {
                    let key = decoder.key(entry[0])?;
                    map.insert(key, decoder.value(entry[1])?);
                }
            }
            Ok(())
        })
    }

    fn key(&mut self, id: NodeId) -> Result<String, YamlError> {
        let node = self.enter(id)?;
        match &node.content {
            NodeContent::Scalar(scalar) => {
                let key = self.typed(scalar).and_then(Typed::into_key);
                key.map_err(|error| node.place.error(error.to_string()))
            }
            NodeContent::Alias(target) => self.behind_alias(|decoder| decoder.key(*target)),
            NodeContent::Sequence(_) | NodeContent::Mapping(_) => {
                Err(node.place.error("invalid map key: not a scalar"))
            }
        }
    }

    /// `<<: mapping` or `<<: [mapping, ...]`; in a list the first mapping wins.
    fn merge(&mut self, id: NodeId, map: &mut Map<String, Value>) -> Result<(), YamlError> {
        match &self.tree.node(id).content {
            NodeContent::Sequence(items) => items.iter().rev().try_for_each(|item| self.merge_one(*item, map)),
            _ => self.merge_one(id, map),
        }
    }

    fn merge_one(&mut self, id: NodeId, map: &mut Map<String, Value>) -> Result<(), YamlError> {
        let node = self.enter(id)?;
        match &node.content {
            NodeContent::Mapping(_) => self.fill(node, map),
            NodeContent::Alias(target) if matches!(self.tree.node(*target).content, NodeContent::Mapping(_)) => {
                self.behind_alias(|decoder| decoder.merge_one(*target, map))
            }
            _ => Err(node.place.error("map merge requires map or sequence of maps as the value")),
        }
    }

    /// Enters the node, counted with the weights that goyaml.v2 gives to aliases.
    fn enter(&mut self, id: NodeId) -> Result<&'a YamlNode<'a>, YamlError> {
        let node = self.tree.node(id);
        self.decoded += 1;
        self.repeated += usize::from(self.aliases > 0);
        let excessive = self.repeated > 100 && self.decoded > 1000 && self.repeated > repeatable(self.decoded);
        match excessive || self.repeated_text > MAX_REPEATED_TEXT {
            true => Err(node.place.error("document contains excessive aliasing")),
            false => Ok(node),
        }
    }

    fn typed(&mut self, scalar: &'a YamlScalar<'a>) -> Result<Typed<'a>, ScalarError> {
        if self.aliases > 0 {
            self.repeated_text += scalar.text.len();
        }
        resolve(scalar)
    }

    fn behind_alias<T>(&mut self, decode: impl FnOnce(&mut Self) -> Result<T, YamlError>) -> Result<T, YamlError> {
        self.aliases += 1;
        let decoded = decode(self);
        self.aliases -= 1;
        decoded
    }

    fn nested<T>(
        &mut self,
        node: &YamlNode<'_>,
        decode: impl FnOnce(&mut Self) -> Result<T, YamlError>,
    ) -> Result<T, YamlError> {
        if self.depth == MAX_DEPTH {
            return Err(node.place.error(format!("exceeded max depth of {MAX_DEPTH}")));
        }
        self.depth += 1;
        let decoded = decode(self);
        self.depth -= 1;
        decoded
    }
}

/// Maximum share of nodes behind aliases: 99 of 100 in files of usual size, 10 of 100 in huge files.
fn repeatable(decoded: usize) -> usize {
    const LOW: usize = 400_000;
    const HIGH: usize = 4_000_000;
    match decoded {
        ..=LOW => decoded * 99 / 100,
        HIGH.. => decoded / 10,
        _ => decoded * (99 - 89 * (decoded - LOW) / (HIGH - LOW)) / 100,
    }
}

pub(super) fn is_merge(key: &YamlNode<'_>) -> bool {
    matches!(&key.content, NodeContent::Scalar(YamlScalar { text, tag, implicit })
        if text == "<<" && (*implicit || tag == MERGE_TAG))
}
