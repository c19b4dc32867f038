//! Programs run on values, within budgets (CEL-025, CEL-026).
//!
//! The walk recurses no deeper than the program nests, which the parser limits.

use std::rc::Rc;

use super::fault::Fault;
use super::lex::Literal;
use super::library::{self, Function};
use super::meter::{Meter, PER_ELEMENT, PER_ENTRY};
use super::node::{Node, Op, Repeat, Unit};
use super::parse::{Form, Selection};
use super::types::{Field, Structure, Type};
use super::value::{List, Map, Table, Text, Val, view};
use golang::calendar::Moment;

/// Runs a program; the stack holds `self` and `oldSelf`.
pub(super) fn run<'v>(root: &'v Node, this: Val<'v>, old: Val<'v>, meter: &mut Meter) -> Result<Val<'v>, Fault> {
    Machine { stack: vec![this, old], meter }.value(root)
}

/// Whether a function takes a literal.
pub(super) fn converts(function: &'static Function, literal: &Literal) -> Result<(), String> {
    let mut meter = Meter::new();
    meter.begin();
    match (function.run)(&mut meter, &[constant(literal)]) {
        Ok(_) => Ok(()),
        Err(Fault::Failed(text)) => Err(text.into_owned()),
        Err(Fault::Spent) => Err("is too long".to_owned()),
    }
}

fn constant(literal: &Literal) -> Val<'_> {
    match literal {
        Literal::Null => Val::Null,
        Literal::Bool(value) => Val::Bool(*value),
        Literal::Int(value) => Val::Int(*value),
        Literal::Uint(value) => Val::Uint(*value),
        Literal::Double(value) => Val::Double(*value),
        Literal::Text(text) => Val::Text(Text::Written(text)),
        Literal::Bytes(bytes) => Val::Bytes(bytes.as_slice().into()),
    }
}

struct Machine<'v, 'm> {
    stack: Vec<Val<'v>>,
    meter: &'m mut Meter,
}

