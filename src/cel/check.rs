//! Syntax tree to program: names are resolved, and every piece gets its type (CEL-006 to CEL-009).

use super::fault::Mistake;
use super::library::printf::Piece;
use super::library::{self, Function, Overload};
use super::parse::{Expr, Form, Kind, Literal, Loop, Selection, parse};
use super::types::{Decl, Type};
use crate::field::closest;
use crate::goregex::Regex;

/// A piece of a program.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub op: Op,
    pub ty: Type,
}

#[derive(Debug, Clone)]
pub(super) enum Op {
    Literal(Literal),
    TypeName(&'static str),
    /// A variable by its place on the stack: 0 is `self`, 1 is `oldSelf`.
    Slot(usize),
    Select {
        of: Box<Node>,
        field: String,
        how: Selection,
    },
    And(Box<(Node, Node)>),
    Or(Box<(Node, Node)>),
    Choose(Box<(Node, Node, Node)>),
    Index {
        of: Box<(Node, Node)>,
        optional: bool,
    },
    Call {
        function: &'static Function,
        args: Vec<Node>,
    },
    /// A search with an expression that is compiled already.
    Search {
        function: &'static Function,
        args: Vec<Node>,
        regex: Regex,
    },
    List(Vec<(Node, bool)>),
    Map(Vec<(Node, Node, bool)>),
    /// A duration or a timestamp, as its type says.
    Time(Vec<(Unit, Node, bool)>),
    Loop(Box<Repeat>),
    Bind {
        of: Box<Node>,
        body: Box<Node>,
        flat: bool,
    },
}

/// The fields of durations and timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Seconds,
    Nanos,
}

/// A loop; its variables are on top of the stack.
#[derive(Debug, Clone)]
pub(super) struct Repeat {
    pub form: Form,
    pub range: Node,
    /// Whether there are two variables: key or index, and value.
    pub keyed: bool,
    pub filter: Option<Node>,
    pub body: Node,
}

/// Compiles the pattern of a search, or says why it cannot be compiled.
pub(crate) type Patterns<'p> = &'p mut dyn FnMut(&str) -> Result<Regex, String>;

/// What an expression has to result in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    Bool,
    Text,
}

/// A checked expression.
#[derive(Debug, Clone)]
pub(super) struct Checked {
    pub root: Node,
    pub uses_old: bool,
}

/// Reads and checks an expression over `self` and `oldSelf`.
///
/// Patterns of searches are compiled by `patterns`.
pub(super) fn compile(text: &str, decl: &Decl, wanted: Wanted, patterns: Patterns<'_>) -> Result<Checked, Mistake> {
    compile_for(text, decl, wanted, false, patterns)
}

/// The mistake of an expression, with the name that may have been meant.
pub(super) fn mistake_with_hint(text: &str, decl: &Decl, wanted: Wanted, patterns: Patterns<'_>) -> Option<Mistake> {
    compile_for(text, decl, wanted, true, patterns).err()
}

fn compile_for(
    text: &str,
    decl: &Decl,
    wanted: Wanted,
    has_hints: bool,
    patterns: Patterns<'_>,
) -> Result<Checked, Mistake> {
    let expr = parse(text)?;
    let mut checker = Checker {
        names: vec![("self".to_owned(), decl.ty.clone()), ("oldSelf".to_owned(), decl.ty.clone())],
        bound: Vec::new(),
        trail: Vec::new(),
        uses_old: false,
        has_hints,
        allows_mixed: false,
        patterns,
    };
    let mut root = checker.check(&expr)?;
    root.ty = checker.resolved(&root.ty);
    let (fits, name) = match wanted {
        Wanted::Bool => (root.ty == Type::Bool, "bool"),
        Wanted::Text => (root.ty == Type::Text, "string"),
    };
    if !fits {
        return Err(Mistake::new(expr.at, format!("must result in a {name}, and results in {}", root.ty)));
    }
    Ok(Checked { root, uses_old: checker.uses_old })
}

