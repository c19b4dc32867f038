//! Parser from text to syntax tree.
//!
//! The grammar is that of the CEL specification with optional selection (`a.?b`, `a[?b]`, `[?a]`, `{?k: v}`). Macros
//! are recognised here. Nesting is limited, so that walks over the tree may recurse.

use super::fault::CompileError;
use super::lex::{CelToken, Constant, Tokens};

/// Maximum length of an expression, in characters.
const MAX_LENGTH: usize = 100_000;

/// Maximum nesting of an expression. Long chains of `&&` and `
///
/// ` are balanced.
const MAX_DEPTH: u16 = 120;

/// A node of the syntax tree.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Expr {
    pub kind: ExprKind,
    /// Start offset in bytes.
    pub at: usize,
    depth: u16,
}

impl Expr {
    /// The text of a qualified name `a.b.c`.
    pub(super) fn qualified(&self) -> Option<String> {
        match &self.kind {
            ExprKind::Name(name) => Some(name.clone()),
            ExprKind::Select { of, field, how: SelectMode::Plain } => Some(format!("{}.{field}", of.qualified()?)),
            _ => None,
        }
    }
}

/// The way in which a member is selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SelectMode {
    Plain,
    /// `has(a.b)`
    Test,
    /// `a.?b`
    Optional,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum ExprKind {
    Literal(Constant),
    Name(String),
    Select {
        of: Box<Expr>,
        field: String,
        how: SelectMode,
    },
    /// A call of a function or an operator; an operator is named by its symbol.
    Call {
        name: String,
        target: Option<Box<Expr>>,
        args: Vec<Expr>,
    },
    /// Elements, each with whether an empty optional is omitted.
    List(Vec<(Expr, bool)>),
    Map(Vec<(Expr, Expr, bool)>),
    /// A message of a named type, such as `google.protobuf.Duration{seconds: 1}`.
    Message {
        name: String,
        fields: Vec<(String, Expr, bool)>,
    },
    Loop(Box<Loop>),
    /// `optMap` and, flat, `optFlatMap`.
    Bind {
        of: Box<Expr>,
        name: String,
        body: Box<Expr>,
        flat: bool,
    },
}

/// The result of a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoopForm {
    All,
    Exists,
    ExistsOne,
    Map,
    Filter,
    TransformList,
    TransformMap,
    TransformMapEntry,
    SortBy,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Loop {
    pub form: LoopForm,
    pub range: Expr,
    /// One variable, or those of key (index) and value.
    pub names: Vec<String>,
    pub filter: Option<Expr>,
    pub body: Expr,
}

/// Reads an expression.
pub(super) fn parse(text: &str) -> Result<Expr, CompileError> {
    if text.len() > MAX_LENGTH && text.chars().count() > MAX_LENGTH {
        return Err(CompileError::new(0, format!("the expression is longer than {MAX_LENGTH} characters")));
    }
    let mut parser = CelParser { tokens: Tokens::tokenize(text)?, depth: 0 };
    let expr = parser.expr()?;
    match parser.tokens.peek() {
        CelToken::End => Ok(expr),
        other => {
            Err(CompileError::new(parser.tokens.at(), format!("expected the end of the expression, and found {other}")))
        }
    }
}

struct CelParser {
    tokens: Tokens,
    depth: u16,
}

fn node(at: usize, kind: ExprKind) -> Result<Expr, CompileError> {
    let below = match &kind {
        ExprKind::Literal(_) | ExprKind::Name(_) => 0,
        ExprKind::Select { of, .. } => of.depth,
        ExprKind::Call { target, args, .. } => {
            target.iter().map(|target| target.depth).chain(args.iter().map(|arg| arg.depth)).max().unwrap_or(0)
        }
        ExprKind::List(items) => items.iter().map(|(item, _)| item.depth).max().unwrap_or(0),
        ExprKind::Map(entries) => entries.iter().map(|(key, value, _)| key.depth.max(value.depth)).max().unwrap_or(0),
        ExprKind::Message { fields, .. } => fields.iter().map(|(_, value, _)| value.depth).max().unwrap_or(0),
        ExprKind::Loop(parts) => {
            let filter = parts.filter.as_ref().map_or(0, |filter| filter.depth);
            parts.range.depth.max(parts.body.depth).max(filter)
        }
        ExprKind::Bind { of, body, .. } => of.depth.max(body.depth),
    };
    match below < MAX_DEPTH {
        true => Ok(Expr { kind, at, depth: below + 1 }),
        false => Err(CompileError::new(at, format!("the expression nests deeper than {MAX_DEPTH} levels"))),
    }
}

fn call(at: usize, name: &str, args: Vec<Expr>) -> Result<Expr, CompileError> {
    node(at, ExprKind::Call { name: name.to_owned(), target: None, args })
}

