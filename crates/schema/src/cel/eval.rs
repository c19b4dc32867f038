//! Evaluation of programs on values, within budgets (CEL-025, CEL-026).
//!
//! Recursion is bounded by the nesting of the program, which the parser limits.

use std::borrow::Cow;
use std::rc::Rc;

use super::fault::EvalError;
use super::lex::Constant;
use super::library::{self, Function};
use super::meter::{Meter, PER_ELEMENT, PER_ENTRY};
use super::node::{CelNode, Op, Repeat, TimeField};
use super::parse::{LoopForm, SelectMode};
use super::types::{CelType, FieldDecl, ObjectDecl};
use super::value::{CelList, CelMap, CelText, MapTable, Val, view};
use golang::calendar::Moment;

/// Evaluates a program for `self` and `oldSelf`. One that is an error fails only if the program uses it.
pub(super) fn run<'v>(
    root: &'v CelNode,
    values: [Result<Val<'v>, EvalError>; 2],
    meter: &mut Meter,
) -> Result<Val<'v>, EvalError> {
    let errors = values.each_ref().map(|value| value.as_ref().err().cloned());
    let stack = values.into_iter().map(|value| value.unwrap_or(Val::Null)).collect();
    Evaluator { stack, errors, meter }.value(root)
}

/// A literal that a conversion function does not accept.
#[derive(Debug, thiserror::Error)]
pub(super) enum LiteralError {
    #[error("{0}")]
    Refused(Cow<'static, str>),
    #[error("is too long")]
    TooLong,
}

/// Whether a conversion function accepts a literal.
pub(super) fn converts(function: &'static Function, literal: &Constant) -> Result<(), LiteralError> {
    let mut meter = Meter::new();
    meter.begin();
    match (function.run)(&mut meter, &[constant(literal)]) {
        Ok(_) => Ok(()),
        Err(EvalError::Failed(text)) => Err(LiteralError::Refused(text)),
        Err(EvalError::Spent) => Err(LiteralError::TooLong),
    }
}

fn constant(literal: &Constant) -> Val<'_> {
    match literal {
        Constant::Null => Val::Null,
        Constant::Bool(value) => Val::Bool(*value),
        Constant::Int(value) => Val::Int(*value),
        Constant::Uint(value) => Val::Uint(*value),
        Constant::Double(value) => Val::Double(*value),
        Constant::Text(text) => Val::Text(CelText::Written(text)),
        Constant::Bytes(bytes) => Val::Bytes(bytes.as_slice().into()),
    }
}

struct Evaluator<'v, 'm> {
    stack: Vec<Val<'v>>,
    /// The errors of the first values of the stack.
    errors: [Option<EvalError>; 2],
    meter: &'m mut Meter,
}