struct Checker<'p> {
    names: Vec<(String, Type)>,
    /// What open types turned out to be.
    bound: Vec<Option<Type>>,
    /// What `bound` said before each change, so that a change can be taken back.
    trail: Vec<(usize, Option<Type>)>,
    uses_old: bool,
    /// Whether mistakes come with names that may have been meant, which takes time.
    has_hints: bool,
    /// Whether lists and maps may be of mixed types, as they may inside of what `format` writes.
    allows_mixed: bool,
    patterns: Patterns<'p>,
}

fn mistake<T>(at: usize, text: impl Into<String>) -> Result<T, Mistake> {
    Err(Mistake::new(at, text))
}

impl Checker<'_> {
    fn open(&mut self) -> Type {
        self.bound.push(None);
        Type::Open(u32::try_from(self.bound.len() - 1).unwrap_or(u32::MAX))
    }

    fn binding(&self, open: u32) -> Option<&Type> {
        self.bound.get(usize::try_from(open).ok()?)?.as_ref()
    }

    /// The type with everything that is known about open parts of it.
    fn resolved(&self, ty: &Type) -> Type {
        match ty {
            Type::Open(open) => self.binding(*open).map_or_else(|| ty.clone(), |known| self.resolved(known)),
            Type::List(of) => Type::list(self.resolved(of)),
            Type::Optional(of) => Type::optional(self.resolved(of)),
            Type::Map(parts) => Type::map(self.resolved(&parts.0), self.resolved(&parts.1)),
            other => other.clone(),
        }
    }

    fn mentions(&self, ty: &Type, open: u32) -> bool {
        match ty {
            Type::Open(other) => *other == open || self.binding(*other).is_some_and(|known| self.mentions(known, open)),
            Type::List(of) | Type::Optional(of) => self.mentions(of, open),
            Type::Map(parts) => self.mentions(&parts.0, open) || self.mentions(&parts.1, open),
            _ => false,
        }
    }

    fn bind(&mut self, open: u32, ty: &Type) -> bool {
        if self.mentions(ty, open) {
            return matches!(self.resolved(ty), Type::Open(other) if other == open);
        }
        let at = usize::try_from(open).unwrap_or(usize::MAX);
        if let Some(place) = self.bound.get_mut(at) {
            self.trail.push((at, place.replace(ty.clone())));
        }
        true
    }

    /// Takes back what was learned since the trail had `length` steps.
    fn forget(&mut self, length: usize) {
        while self.trail.len() > length {
            if let Some((at, before)) = self.trail.pop()
                && let Some(place) = self.bound.get_mut(at)
            {
                *place = before;
            }
        }
    }

    /// Whether a value of one type can stand where another is wanted; remembers what that says about open types.
    fn fits(&mut self, given: &Type, wanted: &Type) -> bool {
        let before = self.trail.len();
        let fits = self.unify(given, wanted);
        if !fits {
            self.forget(before);
        }
        fits
    }

    fn unify(&mut self, given: &Type, wanted: &Type) -> bool {
        if let Type::Open(open) = wanted {
            let Some(known) = self.binding(*open).cloned() else { return self.bind(*open, given) };
            let fits = self.unify(given, &known);
            // Of a dyn and another type the dyn is the more general.
            if fits && matches!(self.resolved(given), Type::Dyn) {
                return self.bind(*open, &Type::Dyn);
            }
            return fits;
        }
        if let Type::Open(open) = given {
            return match self.binding(*open).cloned() {
                Some(known) => self.unify(&known, wanted),
                None => self.bind(*open, wanted),
            };
        }
        match (given, wanted) {
            (Type::Dyn, _) | (_, Type::Dyn) => true,
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => self.unify(a, b),
            (Type::Map(a), Type::Map(b)) => self.unify(&a.0, &b.0) && self.unify(&a.1, &b.1),
            (Type::Null, other) | (other, Type::Null) => matches!(
                other,
                Type::Null
                    | Type::Object(_)
                    | Type::Duration
                    | Type::Timestamp
                    | Type::Optional(_)
                    | Type::Ip
                    | Type::Cidr
                    | Type::Url
                    | Type::Quantity
                    | Type::Semver
                    | Type::Format
            ),
            (a, b) => a == b,
        }
    }

    fn check(&mut self, expr: &Expr) -> Result<Node, Mistake> {
        match &expr.kind {
            Kind::Literal(literal) => Ok(Node { ty: type_of(literal), op: Op::Literal(literal.clone()) }),
            Kind::Name(name) => self.name(expr.at, name),
            Kind::Select { of, field, how } => self.select(expr, of, field, *how),
            Kind::Call { name, target, args } => self.call(expr.at, name, target.as_deref(), args),
            Kind::List(items) => self.list(items),
            Kind::Map(entries) => self.map(entries),
            Kind::Message { name, fields } => self.message(expr.at, name, fields),
            Kind::Loop(parts) => self.repeat(expr.at, parts),
            Kind::Bind { of, name, body, flat } => self.bind_optional(of, name, body, *flat),
        }
    }

    fn name(&mut self, at: usize, name: &str) -> Result<Node, Mistake> {
        if let Some((slot, (_, ty))) = self.names.iter().enumerate().rev().find(|(_, (known, _))| known == name) {
            self.uses_old |= slot == 1;
            return Ok(Node { op: Op::Slot(slot), ty: ty.clone() });
        }
        match type_named(name) {
            Some(name) => Ok(Node { op: Op::TypeName(name), ty: Type::Kind }),
            None => Err(self.undeclared(at, name)),
        }
    }

    fn undeclared(&self, at: usize, name: &str) -> Mistake {
        let known: Vec<&str> = self.names.iter().map(|(known, _)| &**known).collect();
        let hint = if self.has_hints { format!("; known are {}", known.join(", ")) } else { String::new() };
        Mistake::new(at, format!("{name:?} is not declared{hint}"))
    }

    /// The mistake of a name that there is not, with the one that may have been meant.
    fn unknown<'n, N>(&self, at: usize, text: String, name: &str, names: impl FnOnce() -> N) -> Mistake
    where
        N: Iterator<Item = &'n str>,
    {
        let meant = self.has_hints.then(|| closest(name, names())).flatten();
        let hint = meant.map(|meant| format!("; the closest one is {meant}")).unwrap_or_default();
        Mistake::new(at, text + &hint)
    }

    fn is_variable(&self, expr: &Expr) -> bool {
        match &expr.kind {
            Kind::Name(name) => self.names.iter().any(|(known, _)| known == name),
            Kind::Select { of, .. } => self.is_variable(of),
            _ => true,
        }
    }

    fn select(&mut self, expr: &Expr, of: &Expr, field: &str, how: Selection) -> Result<Node, Mistake> {
        if how == Selection::Plain
            && !self.is_variable(expr)
            && let Some(name) = expr.qualified()
            && let Some(name) = type_named(&name)
        {
            return Ok(Node { op: Op::TypeName(name), ty: Type::Kind });
        }
        let of = self.check(of)?;
        let (inner, was_optional) = match self.resolved(&of.ty) {
            Type::Optional(inner) => ((*inner).clone(), true),
            other => (other, false),
        };
        let member = match self.resolved(&inner) {
            Type::Object(structure) => {
                let names = || structure.fields.keys().map(|name| &**name);
                let known = structure.fields.get(field);
                let unknown = || self.unknown(expr.at, format!("undefined field {field:?}"), field, names);
                known.ok_or_else(unknown)?.decl.ty.clone()
            }
            Type::Map(parts) => {
                if !self.fits(&Type::Text, &parts.0) {
                    return mistake(expr.at, "only a map with text as keys has fields");
                }
                parts.1.clone()
            }
            Type::Dyn | Type::Open(_) => Type::Dyn,
            other => return mistake(expr.at, format!("{other} has no fields")),
        };
        let ty = match how {
            Selection::Test => Type::Bool,
            Selection::Optional => Type::optional(member),
            Selection::Plain if was_optional => Type::optional(member),
            Selection::Plain => member,
        };
        let how = if was_optional && how == Selection::Plain { Selection::Optional } else { how };
        Ok(Node { op: Op::Select { of: Box::new(of), field: field.to_owned(), how }, ty })
    }

    fn call(&mut self, at: usize, name: &str, target: Option<&Expr>, args: &[Expr]) -> Result<Node, Mistake> {
        if let Some(target) = target {
            // A function whose name has a dot in it looks like a method.
            let full = target.qualified().map(|prefix| format!("{prefix}.{name}"));
            if let Some(overloads) = full.as_deref().and_then(|full| library::overloads(full, false)) {
                let args = args.iter().map(|arg| self.check(arg)).collect::<Result<Vec<_>, _>>()?;
                return self.resolve(at, name, overloads, args);
            }
            let mut all = vec![self.check(target)?];
            let Some(overloads) = library::overloads(name, true) else {
                return Err(self.unknown(at, format!("there is no method {name}()"), name, || library::names(true)));
            };
            let allowed = self.allows_mixed;
            self.allows_mixed |= name == "format";
            for arg in args {
                all.push(self.check(arg)?);
            }
            self.allows_mixed = allowed;
            return self.resolve(at, name, overloads, all);
        }
        let args = args.iter().map(|arg| self.check(arg)).collect::<Result<Vec<_>, _>>()?;
        match (name, args.as_slice()) {
            ("&&" | "||", [_, _]) => self.logic(at, name, args),
            ("?:", [_, _, _]) => self.choose(at, args),
            ("[]" | "[?]", [_, _]) => self.index(at, args, name == "[?]"),
            _ => match library::overloads(name, false) {
                Some(overloads) => self.resolve(at, name, overloads, args),
                None => Err(self.unknown(at, format!("there is no function {name}()"), name, || library::names(false))),
            },
        }
    }

    fn logic(&mut self, at: usize, name: &str, args: Vec<Node>) -> Result<Node, Mistake> {
        for arg in &args {
            if !self.fits(&arg.ty, &Type::Bool) {
                return mistake(at, format!("{name} needs a bool on both sides, not {}", self.resolved(&arg.ty)));
            }
        }
        let [left, right] = pair(args);
        let both = Box::new((left, right));
        Ok(Node { op: if name == "&&" { Op::And(both) } else { Op::Or(both) }, ty: Type::Bool })
    }

    fn choose(&mut self, at: usize, args: Vec<Node>) -> Result<Node, Mistake> {
        let mut args = args.into_iter();
        let (Some(condition), Some(yes), Some(no)) = (args.next(), args.next(), args.next()) else {
            return mistake(at, "a choice has three parts");
        };
        if !self.fits(&condition.ty, &Type::Bool) {
            return mistake(at, format!("a condition is a bool, not {}", self.resolved(&condition.ty)));
        }
        let ty = self.open();
        if !self.fits(&yes.ty, &ty) || !self.fits(&no.ty, &ty) {
            let (yes, no) = (self.resolved(&yes.ty), self.resolved(&no.ty));
            return mistake(at, format!("both sides of a choice are of one type, not {yes} and {no}"));
        }
        Ok(Node { ty: self.resolved(&ty), op: Op::Choose(Box::new((condition, yes, no))) })
    }

    fn index(&mut self, at: usize, args: Vec<Node>, optional: bool) -> Result<Node, Mistake> {
        let [of, key] = pair(args);
        let (inner, was_optional) = match self.resolved(&of.ty) {
            Type::Optional(inner) => ((*inner).clone(), true),
            other => (other, false),
        };
        let wanted = match &inner {
            Type::List(element) => Some((Type::Int, (**element).clone())),
            Type::Map(parts) => Some((parts.0.clone(), parts.1.clone())),
            Type::Dyn | Type::Open(_) => Some((Type::Dyn, Type::Dyn)),
            _ => None,
        };
        let is_null = matches!(self.resolved(&key.ty), Type::Null);
        let Some((_, element)) = wanted.filter(|(wanted, _)| !is_null && self.fits(&key.ty, wanted)) else {
            let key = self.resolved(&key.ty);
            return mistake(at, format!("{inner} cannot be indexed by {key}"));
        };
        let optional = optional || was_optional;
        let ty = if optional { Type::optional(element) } else { element };
        Ok(Node { op: Op::Index { of: Box::new((of, key)), optional }, ty })
    }

    /// The overloads that fit the arguments decide the type.
    fn resolve(
        &mut self,
        at: usize,
        name: &str,
        overloads: &'static [Overload],
        args: Vec<Node>,
    ) -> Result<Node, Mistake> {
        let mut result: Option<(Type, &'static Function)> = None;
        for overload in overloads.iter().filter(|overload| overload.params.len() == args.len()) {
            let fresh = [self.open(), self.open()];
            let before = self.trail.len();
            let fits = args.iter().zip(&overload.params).all(|(arg, param)| {
                let param = instantiated(param, &fresh);
                self.fits(&arg.ty, &param)
            });
            if !fits {
                self.forget(before);
                continue;
            }
            let ty = self.resolved(&instantiated(&overload.result, &fresh));
            result = Some(match result {
                Some((known, function)) if known != ty => (Type::Dyn, function),
                Some(known) => known,
                None => (ty, overload.function),
            });
        }
        let Some((ty, function)) = result else {
            let given: Vec<String> = args.iter().map(|arg| self.resolved(&arg.ty).to_string()).collect();
            return mistake(at, format!("no overload of {name} fits ({})", given.join(", ")));
        };
        Self::literals(at, name, function, &args)?;
        if function.name == "format" {
            self.format(at, &args)?;
        }
        if library::SEARCHES.contains(&function.name)
            && let Some(Node { op: Op::Literal(Literal::Text(pattern)), .. }) = args.get(1)
        {
            let regex = (self.patterns)(pattern).or_else(|error| mistake(at, format!("{pattern:?}: {error}")))?;
            return Ok(Node { op: Op::Search { function, args, regex }, ty });
        }
        Ok(Node { op: Op::Call { function, args }, ty })
    }

    /// What a literal template writes is there, all of it, and of types that it can write (CEL-009).
    fn format(&self, at: usize, args: &[Node]) -> Result<(), Mistake> {
        let [Node { op: Op::Literal(Literal::Text(template)), .. }, Node { op: Op::List(items), .. }] = args else {
            return Ok(());
        };
        let mut written = 0;
        for piece in library::printf::pieces(template) {
            let Piece::Clause { letter, .. } = piece.or_else(|error| mistake(at, error))? else { continue };
            let Some((item, _)) = items.get(written) else {
                return mistake(at, format!("%{letter} has no argument, because there are {}", items.len()));
            };
            if let Some(ty) = self.unwritable(letter, item) {
                return mistake(at, format!("%{letter} cannot write {ty}"));
            }
            written += 1;
        }
        match items.len() {
            given if given > written => mistake(at, format!("format() writes {written} arguments, and has {given}")),
            _ => Ok(()),
        }
    }

    /// The type that a clause cannot write, of an argument or of a part of it that is written out.
    fn unwritable(&self, letter: char, item: &Node) -> Option<Type> {
        let ty = self.resolved(&item.ty);
        let fits = match letter {
            _ if matches!(ty, Type::Dyn | Type::Open(_)) => true,
            'd' | 'o' => matches!(ty, Type::Int | Type::Uint),
            // Texts are for "NaN" and "Infinity".
            'f' | 'e' => matches!(ty, Type::Double | Type::Text),
            'b' => matches!(ty, Type::Int | Type::Uint | Type::Bool),
            'x' | 'X' => matches!(ty, Type::Int | Type::Uint | Type::Text | Type::Bytes),
            _ => ty.has_text(),
        };
        if !fits {
            return Some(ty);
        }
        let mut parts: Box<dyn Iterator<Item = &Node>> = match &item.op {
            Op::List(items) if letter == 's' => Box::new(items.iter().map(|(item, _)| item)),
            Op::Map(entries) if letter == 's' => Box::new(entries.iter().flat_map(|(key, value, _)| [key, value])),
            _ => return None,
        };
        parts.find_map(|part| self.unwritable(letter, part))
    }

    /// Literals that are converted are converted when the expression is compiled.
    fn literals(at: usize, name: &str, function: &'static Function, args: &[Node]) -> Result<(), Mistake> {
        if let [Node { op: Op::Literal(literal), .. }] = args
            && ["int", "uint", "double", "bool", "string", "bytes", "duration", "timestamp"].contains(&function.name)
            && let Err(text) = super::eval::converts(function, literal)
        {
            return mistake(at, format!("invalid argument of {name}(): {text}"));
        }
        Ok(())
    }

    fn list(&mut self, items: &[(Expr, bool)]) -> Result<Node, Mistake> {
        let mut element: Option<Type> = None;
        let mut nodes = Vec::with_capacity(items.len());
        for (item, optional) in items {
            let node = self.check(item)?;
            let ty = self.element_type(item.at, &node, *optional)?;
            element = Some(self.join(item.at, element, ty)?);
            nodes.push((node, *optional));
        }
        let element = element.unwrap_or_else(|| self.open());
        Ok(Node { op: Op::List(nodes), ty: Type::list(element) })
    }

    fn element_type(&mut self, at: usize, node: &Node, optional: bool) -> Result<Type, Mistake> {
        if !optional {
            return Ok(self.resolved(&node.ty));
        }
        let inner = self.open();
        if !self.fits(&node.ty, &Type::optional(inner.clone())) {
            return mistake(at, format!("\"?\" stands before an optional, not {}", self.resolved(&node.ty)));
        }
        Ok(self.resolved(&inner))
    }

    /// Elements of a literal are all of one type, unless they may be mixed.
    fn join(&mut self, at: usize, known: Option<Type>, next: Type) -> Result<Type, Mistake> {
        let Some(known) = known else { return Ok(next) };
        let (is_dyn, next_is_dyn) = (matches!(known, Type::Dyn), matches!(next, Type::Dyn));
        if is_dyn != next_is_dyn || !self.fits(&next, &known) {
            if self.allows_mixed {
                return Ok(Type::Dyn);
            }
            return mistake(at, format!("expected {known}, as before, and found {next}"));
        }
        Ok(self.resolved(&known))
    }

    fn map(&mut self, entries: &[(Expr, Expr, bool)]) -> Result<Node, Mistake> {
        let (mut keys, mut values) = (None, None);
        let mut nodes = Vec::with_capacity(entries.len());
        for (key, value, optional) in entries {
            let (key_node, value_node) = (self.check(key)?, self.check(value)?);
            let key_type = self.resolved(&key_node.ty);
            if matches!(key_type, Type::Bytes) {
                return mistake(key.at, format!("{key_type} cannot be a key"));
            }
            keys = Some(self.join(key.at, keys, key_type)?);
            let ty = self.element_type(value.at, &value_node, *optional)?;
            values = Some(self.join(value.at, values, ty)?);
            nodes.push((key_node, value_node, *optional));
        }
        let keys = keys.unwrap_or_else(|| self.open());
        let values = values.unwrap_or_else(|| self.open());
        Ok(Node { op: Op::Map(nodes), ty: Type::map(keys, values) })
    }

    fn message(&mut self, at: usize, name: &str, fields: &[(String, Expr, bool)]) -> Result<Node, Mistake> {
        let ty = match name {
            "google.protobuf.Duration" => Type::Duration,
            "google.protobuf.Timestamp" => Type::Timestamp,
            _ => {
                let known = "google.protobuf.Duration and google.protobuf.Timestamp";
                return mistake(at, format!("messages of type {name} cannot be made; those of {known} can"));
            }
        };
        let mut units = Vec::with_capacity(fields.len());
        for (field, value, optional) in fields {
            let unit = match &**field {
                "seconds" => Unit::Seconds,
                "nanos" => Unit::Nanos,
                _ => return mistake(value.at, format!("undefined field {field:?}; {name} has seconds and nanos")),
            };
            let node = self.check(value)?;
            let given = self.element_type(value.at, &node, *optional)?;
            if !self.fits(&given, &Type::Int) {
                return mistake(value.at, format!("{field} is an int, not {}", self.resolved(&given)));
            }
            units.push((unit, node, *optional));
        }
        Ok(Node { op: Op::Time(units), ty })
    }

    fn within<R>(&mut self, names: Vec<(String, Type)>, act: impl FnOnce(&mut Self) -> R) -> R {
        let before = self.names.len();
        self.names.extend(names);
        let result = act(self);
        self.names.truncate(before);
        result
    }

    fn repeat(&mut self, at: usize, parts: &Loop) -> Result<Node, Mistake> {
        let range = self.check(&parts.range)?;
        let (key, value) = match self.resolved(&range.ty) {
            Type::List(element) => (Type::Int, (*element).clone()),
            Type::Map(parts) => (parts.0.clone(), parts.1.clone()),
            Type::Dyn | Type::Open(_) => (Type::Dyn, Type::Dyn),
            other => return mistake(at, format!("{other} has no elements to go through")),
        };
        let keyed = parts.names.len() == 2;
        let types = match (keyed, self.resolved(&range.ty)) {
            (true, _) => vec![key.clone(), value.clone()],
            (false, Type::Map(_)) => vec![key.clone()],
            (false, _) => vec![value.clone()],
        };
        if parts.form == Form::SortBy && !matches!(self.resolved(&range.ty), Type::List(_) | Type::Dyn) {
            return mistake(at, "sortBy() is for lists");
        }
        let element = types.first().cloned().unwrap_or(Type::Dyn);
        let names = parts.names.iter().cloned().zip(types).collect();
        let (filter, body) = self.within(names, |checker| {
            let filter = parts.filter.as_ref().map(|filter| checker.check(filter)).transpose()?;
            Ok((filter, checker.check(&parts.body)?))
        })?;
        let body_type = self.resolved(&body.ty);
        let judges = matches!(parts.form, Form::All | Form::Exists | Form::ExistsOne | Form::Filter);
        let conditions = filter.iter().map(|filter| &filter.ty).chain(judges.then_some(&body.ty));
        for ty in conditions {
            if !self.fits(ty, &Type::Bool) {
                return mistake(at, format!("the condition of a loop is a bool, not {}", self.resolved(ty)));
            }
        }
        let ty = match parts.form {
            Form::All | Form::Exists | Form::ExistsOne => Type::Bool,
            Form::Map | Form::TransformList => Type::list(body_type),
            Form::Filter => Type::list(element),
            Form::TransformMap => Type::map(key, body_type),
            Form::TransformMapEntry => match body_type {
                Type::Map(_) | Type::Dyn => body_type,
                other => return mistake(at, format!("transformMapEntry() makes maps, not {other}")),
            },
            Form::SortBy => {
                if !library::is_ordered(&body_type) {
                    return mistake(at, format!("cannot sort by {body_type}"));
                }
                self.resolved(&range.ty)
            }
        };
        Ok(Node { op: Op::Loop(Box::new(Repeat { form: parts.form, range, keyed, filter, body })), ty })
    }

    fn bind_optional(&mut self, of: &Expr, name: &str, body: &Expr, flat: bool) -> Result<Node, Mistake> {
        let target = self.check(of)?;
        let inner = self.open();
        if !self.fits(&target.ty, &Type::optional(inner.clone())) {
            return mistake(of.at, format!("expected an optional, and found {}", self.resolved(&target.ty)));
        }
        let inner = self.resolved(&inner);
        let result = self.within(vec![(name.to_owned(), inner)], |checker| checker.check(body))?;
        let ty = if flat {
            let inner = self.open();
            if !self.fits(&result.ty, &Type::optional(inner.clone())) {
                return mistake(body.at, "optFlatMap() needs an optional as result");
            }
            Type::optional(self.resolved(&inner))
        } else {
            Type::optional(self.resolved(&result.ty))
        };
        Ok(Node { op: Op::Bind { of: Box::new(target), body: Box::new(result), flat }, ty })
    }
}

fn pair(args: Vec<Node>) -> [Node; 2] {
    let nothing = || Node { op: Op::Literal(Literal::Null), ty: Type::Null };
    let mut args = args.into_iter();
    [args.next().unwrap_or_else(nothing), args.next().unwrap_or_else(nothing)]
}

fn instantiated(ty: &Type, fresh: &[Type; 2]) -> Type {
    match ty {
        Type::Open(0) => fresh[0].clone(),
        Type::Open(_) => fresh[1].clone(),
        Type::List(of) => Type::list(instantiated(of, fresh)),
        Type::Optional(of) => Type::optional(instantiated(of, fresh)),
        Type::Map(parts) => Type::map(instantiated(&parts.0, fresh), instantiated(&parts.1, fresh)),
        other => other.clone(),
    }
}

fn type_of(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::Text(_) => Type::Text,
        Literal::Bytes(_) => Type::Bytes,
    }
}

/// The name of a type as values of type `type` have it.
fn type_named(name: &str) -> Option<&'static str> {
    let plain = Type::PLAIN.iter().map(|(known, _)| *known);
    plain.chain(["list", "map", "optional_type"]).find(|known| *known == name && *known != "dyn")
}