impl CelParser {
    fn mistake<T>(&self, text: impl Into<String>) -> Result<T, CompileError> {
        Err(CompileError::new(self.tokens.at(), text))
    }

    fn takes(&mut self, sign: &str) -> bool {
        let found = matches!(self.tokens.peek(), CelToken::Sign(found) if *found == sign);
        if found {
            self.tokens.next();
        }
        found
    }

    fn expects(&mut self, sign: &str) -> Result<(), CompileError> {
        if self.takes(sign) {
            return Ok(());
        }
        let found = self.tokens.peek().to_string();
        self.mistake(format!("expected {sign:?}, and found {found}"))
    }

    fn expr(&mut self) -> Result<Expr, CompileError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.mistake(format!("the expression nests deeper than {MAX_DEPTH} levels"));
        }
        let condition = self.operators(0)?;
        let result = if self.takes("?") {
            let at = condition.at;
            let yes = self.operators(0)?;
            self.expects(":")?;
            let no = self.expr()?;
            call(at, "?:", vec![condition, yes, no])
        } else {
            Ok(condition)
        };
        self.depth -= 1;
        result
    }

    /// Binary operators with a precedence of at least `level`.
    fn operators(&mut self, level: usize) -> Result<Expr, CompileError> {
        let mut left = self.unary()?;
        while let Some((name, binds)) = self.operator().filter(|(_, binds)| *binds >= level) {
            let at = self.tokens.at();
            self.tokens.next();
            if binds < 2 {
                // Operands of `&&` and `
                //
                // ` form a balanced tree, since chains may be long.
                let mut operands = vec![left, self.operators(binds + 1)?];
                while self.takes(name) {
                    operands.push(self.operators(binds + 1)?);
                }
                left = Self::balanced(at, name, operands)?;
            } else {
                let right = self.operators(binds + 1)?;
                left = call(at, name, vec![left, right])?;
            }
        }
        Ok(left)
    }

    fn balanced(at: usize, name: &str, mut operands: Vec<Expr>) -> Result<Expr, CompileError> {
        while operands.len() > 1 {
            let mut paired = Vec::with_capacity(operands.len().div_ceil(2));
            let mut rest = operands.into_iter();
            while let Some(left) = rest.next() {
                paired.push(match rest.next() {
                    Some(right) => call(at, name, vec![left, right])?,
                    None => left,
                });
            }
            operands = paired;
        }
        operands.pop().ok_or_else(|| CompileError::new(at, "an operator without operands"))
    }

    fn operator(&self) -> Option<(&'static str, usize)> {
        let sign = match self.tokens.peek() {
            CelToken::Sign(sign) => *sign,
            CelToken::Name(name) if name == "in" => return Some(("in", 2)),
            _ => return None,
        };
        let binds = match sign {
            "||" => 0,
            "&&" => 1,
            "==" | "!=" | "<" | "<=" | ">" | ">=" => 2,
            "+" | "-" => 3,
            "*" | "/" | "%" => 4,
            _ => return None,
        };
        Some((sign, binds))
    }

    fn unary(&mut self) -> Result<Expr, CompileError> {
        let at = self.tokens.at();
        for (sign, name) in [("!", "!_"), ("-", "-_")] {
            let mut count = 0_usize;
            while matches!(self.tokens.peek(), CelToken::Sign(found) if *found == sign) {
                self.tokens.next();
                count += 1;
            }
            if count == 0 {
                continue;
            }
            // A minus directly before a number belongs to it, so that the smallest integer can be written.
            if sign == "-"
                && count == 1
                && let Some(literal) = self.tokens.negative_number()
            {
                let literal = node(at, ExprKind::Literal(literal))?;
                return self.members(literal);
            }
            let operand = self.member()?;
            // Pairs cancel out.
            return if count % 2 == 1 { call(at, name, vec![operand]) } else { Ok(operand) };
        }
        self.member()
    }

    fn member(&mut self) -> Result<Expr, CompileError> {
        let primary = self.primary()?;
        self.members(primary)
    }

    fn members(&mut self, mut of: Expr) -> Result<Expr, CompileError> {
        loop {
            let at = self.tokens.at();
            if self.takes(".") {
                let optional = self.takes("?");
                let name = self.selector()?;
                if !optional && self.takes("(") {
                    let args = self.arguments(")")?;
                    of = Self::method(at, of, name, args)?;
                } else {
                    let how = if optional { SelectMode::Optional } else { SelectMode::Plain };
                    of = node(at, ExprKind::Select { of: Box::new(of), field: name, how })?;
                }
            } else if self.takes("[") {
                let name = if self.takes("?") { "[?]" } else { "[]" };
                let key = self.expr()?;
                self.expects("]")?;
                of = call(at, name, vec![of, key])?;
            } else if matches!(self.tokens.peek(), CelToken::Sign("{"))
                && let Some(name) = of.qualified()
            {
                self.tokens.next();
                of = self.message(at, name)?;
            } else {
                return Ok(of);
            }
        }
    }

    fn selector(&mut self) -> Result<String, CompileError> {
        match self.tokens.peek().clone() {
            CelToken::Name(name) => {
                if name == "in" || name == "true" || name == "false" || name == "null" {
                    return self.mistake(format!("{name:?} cannot be the name of a field"));
                }
                self.tokens.next();
                Ok(name)
            }
            CelToken::Quoted(name) => {
                self.tokens.next();
                Ok(name)
            }
            other => self.mistake(format!("expected a name, and found {other}")),
        }
    }

    fn arguments(&mut self, end: &str) -> Result<Vec<Expr>, CompileError> {
        let mut args = Vec::new();
        if self.takes(end) {
            return Ok(args);
        }
        loop {
            args.push(self.expr()?);
            if self.takes(end) {
                return Ok(args);
            }
            self.expects(",")?;
        }
    }

    fn primary(&mut self) -> Result<Expr, CompileError> {
        let at = self.tokens.at();
        match self.tokens.peek().clone() {
            CelToken::Literal(literal) => {
                self.tokens.next();
                node(at, ExprKind::Literal(literal))
            }
            CelToken::Name(name) => {
                self.tokens.next();
                self.named(at, name)
            }
            CelToken::Sign("(") => {
                self.tokens.next();
                let inner = self.expr()?;
                self.expects(")")?;
                Ok(inner)
            }
            CelToken::Sign("[") => {
                self.tokens.next();
                self.list(at)
            }
            CelToken::Sign("{") => {
                self.tokens.next();
                self.map(at)
            }
            CelToken::Sign(".") => {
                // A leading dot refers to the root; there is no container here.
                self.tokens.next();
                let name = self.selector()?;
                self.named(at, name)
            }
            other => self.mistake(format!("expected an expression, and found {other}")),
        }
    }

    fn named(&mut self, at: usize, name: String) -> Result<Expr, CompileError> {
        match &*name {
            "true" | "false" => return node(at, ExprKind::Literal(Constant::Bool(name == "true"))),
            "null" => return node(at, ExprKind::Literal(Constant::Null)),
            word if is_reserved(word) => {
                return Err(CompileError::new(at, format!("{word:?} is a reserved word")));
            }
            _ => {}
        }
        if !self.takes("(") {
            return node(at, ExprKind::Name(name));
        }
        let args = self.arguments(")")?;
        if name != "has" {
            return call(at, &name, args);
        }
        match <[Expr; 1]>::try_from(args) {
            Ok([Expr { kind: ExprKind::Select { of, field, how: SelectMode::Plain }, .. }]) => {
                node(at, ExprKind::Select { of, field, how: SelectMode::Test })
            }
            _ => Err(CompileError::new(at, "has() takes one selection of a field, such as has(self.name)")),
        }
    }

    fn list(&mut self, at: usize) -> Result<Expr, CompileError> {
        let mut items = Vec::new();
        while !self.takes("]") {
            let optional = self.takes("?");
            items.push((self.expr()?, optional));
            if !self.takes(",") {
                self.expects("]")?;
                break;
            }
        }
        node(at, ExprKind::List(items))
    }

    fn map(&mut self, at: usize) -> Result<Expr, CompileError> {
        let mut entries = Vec::new();
        while !self.takes("}") {
            let optional = self.takes("?");
            let key = self.expr()?;
            self.expects(":")?;
            entries.push((key, self.expr()?, optional));
            if !self.takes(",") {
                self.expects("}")?;
                break;
            }
        }
        node(at, ExprKind::Map(entries))
    }

    fn message(&mut self, at: usize, name: String) -> Result<Expr, CompileError> {
        let mut fields = Vec::new();
        while !self.takes("}") {
            let optional = self.takes("?");
            let field = self.selector()?;
            self.expects(":")?;
            fields.push((field, self.expr()?, optional));
            if !self.takes(",") {
                self.expects("}")?;
                break;
            }
        }
        node(at, ExprKind::Message { name, fields })
    }

    /// A method call, or a macro with method syntax.
    fn method(at: usize, of: Expr, name: String, mut args: Vec<Expr>) -> Result<Expr, CompileError> {
        let form = match (&*name, args.len()) {
            ("all", 2 | 3) => LoopForm::All,
            ("exists", 2 | 3) => LoopForm::Exists,
            ("exists_one", 2 | 3) | ("existsOne", 3) => LoopForm::ExistsOne,
            ("map", 2 | 3) => LoopForm::Map,
            ("filter", 2) => LoopForm::Filter,
            ("transformList", 3 | 4) => LoopForm::TransformList,
            ("transformMap", 3 | 4) => LoopForm::TransformMap,
            ("transformMapEntry", 3 | 4) => LoopForm::TransformMapEntry,
            ("sortBy", 2) => LoopForm::SortBy,
            ("optMap" | "optFlatMap", 2) => {
                let body = args.pop().map(Box::new);
                let variable = args.pop().and_then(plain_name);
                let (Some(body), Some(variable)) = (body, variable) else {
                    return Err(CompileError::new(
                        at,
                        format!("the first argument of {name}() must be the name of a variable"),
                    ));
                };
                let flat = name == "optFlatMap";
                return node(at, ExprKind::Bind { of: Box::new(of), name: variable, body, flat });
            }
            _ => return node(at, ExprKind::Call { name, target: Some(Box::new(of)), args }),
        };
        let (names, filters) = match (form, args.len()) {
            (LoopForm::Map, 3) => (1, 1),
            (LoopForm::Map | LoopForm::Filter | LoopForm::SortBy, _)
            | (LoopForm::All | LoopForm::Exists | LoopForm::ExistsOne, 2) => (1, 0),
            (_, 4) => (2, 1),
            _ => (2, 0),
        };
        let rest = args.split_off(names);
        let names: Option<Vec<String>> = args.into_iter().map(plain_name).collect();
        let Some(names) = names else {
            return Err(CompileError::new(
                at,
                format!("the first two arguments of {name}() must be names of variables"),
            ));
        };
        if let [first, second] = names.as_slice()
            && first == second
        {
            return Err(CompileError::new(at, format!("the two variables of {name}() must have different names")));
        }
        let mut rest = rest.into_iter();
        let filter = if filters == 1 { rest.next() } else { None };
        let Some(body) = rest.next() else {
            return Err(CompileError::new(at, format!("{name}() is missing an argument")));
        };
        node(at, ExprKind::Loop(Box::new(Loop { form, range: of, names, filter, body })))
    }
}

