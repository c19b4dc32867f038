//! Maps. They are shared and mutable, as in Go; where Go does not define an order, it is that of the keys (DEC-12).

use std::rc::Rc;

use super::super::context::RenderContext;
use super::super::error::RenderFailure;
use super::super::print::MAX_DEPTH;
use super::super::value::{MapRef, TemplateValue};
use super::Parameter::{self, Any, Text};
use super::comparison::to_text;
use super::{CallArguments, TemplateFunction};

pub(super) const FUNCTIONS: &[TemplateFunction] = &[
    TemplateFunction::variadic("dict", &[], Any, dict),
    TemplateFunction::new("get", &[Parameter::Map, Text], |context, arguments| {
        let found = arguments.map(0).and_then(|map| context.heap.get(map, arguments.text(1)));
        Ok(found.unwrap_or_else(|| "".into()))
    }),
    TemplateFunction::new("set", &[Parameter::Map, Text, Any], |context, arguments| {
        let map = arguments.map(0).ok_or_else(|| RenderFailure::new("assignment to entry in nil map"))?;
        context.set(map, arguments.text(1), arguments.any(2).clone())?;
        Ok(TemplateValue::Map(map))
    }),
    TemplateFunction::new("unset", &[Parameter::Map, Text], |context, arguments| {
        let Some(map) = arguments.map(0) else { return context.map(Vec::new()).map(TemplateValue::Map) };
        context.work(context.heap.map_len(map).saturating_mul(64))?;
        context.heap.remove(map, arguments.text(1));
        Ok(TemplateValue::Map(map))
    }),
    TemplateFunction::new("hasKey", &[Parameter::Map, Text], |context, arguments| {
        let found = arguments.map(0).and_then(|map| context.heap.get(map, arguments.text(1)));
        Ok(found.is_some().into())
    }),
    TemplateFunction::variadic("pluck", &[Text], Parameter::Map, |context, arguments| {
        let maps = arguments.from(1).iter().filter_map(as_map);
        let found = maps.filter_map(|map| context.heap.get(map, arguments.text(0))).collect();
        context.any_list(found)
    }),
    TemplateFunction::variadic("keys", &[], Parameter::Map, |context, arguments| {
        let mut keys = Vec::new();
        for map in arguments.from(0).iter().filter_map(as_map) {
            context.work(context.heap.map_len(map).saturating_mul(64))?;
            keys.extend(context.heap.keys(map).iter().map(|key| key.to_string()));
        }
        context.text_list(keys)
    }),
    TemplateFunction::new("values", &[Parameter::Map], |context, arguments| {
        let members = members(context, arguments.map(0))?;
        context.any_list(members.into_iter().map(|(_, value)| value).collect())
    }),
    TemplateFunction::variadic("pick", &[Parameter::Map], Text, |context, arguments| {
        chosen(context, arguments, |key, names| names.contains(&key))
    }),
    TemplateFunction::variadic("omit", &[Parameter::Map], Text, |context, arguments| {
        chosen(context, arguments, |key, names| !names.contains(&key))
    }),
    TemplateFunction::variadic("merge", &[Parameter::Map], Parameter::Map, |context, arguments| {
        merged(context, arguments, false)
    }),
    TemplateFunction::variadic("mustMerge", &[Parameter::Map], Parameter::Map, |context, arguments| {
        merged(context, arguments, false)
    }),
    TemplateFunction::variadic("mergeOverwrite", &[Parameter::Map], Parameter::Map, |context, arguments| {
        merged(context, arguments, true)
    }),
    TemplateFunction::variadic("mustMergeOverwrite", &[Parameter::Map], Parameter::Map, |context, arguments| {
        merged(context, arguments, true)
    }),
    TemplateFunction::new("deepCopy", &[Any], deep_copy),
    TemplateFunction::new("mustDeepCopy", &[Any], deep_copy),
    TemplateFunction::variadic("dig", &[], Any, dig),
];

fn as_map<'a>(value: &TemplateValue<'a>) -> Option<MapRef<'a>> {
    match value {
        TemplateValue::Map(map) => Some(*map),
        _ => None,
    }
}

/// The members of a map, charged as work; none of a nil map.
fn members<'a>(
    context: &mut RenderContext<'a>,
    map: Option<MapRef<'a>>,
) -> Result<Vec<(Rc<str>, TemplateValue<'a>)>, RenderFailure> {
    let Some(map) = map else { return Ok(Vec::new()) };
    context.work(context.heap.map_len(map).saturating_mul(64))?;
    Ok(context.heap.members(map))
}

fn dict<'a>(
    context: &mut RenderContext<'a>,
    arguments: &CallArguments<'_, 'a>,
) -> Result<TemplateValue<'a>, RenderFailure> {
    let mut members = Vec::new();
    for pair in arguments.from(0).chunks(2) {
        let key = to_text(context, pair.first().unwrap_or(&TemplateValue::Nil))?;
        context.work(key.len())?;
        members.push((Rc::from(key), pair.get(1).cloned().unwrap_or_else(|| "".into())));
    }
    context.map(members).map(TemplateValue::Map)
}

