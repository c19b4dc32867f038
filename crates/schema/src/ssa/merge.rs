//! Merge of an applied configuration into a live value.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::PathElement;
use super::compare::{items, members, paired};
use super::schema::{ListMerge, ListType, MapType, MergeType, ValueShape};
use super::validate::entries;

/// The live value merged with the configuration; both are valid for the type.
pub(super) fn merged(live: Option<&Value>, config: Option<&Value>, of: &MergeType) -> Option<Value> {
    let value = config.or(live)?;
    let shape = match config {
        None => of.shape(live),
        Some(_) => of.shape(config),
    };
    match shape {
        ValueShape::Map(of) if !of.atomic => {
            let (live, config) = (members(live), members(config));
            match [live, config].iter().all(|side| side.is_none_or(Map::is_empty)) {
                true => Some(value.clone()),
                false => maps(live, config, of),
            }
        }
        ValueShape::List(of) if of.merge != ListMerge::Atomic => {
            let (live, config) = (items(live), items(config));
            match live.is_empty() && config.is_empty() {
                true => Some(value.clone()),
                false => lists(live, config, of),
            }
        }
        _ => Some(value.clone()),
    }
}

fn maps(live: Option<&Map<String, Value>>, config: Option<&Map<String, Value>>, of: &MapType) -> Option<Value> {
    let fields: Map<String, Value> = paired(live, config)
        .filter_map(|(name, live, config)| {
            let of = of.field(name).unwrap_or(&MergeType::Deduced);
            Some((name.to_owned(), merged(live, config, of)?))
        })
        .collect();
    (!fields.is_empty()).then_some(Value::Object(fields))
}

fn lists(live: &[Value], config: &[Value], of: &ListType) -> Option<Value> {
    let (Some(live_steps), Some(config_steps)) = (entries(live, of), entries(config, of)) else {
        return Some(Value::Array(config.to_vec()));
    };
    let mut interleaving = Interleaving::new(of, (live, &live_steps), (config, &config_steps));
    interleaving.run();
    (!interleaving.out.is_empty()).then_some(Value::Array(interleaving.out))
}

/// Merge of two lists: common entries have the order of the configuration, and entries of the live list alone stay
/// after their predecessor.
struct Interleaving<'a> {
    of: &'a ListType,
    live: &'a [Value],
    live_steps: &'a [PathElement],
    config: &'a [Value],
    config_steps: &'a [PathElement],
    /// Live entries by step; `None` for repeated ones, which are not merged.
    unique: BTreeMap<&'a PathElement, Option<&'a Value>>,
    configured: BTreeSet<&'a PathElement>,
    /// Steps in both lists that are yet to be written, the next one last.
    shared: Vec<&'a PathElement>,
    written: BTreeSet<&'a PathElement>,
    out: Vec<Value>,
}

impl<'a> Interleaving<'a> {
    fn new(of: &'a ListType, live: (&'a [Value], &'a [PathElement]), config: (&'a [Value], &'a [PathElement])) -> Self {
        let mut unique = BTreeMap::new();
        for (step, item) in live.1.iter().zip(live.0) {
            unique.entry(step).and_modify(|item| *item = None).or_insert(Some(item));
        }
        let shared = config.1.iter().rev().filter(|step| unique.contains_key(step)).collect();
        Interleaving {
            of,
            live: live.0,
            live_steps: live.1,
            config: config.0,
            config_steps: config.1,
            unique,
            configured: config.1.iter().collect(),
            shared,
            written: BTreeSet::new(),
            out: Vec::new(),
        }
    }

    fn run(&mut self) {
        let (mut at_live, mut at_config) = (0, 0);
        loop {
            match (self.live_steps.get(at_live), self.config_steps.get(at_config)) {
                (None, None) => return,
                (Some(live), Some(config)) if live == config => {
                    self.configured(at_config);
                    at_live += 1;
                    at_config += 1;
                }
                // Already written, or written later in the order of the configuration.
                (Some(live), Some(_)) if self.is_out_of_turn(live) => at_live += 1,
                (Some(live), _) if !self.configured.contains(live) => {
                    self.push(self.live.get(at_live), None);
                    at_live += 1;
                }
                (live, config) => {
                    if live.is_some_and(|live| self.written.contains(live)) {
                        at_live += 1;
                    }
                    if config.is_some() {
                        self.configured(at_config);
                        at_config += 1;
                    }
                }
            }
        }
    }

    fn is_out_of_turn(&self, live: &PathElement) -> bool {
        self.configured.contains(live) && self.shared.last().is_some_and(|next| *next != live)
    }

    /// Writes an entry of the configuration, merged with the live one.
    fn configured(&mut self, position: usize) {
        let Some(step) = self.config_steps.get(position) else { return };
        self.written.insert(step);
        self.push(self.unique.get(step).copied().flatten(), self.config.get(position));
        if self.shared.last() == Some(&step) {
            self.shared.pop();
        }
    }

    fn push(&mut self, live: Option<&Value>, config: Option<&Value>) {
        self.out.extend(merged(live, config, &self.of.items));
    }
}