fn plain_name(expr: Expr) -> Option<String> {
    match expr.kind {
        ExprKind::Name(name) => Some(name),
        _ => None,
    }
}

/// Reserved words besides `true`, `false`, `null` and `in`.
pub(super) const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

fn is_reserved(word: &str) -> bool {
    word == "in" || RESERVED.contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_bind_as_in_c() {
        for (text, same) in [
            ("1 + 2 * 3 == 7 && true || false", "(((1 + (2 * 3)) == 7) && true) || false"),
            ("a ? b : c ? d : e", "a ? b : (c ? d : e)"),
            ("!a.b[0]", "!((a.b)[0])"),
            ("a - b - c", "(a - b) - c"),
            ("- -a", "a"),
            ("a in b == c", "(a in b) == c"),
        ] {
            assert_eq!(shape(&parse(text).unwrap()), shape(&parse(same).unwrap()), "{text}");
        }
        assert_ne!(shape(&parse("a - (b - c)").unwrap()), shape(&parse("a - b - c").unwrap()));
    }

    /// The tree without positions.
    fn shape(expr: &Expr) -> String {
        let text = format!("{expr:?}");
        text.split(", at: ").map(|part| part.trim_start_matches(|c: char| c.is_ascii_digit())).collect()
    }

    #[test]
    fn mistakes_say_where_and_what() {
        for (text, at, words) in [
            ("", 0, "found the end"),
            ("self.", 5, "expected a name"),
            ("self == ", 8, "expected an expression"),
            ("self x", 5, "expected the end of the expression, and found \"x\""),
            ("has(self)", 0, "has() takes"),
            ("for", 0, "reserved"),
            ("[1, 2", 5, "expected \"]\""),
            ("a.map(1, 2)", 1, "names of variables"),
            ("Foo{a 1}", 6, "expected \":\""),
            ("Foo{a: 1", 8, "expected \"}\""),
        ] {
            let mistake = parse(text).unwrap_err();
            assert!(mistake.text.contains(words) && mistake.at == at, "{text}: {mistake:?}");
        }
    }

    #[test]
    fn hostile_nesting_is_refused_and_long_chains_are_not() {
        for deep in ["(".repeat(50_000), "[".repeat(50_000), "a?".repeat(50_000), format!("a{}", ".b".repeat(49_000))] {
            assert!(parse(&deep).is_err());
        }
        assert!(parse(&"!".repeat(99_000)).is_err());
        assert!(parse(&format!("{}a", "-".repeat(99_000))).is_ok());
        assert!(parse(&format!("1{}", "+1".repeat(2000))).is_err());
        assert!(parse(&vec!["a"; 20_000].join("&&")).is_ok());
        assert!(parse(&"a".repeat(MAX_LENGTH + 1)).is_err());
    }
}