impl<'v> Evaluator<'v, '_> {
    fn value(&mut self, node: &'v CelNode) -> Result<Val<'v>, EvalError> {
        self.meter.work(16)?;
        match &node.op {
            Op::Literal(literal) => Ok(constant(literal)),
            Op::TypeName(name) => Ok(Val::Type(name)),
            Op::Slot(slot) => {
                self.meter.charge(1)?;
                if let Some(Some(error)) = self.errors.get(*slot) {
                    return Err(error.clone());
                }
                self.stack.get(*slot).cloned().ok_or_else(|| EvalError::failed("a variable has no value"))
            }
            Op::Select { of, field, how } => self.select(of, field, *how),
            Op::And(sides) => self.logic(&sides.0, &sides.1, false),
            Op::Or(sides) => self.logic(&sides.0, &sides.1, true),
            Op::Choose(parts) => {
                let branch = if self.truth(&parts.0)? { &parts.1 } else { &parts.2 };
                self.value(branch)
            }
            Op::Index { of, optional } => self.index(&of.0, &of.1, *optional),
            Op::Call { function, args } => self.call(function, args),
            Op::Search { function, args, regex } => {
                let (args, _) = self.args(args)?;
                let result = library::text::search(function, regex, self.meter, args.as_slice())?;
                self.price(function, args.as_slice(), &result)?;
                Ok(result)
            }
            Op::List(items) => self.list(items),
            Op::Map(entries) => self.map(entries),
            Op::Time(units) => self.time(node, units),
            Op::Loop(repeat) => self.repeat(repeat),
            Op::Bind { of, body, flat } => self.bind(of, body, *flat),
        }
    }

    fn truth(&mut self, node: &'v CelNode) -> Result<bool, EvalError> {
        match self.value(node)? {
            Val::Bool(value) => Ok(value),
            other => Err(EvalError::failed(format!("expected a bool, and found {}", other.type_name()))),
        }
    }

    /// Either side alone may determine the result, even if the other fails.
    fn logic(&mut self, left: &'v CelNode, right: &'v CelNode, decides: bool) -> Result<Val<'v>, EvalError> {
        let first = match self.truth(left) {
            Ok(value) if value == decides => return Ok(Val::Bool(decides)),
            Err(EvalError::Spent) => return Err(EvalError::Spent),
            first => first,
        };
        match (first, self.truth(right)) {
            (_, Ok(value)) if value == decides => Ok(Val::Bool(decides)),
            (_, Err(EvalError::Spent)) => Err(EvalError::Spent),
            (Err(fault), _) | (_, Err(fault)) => Err(fault),
            _ => Ok(Val::Bool(!decides)),
        }
    }

    fn select(&mut self, of: &'v CelNode, field: &'v str, how: SelectMode) -> Result<Val<'v>, EvalError> {
        let mut of = self.value(of)?;
        if how != SelectMode::Test {
            self.meter.charge(1)?;
        }
        if let Val::Optional(inner) = of {
            let Some(inner) = inner else {
                return Ok(if how == SelectMode::Test { Val::Bool(false) } else { Val::Optional(None) });
            };
            of = (*inner).clone();
        }
        if how == SelectMode::Test {
            return self.has(&of, field);
        }
        let found = match &of {
            Val::Object(members, structure) => {
                let field = declared(structure, field)?;
                members.get(&field.name).map(|member| view(member, &field.decl, self.meter)).transpose()?
            }
            Val::Map(map) => map.get(&Val::Text(CelText::Written(field)), self.meter)?,
            other => return Err(EvalError::failed(format!("{} has no fields", other.type_name()))),
        };
        match (how, found) {
            (SelectMode::Optional, Some(found)) => Ok(Val::some(found)),
            (SelectMode::Optional, None) => Ok(Val::Optional(None)),
            (_, Some(found)) => Ok(found),
            (_, None) => Err(EvalError::failed(format!("no such key: {field}"))),
        }
    }

    /// Whether a field is present, regardless of its value.
    fn has(&mut self, of: &Val<'v>, field: &'v str) -> Result<Val<'v>, EvalError> {
        let has = match of {
            Val::Object(members, structure) => members.contains_key(&declared(structure, field)?.name),
            Val::Map(map) => map.has(&Val::Text(CelText::Written(field)), self.meter)?,
            other => return Err(EvalError::failed(format!("{} has no fields", other.type_name()))),
        };
        Ok(Val::Bool(has))
    }

    fn index(&mut self, of: &'v CelNode, key: &'v CelNode, optional: bool) -> Result<Val<'v>, EvalError> {
        let mut of = self.value(of)?;
        let key = self.value(key)?;
        self.meter.charge(1)?;
        if let Val::Optional(inner) = of {
            let Some(inner) = inner else { return Ok(Val::Optional(None)) };
            of = (*inner).clone();
        }
        let found = match (&of, &key) {
            (Val::List(list), key) => {
                let at = position(key).ok_or_else(|| EvalError::failed("the index of a list must be an int"))?;
                usize::try_from(at).ok().and_then(|at| list.get(at, self.meter)).transpose()?
            }
            (Val::Map(map), key) => map.get(key, self.meter)?,
            (Val::Object(members, structure), Val::Text(name)) => {
                self.meter.work(name.as_str().len())?;
                let field = structure.field(name.as_str());
                let member = field.and_then(|field| Some((members.get(&field.name)?, &field.decl)));
                member.map(|(member, decl)| view(member, decl, self.meter)).transpose()?
            }
            (other, _) => return Err(EvalError::failed(format!("{} cannot be indexed", other.type_name()))),
        };
        match (optional, found) {
            (true, Some(found)) => Ok(Val::some(found)),
            (true, None) => Ok(Val::Optional(None)),
            (false, Some(found)) => Ok(found),
            (false, None) => Err(missing(&of, &key)),
        }
    }

    fn args(&mut self, args: &'v [CelNode]) -> Result<(Args<'v>, usize), EvalError> {
        let mut values = Args { values: [const { Val::Null }; 4], count: 0 };
        for arg in args {
            let value = self.value(arg)?;
            match values.values.get_mut(values.count) {
                Some(place) => *place = value,
                None => return Err(EvalError::failed("too many arguments")),
            }
            values.count += 1;
        }
        let count = values.count;
        Ok((values, count))
    }

    fn call(&mut self, function: &'static Function, args: &'v [CelNode]) -> Result<Val<'v>, EvalError> {
        let (args, _) = self.args(args)?;
        self.meter.work(20)?;
        let result = (function.run)(self.meter, args.as_slice())?;
        self.price(function, args.as_slice(), &result)?;
        Ok(result)
    }

    /// Charges the cost of a call; counting the characters of strings is work as well.
    fn price(&mut self, function: &Function, args: &[Val<'v>], result: &Val<'v>) -> Result<(), EvalError> {
        let bytes = args.iter().fold(result.text_bytes(), |sum, arg| sum.saturating_add(arg.text_bytes()));
        self.meter.work(bytes / 4)?;
        self.meter.charge((function.price)(&extents(args, result)))
    }

    fn list(&mut self, items: &'v [(CelNode, bool)]) -> Result<Val<'v>, EvalError> {
        if !items.iter().all(|(item, _)| matches!(item.op, Op::Literal(_))) {
            self.meter.charge(10)?;
        }
        self.meter.work(items.len() * PER_ELEMENT)?;
        let mut elements = Vec::with_capacity(items.len());
        for (item, optional) in items {
            match self.value(item)? {
                Val::Optional(inner) if *optional => elements.extend(inner.map(|inner| (*inner).clone())),
                element => elements.push(element),
            }
        }
        Ok(Val::list(elements))
    }

    fn map(&mut self, entries: &'v [(CelNode, CelNode, bool)]) -> Result<Val<'v>, EvalError> {
        self.meter.charge(30)?;
        self.meter.work((entries.len() + 1) * PER_ENTRY)?;
        let mut table = MapTable::with_capacity(entries.len());
        for (key, value, optional) in entries {
            let (key, value) = (self.value(key)?, self.value(value)?);
            match value {
                Val::Optional(inner) if *optional => {
                    if let Some(inner) = inner {
                        table.set(key, (*inner).clone(), self.meter)?;
                    }
                }
                value => table.set(key, value, self.meter)?,
            }
        }
        Ok(Val::Map(CelMap::Made(Rc::new(table))))
    }

    /// A duration or timestamp from its fields; of repeated fields the last counts.
    fn time(&mut self, node: &CelNode, units: &'v [(TimeField, CelNode, bool)]) -> Result<Val<'v>, EvalError> {
        self.meter.charge(40)?;
        let (mut seconds, mut nanos) = (0, 0);
        for (unit, value, optional) in units {
            let value = match self.value(value)? {
                Val::Optional(inner) if *optional => inner.map(|inner| (*inner).clone()),
                value => Some(value),
            };
            let number = match value {
                None => continue,
                Some(Val::Int(number)) => number,
                Some(other) => {
                    return Err(EvalError::failed(format!("expected an int, and found {}", other.type_name())));
                }
            };
            match unit {
                TimeField::Seconds => seconds = number,
                TimeField::Nanos if i32::try_from(number).is_ok() => nanos = number,
                TimeField::Nanos => return Err(EvalError::failed("nanos do not fit 32 bits")),
            }
        }
        match node.ty {
            CelType::Timestamp => Moment::new(seconds, nanos).map(Val::Timestamp),
            _ => seconds.checked_mul(1_000_000_000).and_then(|whole| whole.checked_add(nanos)).map(Val::Duration),
        }
        .ok_or_else(|| EvalError::failed("a time is out of range"))
    }

    fn bind(&mut self, of: &'v CelNode, body: &'v CelNode, flat: bool) -> Result<Val<'v>, EvalError> {
        let inner = match self.value(of)? {
            Val::Optional(Some(inner)) => (*inner).clone(),
            Val::Optional(None) => return Ok(Val::Optional(None)),
            other => return Err(EvalError::failed(format!("expected an optional, and found {}", other.type_name()))),
        };
        self.stack.push(inner);
        let result = self.value(body);
        self.stack.pop();
        result.map(|value| if flat { value } else { Val::some(value) })
    }

    fn repeat(&mut self, repeat: &'v Repeat) -> Result<Val<'v>, EvalError> {
        let range = self.value(&repeat.range)?;
        let mut gathered = LoopState::new(repeat.form);
        if repeat.form != LoopForm::ExistsOne {
            self.meter.charge(1)?;
        }
        match range {
            Val::List(list) => {
                for at in 0..list.len() {
                    let Some(value) = list.get(at, self.meter) else { break };
                    if !self.step(repeat, Val::size(at), value, false, &mut gathered)? {
                        break;
                    }
                }
            }
            Val::Map(map) => {
                self.meter.work(map.len().saturating_mul(100))?;
                for (key, value) in map.entries(self.meter) {
                    if !self.step(repeat, key, value, true, &mut gathered)? {
                        break;
                    }
                }
            }
            other => return Err(EvalError::failed(format!("cannot iterate over {}", other.type_name()))),
        }
        if repeat.form == LoopForm::SortBy {
            let LoopState { elements, keys, .. } = gathered;
            return library::list::sorted_by(elements, keys, self.meter);
        }
        gathered.result()
    }

    /// One iteration of a loop; returns whether to continue.
    fn step(
        &mut self,
        repeat: &'v Repeat,
        key: Val<'v>,
        value: Result<Val<'v>, EvalError>,
        by_key: bool,
        gathered: &mut LoopState<'v>,
    ) -> Result<bool, EvalError> {
        let before = self.stack.len();
        let element = match (repeat.keyed, by_key) {
            (true, _) => {
                self.stack.push(key.clone());
                self.stack.push(value?);
                key
            }
            (false, true) => {
                self.stack.push(key.clone());
                key
            }
            (false, false) => {
                let value = value?;
                self.stack.push(value.clone());
                value
            }
        };
        let goes_on = self.turn(repeat, element, gathered);
        self.stack.truncate(before);
        goes_on
    }

    fn turn(&mut self, repeat: &'v Repeat, element: Val<'v>, gathered: &mut LoopState<'v>) -> Result<bool, EvalError> {
        self.meter.work(40)?;
        if let Some(filter) = &repeat.filter
            && !self.truth(filter)?
        {
            return Ok(true);
        }
        let form = repeat.form;
        match form {
            LoopForm::All | LoopForm::Exists => {
                self.meter.charge(if form == LoopForm::All { 3 } else { 4 })?;
                let decides = form == LoopForm::Exists;
                match self.truth(&repeat.body) {
                    Ok(value) if value == decides => {
                        gathered.decided = true;
                        return Ok(false);
                    }
                    Ok(_) => {}
                    Err(EvalError::Spent) => return Err(EvalError::Spent),
                    Err(fault) => {
                        gathered.fault.get_or_insert(fault);
                    }
                }
            }
            LoopForm::ExistsOne => {
                if self.truth(&repeat.body)? {
                    self.meter.charge(2)?;
                    gathered.count += 1;
                }
            }
            LoopForm::Filter => {
                if self.truth(&repeat.body)? {
                    self.meter.charge(13)?;
                    self.meter.work(PER_ELEMENT)?;
                    gathered.elements.push(element);
                }
            }
            LoopForm::Map | LoopForm::TransformList => {
                self.meter.charge(12)?;
                self.meter.work(PER_ELEMENT)?;
                let made = self.value(&repeat.body)?;
                gathered.elements.push(made);
            }
            LoopForm::SortBy => {
                self.meter.charge(12)?;
                self.meter.work(100)?;
                let key = self.value(&repeat.body)?;
                gathered.keys.push(key);
                gathered.elements.push(element);
            }
            LoopForm::TransformMap => {
                self.meter.charge(3)?;
                self.meter.work(PER_ENTRY)?;
                let made = self.value(&repeat.body)?;
                gathered.table.insert(element, made, self.meter)?;
            }
            LoopForm::TransformMapEntry => {
                self.meter.charge(2)?;
                let Val::Map(made) = self.value(&repeat.body)? else {
                    return Err(EvalError::failed("transformMapEntry() must result in a map"));
                };
                self.meter.work(made.len().saturating_mul(PER_ENTRY))?;
                for (key, value) in made.entries(self.meter) {
                    gathered.table.insert(key, value?, self.meter)?;
                }
            }
        }
        Ok(true)
    }
}

/// The arguments of a call, at most four.
struct Args<'v> {
    values: [Val<'v>; 4],
    count: usize,
}

impl<'v> Args<'v> {
    fn as_slice(&self) -> &[Val<'v>] {
        self.values.get(..self.count).unwrap_or_default()
    }
}

/// Sizes of arguments by position, and of the result, as cost functions ask for them.
fn extents<'a>(args: &'a [Val<'_>], result: &'a Val<'_>) -> impl Fn(usize) -> u64 + 'a {
    move |at| match at {
        library::RESULT => result.extent(),
        library::ELEMENT => 0,
        at => args.get(at).map_or(0, Val::extent),
    }
}

fn declared<'v>(structure: &'v ObjectDecl, field: &str) -> Result<&'v FieldDecl, EvalError> {
    structure.field(field).ok_or_else(|| EvalError::failed(format!("no such field: {field}")))
}

fn position(key: &Val<'_>) -> Option<i64> {
    match key {
        Val::Int(at) => Some(*at),
        Val::Uint(at) => i64::try_from(*at).ok(),
        #[allow(clippy::cast_possible_truncation, reason = "it is whole and small")]
        Val::Double(at) if at.fract() == 0.0 && at.abs() < 1e15 => Some(*at as i64),
        _ => None,
    }
}

fn missing(of: &Val<'_>, key: &Val<'_>) -> EvalError {
    match (of, key) {
        (Val::List(_), key) => EvalError::failed(format!("index out of bounds: {}", position(key).unwrap_or_default())),
        (_, Val::Text(key)) => {
            EvalError::failed(format!("no such key: {}", key.as_str().chars().take(64).collect::<String>()))
        }
        _ => EvalError::failed("no such key"),
    }
}

/// The accumulated state of a loop.
struct LoopState<'v> {
    form: LoopForm,
    decided: bool,
    fault: Option<EvalError>,
    count: u64,
    elements: Vec<Val<'v>>,
    keys: Vec<Val<'v>>,
    table: MapTable<'v>,
}

impl<'v> LoopState<'v> {
    fn new(form: LoopForm) -> Self {
        LoopState {
            form,
            decided: false,
            fault: None,
            count: 0,
            elements: Vec::new(),
            keys: Vec::new(),
            table: MapTable::default(),
        }
    }

    fn result(self) -> Result<Val<'v>, EvalError> {
        match (self.form, self.fault) {
            (LoopForm::All | LoopForm::Exists, Some(fault)) if !self.decided => Err(fault),
            (LoopForm::All, _) => Ok(Val::Bool(!self.decided)),
            (LoopForm::Exists, _) => Ok(Val::Bool(self.decided)),
            (LoopForm::ExistsOne, _) => Ok(Val::Bool(self.count == 1)),
            (LoopForm::TransformMap | LoopForm::TransformMapEntry, _) => {
                Ok(Val::Map(CelMap::Made(Rc::new(self.table))))
            }
            (LoopForm::Filter | LoopForm::Map | LoopForm::TransformList | LoopForm::SortBy, _) => {
                Ok(Val::List(CelList::Made(Rc::new(self.elements))))
            }
        }
    }
}