fn chosen<'a>(
    context: &mut RenderContext<'a>,
    arguments: &CallArguments<'_, 'a>,
    keep: fn(&str, &[&str]) -> bool,
) -> Result<TemplateValue<'a>, RenderFailure> {
    let names: Vec<&str> = (1..arguments.0.len()).map(|index| arguments.text(index)).collect();
    let mut members = members(context, arguments.map(0))?;
    context.work(members.len().saturating_mul(names.len()))?;
    members.retain(|(key, _)| keep(key, &names));
    context.map(members).map(TemplateValue::Map)
}

fn merged<'a>(
    context: &mut RenderContext<'a>,
    arguments: &CallArguments<'_, 'a>,
    overwrite: bool,
) -> Result<TemplateValue<'a>, RenderFailure> {
    let target = match arguments.map(0) {
        Some(target) => target,
        None => context.map(Vec::new())?,
    };
    for source in arguments.from(1).iter().filter_map(as_map) {
        merge(context, target, source, overwrite, 0)?;
    }
    Ok(TemplateValue::Map(target))
}

/// Adds missing members to `target`, or overwrites with non-empty ones; maps in both are merged.
fn merge<'a>(
    context: &mut RenderContext<'a>,
    target: MapRef<'a>,
    source: MapRef<'a>,
    overwrite: bool,
    depth: usize,
) -> Result<(), RenderFailure> {
    if depth > MAX_DEPTH {
        return Err(RenderFailure::Limit { what: "levels of a value to merge", limit: MAX_DEPTH });
    }
    for (key, value) in members(context, Some(source))? {
        context.step()?;
        let present = context.heap.get(target, &key);
        let is_missing = present.as_ref().is_none_or(|present| !context.heap.truth(present));
        if let (Some(TemplateValue::Map(ours)), TemplateValue::Map(theirs), false) = (&present, &value, is_missing) {
            merge(context, *ours, *theirs, overwrite, depth + 1)?;
        } else if is_missing || overwrite {
            context.set(target, &key, value)?;
        }
    }
    Ok(())
}

fn deep_copy<'a>(
    context: &mut RenderContext<'a>,
    arguments: &CallArguments<'_, 'a>,
) -> Result<TemplateValue<'a>, RenderFailure> {
    match arguments.any(0) {
        TemplateValue::Missing | TemplateValue::Nil => {
            Err(RenderFailure::new("reflect: call of reflect.Value.Type on zero Value"))
        }
        value => copy(context, value, 0),
    }
}

fn copy<'a>(
    context: &mut RenderContext<'a>,
    value: &TemplateValue<'a>,
    depth: usize,
) -> Result<TemplateValue<'a>, RenderFailure> {
    context.step()?;
    if depth > MAX_DEPTH {
        return Err(RenderFailure::Limit { what: "levels of a value to copy", limit: MAX_DEPTH });
    }
    match value {
        TemplateValue::List(list) => {
            let elements = context.heap.elements(*list);
            let mut items = context.heap.items(*list);
            for item in &mut items {
                *item = copy(context, item, depth + 1)?;
            }
            context.list(elements, items)
        }
        TemplateValue::Map(map) => {
            let of_text = context.heap.holds_text(*map);
            let mut members = members(context, Some(*map))?;
            for (_, member) in &mut members {
                *member = copy(context, member, depth + 1)?;
            }
            Ok(TemplateValue::Map(if of_text { context.heap.map_of_text(members) } else { context.map(members)? }))
        }
        other => Ok(other.clone()),
    }
}

/// `dig "a" "b" default map`
fn dig<'a>(
    context: &mut RenderContext<'a>,
    arguments: &CallArguments<'_, 'a>,
) -> Result<TemplateValue<'a>, RenderFailure> {
    let conversion = |context: &RenderContext<'a>, value: &TemplateValue<'a>, wanted: &str| {
        let given = match value {
            TemplateValue::Missing | TemplateValue::Nil => "nil",
            other => context.heap.type_name(other),
        };
        RenderFailure::new(format!("interface conversion: interface {{}} is {given}, not {wanted}"))
    };
    let [keys @ .., default, map] = arguments.0 else {
        return Err(RenderFailure::new("dig needs at least three arguments"));
    };
    if keys.is_empty() {
        return Err(RenderFailure::new("dig needs at least three arguments"));
    }
    let mut value = map.clone();
    for key in keys {
        let TemplateValue::Text(key) = key else { return Err(conversion(context, key, "string")) };
        let map = as_map(&value).filter(|map| !context.heap.holds_text(*map));
        let Some(map) = map else { return Err(conversion(context, &value, "map[string]interface {}")) };
        match context.heap.get(map, key) {
            Some(member) => value = member,
            None => return Ok(default.clone()),
        }
    }
    Ok(value)
}