impl<'v> Machine<'v, '_> {
    fn value(&mut self, node: &'v Node) -> Result<Val<'v>, Fault> {
        self.meter.work(16)?;
        match &node.op {
            Op::Literal(literal) => Ok(constant(literal)),
            Op::TypeName(name) => Ok(Val::Type(name)),
            Op::Slot(slot) => {
                self.meter.charge(1)?;
                self.stack.get(*slot).cloned().ok_or_else(|| Fault::of("a variable has no value"))
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

    fn truth(&mut self, node: &'v Node) -> Result<bool, Fault> {
        match self.value(node)? {
            Val::Bool(value) => Ok(value),
            other => Err(Fault::of(format!("expected a bool, and found {}", other.type_name()))),
        }
    }

    /// Either side may decide alone, even if the other fails.
    fn logic(&mut self, left: &'v Node, right: &'v Node, decides: bool) -> Result<Val<'v>, Fault> {
        let first = match self.truth(left) {
            Ok(value) if value == decides => return Ok(Val::Bool(decides)),
            Err(Fault::Spent) => return Err(Fault::Spent),
            first => first,
        };
        match (first, self.truth(right)) {
            (_, Ok(value)) if value == decides => Ok(Val::Bool(decides)),
            (_, Err(Fault::Spent)) => Err(Fault::Spent),
            (Err(fault), _) | (_, Err(fault)) => Err(fault),
            _ => Ok(Val::Bool(!decides)),
        }
    }

    fn select(&mut self, of: &'v Node, field: &'v str, how: Selection) -> Result<Val<'v>, Fault> {
        let mut of = self.value(of)?;
        if how != Selection::Test {
            self.meter.charge(1)?;
        }
        if let Val::Optional(inner) = of {
            let Some(inner) = inner else {
                return Ok(if how == Selection::Test { Val::Bool(false) } else { Val::Optional(None) });
            };
            of = (*inner).clone();
        }
        if how == Selection::Test {
            return self.has(&of, field);
        }
        let found = match &of {
            Val::Object(members, structure) => {
                let field = declared(structure, field)?;
                members.get(&field.name).map(|member| view(member, &field.decl, self.meter)).transpose()?
            }
            Val::Map(map) => map.get(&Val::Text(Text::Written(field)), self.meter)?,
            other => return Err(Fault::of(format!("{} has no fields", other.type_name()))),
        };
        match (how, found) {
            (Selection::Optional, Some(found)) => Ok(Val::some(found)),
            (Selection::Optional, None) => Ok(Val::Optional(None)),
            (_, Some(found)) => Ok(found),
            (_, None) => Err(Fault::of(format!("no such key: {field}"))),
        }
    }

    /// Whether a field is there; what it is does not matter.
    fn has(&mut self, of: &Val<'v>, field: &'v str) -> Result<Val<'v>, Fault> {
        let has = match of {
            Val::Object(members, structure) => members.contains_key(&declared(structure, field)?.name),
            Val::Map(map) => map.has(&Val::Text(Text::Written(field)), self.meter)?,
            other => return Err(Fault::of(format!("{} has no fields", other.type_name()))),
        };
        Ok(Val::Bool(has))
    }

    fn index(&mut self, of: &'v Node, key: &'v Node, optional: bool) -> Result<Val<'v>, Fault> {
        let mut of = self.value(of)?;
        let key = self.value(key)?;
        self.meter.charge(1)?;
        if let Val::Optional(inner) = of {
            let Some(inner) = inner else { return Ok(Val::Optional(None)) };
            of = (*inner).clone();
        }
        let found = match (&of, &key) {
            (Val::List(list), key) => {
                let at = position(key).ok_or_else(|| Fault::of("the index of a list must be an int"))?;
                usize::try_from(at).ok().and_then(|at| list.get(at, self.meter)).transpose()?
            }
            (Val::Map(map), key) => map.get(key, self.meter)?,
            (Val::Object(members, structure), Val::Text(name)) => {
                self.meter.work(name.as_str().len())?;
                let field = structure.fields.get(name.as_str());
                let member = field.and_then(|field| Some((members.get(&field.name)?, &field.decl)));
                member.map(|(member, decl)| view(member, decl, self.meter)).transpose()?
            }
            (other, _) => return Err(Fault::of(format!("{} cannot be indexed", other.type_name()))),
        };
        match (optional, found) {
            (true, Some(found)) => Ok(Val::some(found)),
            (true, None) => Ok(Val::Optional(None)),
            (false, Some(found)) => Ok(found),
            (false, None) => Err(missing(&of, &key)),
        }
    }

    fn args(&mut self, args: &'v [Node]) -> Result<(Args<'v>, usize), Fault> {
        let mut values = Args { values: [const { Val::Null }; 4], count: 0 };
        for arg in args {
            let value = self.value(arg)?;
            match values.values.get_mut(values.count) {
                Some(place) => *place = value,
                None => return Err(Fault::of("too many arguments")),
            }
            values.count += 1;
        }
        let count = values.count;
        Ok((values, count))
    }

    fn call(&mut self, function: &'static Function, args: &'v [Node]) -> Result<Val<'v>, Fault> {
        let (args, _) = self.args(args)?;
        self.meter.work(20)?;
        let result = (function.run)(self.meter, args.as_slice())?;
        self.price(function, args.as_slice(), &result)?;
        Ok(result)
    }

    /// Charges what a call costs; to count the characters of texts is work as well.
    fn price(&mut self, function: &Function, args: &[Val<'v>], result: &Val<'v>) -> Result<(), Fault> {
        let bytes = args.iter().fold(result.text_bytes(), |sum, arg| sum.saturating_add(arg.text_bytes()));
        self.meter.work(bytes / 4)?;
        self.meter.charge((function.price)(&extents(args, result)))
    }

    fn list(&mut self, items: &'v [(Node, bool)]) -> Result<Val<'v>, Fault> {
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

    fn map(&mut self, entries: &'v [(Node, Node, bool)]) -> Result<Val<'v>, Fault> {
        self.meter.charge(30)?;
        self.meter.work((entries.len() + 1) * PER_ENTRY)?;
        let mut table = Table::with_capacity(entries.len());
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
        Ok(Val::Map(Map::Made(Rc::new(table))))
    }

    /// A duration or a timestamp from its fields; of two with one name the last counts.
    fn time(&mut self, node: &Node, units: &'v [(Unit, Node, bool)]) -> Result<Val<'v>, Fault> {
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
                Some(other) => return Err(Fault::of(format!("expected an int, and found {}", other.type_name()))),
            };
            match unit {
                Unit::Seconds => seconds = number,
                Unit::Nanos if i32::try_from(number).is_ok() => nanos = number,
                Unit::Nanos => return Err(Fault::of("nanos do not fit 32 bits")),
            }
        }
        match node.ty {
            Type::Timestamp => Moment::new(seconds, nanos).map(Val::Timestamp),
            _ => seconds.checked_mul(1_000_000_000).and_then(|whole| whole.checked_add(nanos)).map(Val::Duration),
        }
        .ok_or_else(|| Fault::of("a time is out of range"))
    }

    fn bind(&mut self, of: &'v Node, body: &'v Node, flat: bool) -> Result<Val<'v>, Fault> {
        let inner = match self.value(of)? {
            Val::Optional(Some(inner)) => (*inner).clone(),
            Val::Optional(None) => return Ok(Val::Optional(None)),
            other => return Err(Fault::of(format!("expected an optional, and found {}", other.type_name()))),
        };
        self.stack.push(inner);
        let result = self.value(body);
        self.stack.pop();
        result.map(|value| if flat { value } else { Val::some(value) })
    }

    fn repeat(&mut self, repeat: &'v Repeat) -> Result<Val<'v>, Fault> {
        let range = self.value(&repeat.range)?;
        let mut gathered = Gathered::new(repeat.form);
        if repeat.form != Form::ExistsOne {
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
            other => return Err(Fault::of(format!("cannot iterate over {}", other.type_name()))),
        }
        if repeat.form == Form::SortBy {
            let Gathered { elements, keys, .. } = gathered;
            return library::list::sorted_by(elements, keys, self.meter);
        }
        gathered.result()
    }

    /// One turn of a loop; says whether there may be another.
    fn step(
        &mut self,
        repeat: &'v Repeat,
        key: Val<'v>,
        value: Result<Val<'v>, Fault>,
        by_key: bool,
        gathered: &mut Gathered<'v>,
    ) -> Result<bool, Fault> {
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

    fn turn(&mut self, repeat: &'v Repeat, element: Val<'v>, gathered: &mut Gathered<'v>) -> Result<bool, Fault> {
        self.meter.work(40)?;
        if let Some(filter) = &repeat.filter
            && !self.truth(filter)?
        {
            return Ok(true);
        }
        let form = repeat.form;
        match form {
            Form::All | Form::Exists => {
                self.meter.charge(if form == Form::All { 3 } else { 4 })?;
                let decides = form == Form::Exists;
                match self.truth(&repeat.body) {
                    Ok(value) if value == decides => {
                        gathered.decided = true;
                        return Ok(false);
                    }
                    Ok(_) => {}
                    Err(Fault::Spent) => return Err(Fault::Spent),
                    Err(fault) => {
                        gathered.fault.get_or_insert(fault);
                    }
                }
            }
            Form::ExistsOne => {
                if self.truth(&repeat.body)? {
                    self.meter.charge(2)?;
                    gathered.count += 1;
                }
            }
            Form::Filter => {
                if self.truth(&repeat.body)? {
                    self.meter.charge(13)?;
                    self.meter.work(PER_ELEMENT)?;
                    gathered.elements.push(element);
                }
            }
            Form::Map | Form::TransformList => {
                self.meter.charge(12)?;
                self.meter.work(PER_ELEMENT)?;
                let made = self.value(&repeat.body)?;
                gathered.elements.push(made);
            }
            Form::SortBy => {
                self.meter.charge(12)?;
                self.meter.work(100)?;
                let key = self.value(&repeat.body)?;
                gathered.keys.push(key);
                gathered.elements.push(element);
            }
            Form::TransformMap => {
                self.meter.charge(3)?;
                self.meter.work(PER_ENTRY)?;
                let made = self.value(&repeat.body)?;
                gathered.table.insert(element, made, self.meter)?;
            }
            Form::TransformMapEntry => {
                self.meter.charge(2)?;
                let Val::Map(made) = self.value(&repeat.body)? else {
                    return Err(Fault::of("transformMapEntry() must result in a map"));
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

/// The arguments of a call; no function has more than four.
struct Args<'v> {
    values: [Val<'v>; 4],
    count: usize,
}

impl<'v> Args<'v> {
    fn as_slice(&self) -> &[Val<'v>] {
        self.values.get(..self.count).unwrap_or_default()
    }
}

/// The sizes that a price asks for: of arguments by position, and of the result.
fn extents<'a>(args: &'a [Val<'_>], result: &'a Val<'_>) -> impl Fn(usize) -> u64 + 'a {
    move |at| match at {
        library::RESULT => result.extent(),
        library::ELEMENT => 0,
        at => args.get(at).map_or(0, Val::extent),
    }
}

fn declared<'v>(structure: &'v Structure, field: &str) -> Result<&'v Field, Fault> {
    structure.fields.get(field).ok_or_else(|| Fault::of(format!("no such field: {field}")))
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

fn missing(of: &Val<'_>, key: &Val<'_>) -> Fault {
    match (of, key) {
        (Val::List(_), key) => Fault::of(format!("index out of bounds: {}", position(key).unwrap_or_default())),
        (_, Val::Text(key)) => Fault::of(format!("no such key: {}", key.as_str().chars().take(64).collect::<String>())),
        _ => Fault::of("no such key"),
    }
}

/// What a loop has so far.
struct Gathered<'v> {
    form: Form,
    decided: bool,
    fault: Option<Fault>,
    count: u64,
    elements: Vec<Val<'v>>,
    keys: Vec<Val<'v>>,
    table: Table<'v>,
}

impl<'v> Gathered<'v> {
    fn new(form: Form) -> Self {
        Gathered {
            form,
            decided: false,
            fault: None,
            count: 0,
            elements: Vec::new(),
            keys: Vec::new(),
            table: Table::default(),
        }
    }

    fn result(self) -> Result<Val<'v>, Fault> {
        match (self.form, self.fault) {
            (Form::All | Form::Exists, Some(fault)) if !self.decided => Err(fault),
            (Form::All, _) => Ok(Val::Bool(!self.decided)),
            (Form::Exists, _) => Ok(Val::Bool(self.decided)),
            (Form::ExistsOne, _) => Ok(Val::Bool(self.count == 1)),
            (Form::TransformMap | Form::TransformMapEntry, _) => Ok(Val::Map(Map::Made(Rc::new(self.table)))),
            (Form::Filter | Form::Map | Form::TransformList | Form::SortBy, _) => {
                Ok(Val::List(List::Made(Rc::new(self.elements))))
            }
        }
    }
}
