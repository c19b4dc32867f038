//! The variables that a template uses, as far as they are visible in its text (DEC-5).

use std::collections::BTreeSet;

use super::Template;
use super::tree::{Code, Command, Instruction, Operand, Pipeline, Term};

/// A chain of names from the data's root, as `.builtin.cluster.name` or `index . "a-b" "c"`.
pub type Path = Vec<String>;

/// Where dot or a value stands below the root; none when only rendering can tell.
type Known = Option<Path>;

/// All paths, sorted and without duplicates, and whether nothing else can be reached.
pub(super) fn of(template: &Template) -> (Vec<Path>, bool) {
    let mut walk = Walk { found: BTreeSet::new(), calls: vec![], seen: BTreeSet::new(), steps: 0, takes_all: false };
    walk.code(&template.parsed.code, Some(Path::new()));
    while let Some((name, dot)) = walk.calls.pop() {
        walk.takes_all |= walk.seen.len() >= MAX_CALLS;
        let is_new = walk.seen.len() < MAX_CALLS && walk.seen.insert((name.clone(), dot.clone()));
        if let Some(code) = template.parsed.definitions.get(&name).filter(|_| is_new) {
            walk.code(code, dot);
        }
    }
    (walk.found.into_iter().collect(), !walk.takes_all)
}

/// Longer paths are not followed further.
const MAX_PATH: usize = 16;

/// After so many instructions the rest is left out.
const MAX_STEPS: usize = 50_000;

/// How many combinations of a template and its argument are followed.
const MAX_CALLS: usize = 1000;

struct Walk {
    found: BTreeSet<Path>,
    calls: Vec<(String, Known)>,
    seen: BTreeSet<(String, Known)>,
    steps: usize,
    /// Whether the data as a whole goes where it cannot be followed.
    takes_all: bool,
}

/// The two values that names start from.
#[derive(Clone)]
struct Roots {
    dot: Known,
    dollar: Known,
}

/// An open scope: dot outside, and where the else part starts.
struct Scope {
    outer: Known,
    otherwise: usize,
}

impl Walk {
    fn code(&mut self, code: &Code, dot: Known) {
        let mut roots = Roots { dot: dot.clone(), dollar: dot };
        let mut scopes: Vec<Scope> = Vec::new();
        for (at, instruction) in code.0.iter().enumerate() {
            self.steps += 1;
            if self.steps > MAX_STEPS {
                self.takes_all = true;
                return;
            }
            if let Some(scope) = scopes.last().filter(|scope| scope.otherwise == at) {
                roots.dot = scope.outer.clone();
            }
            match instruction {
                Instruction::Print(pipeline) => {
                    let printed = self.pipeline(pipeline, &roots);
                    self.hand_on(&printed);
                }
                Instruction::If { condition, otherwise } => {
                    self.pipeline(condition, &roots);
                    scopes.push(Scope { outer: roots.dot.clone(), otherwise: *otherwise });
                }
                Instruction::With { value, otherwise } => {
                    let inner = self.pipeline(value, &roots);
                    scopes.push(Scope { outer: std::mem::replace(&mut roots.dot, inner), otherwise: *otherwise });
                }
                Instruction::Range { over, otherwise, .. } => {
                    let over = self.pipeline(over, &roots);
                    self.hand_on(&over);
                    scopes.push(Scope { outer: roots.dot.take(), otherwise: *otherwise });
                }
                Instruction::Close => {
                    if let Some(scope) = scopes.pop() {
                        roots.dot = scope.outer;
                    }
                }
                Instruction::Call(call) => {
                    let argument = call.argument.as_ref().and_then(|argument| self.pipeline(argument, &roots));
                    self.calls.push((call.name.clone(), argument));
                }
                Instruction::Text(_)
                | Instruction::Next { .. }
                | Instruction::Jump(_)
                | Instruction::Break
                | Instruction::Continue => {}
            }
        }
    }

    fn pipeline(&mut self, pipeline: &Pipeline, roots: &Roots) -> Known {
        let mut value = None;
        for command in &pipeline.commands {
            self.hand_on(&value);
            value = self.command(command, roots);
        }
        if !pipeline.variables.is_empty() {
            self.hand_on(&value);
        }
        if pipeline.commands.len() == 1 { value } else { None }
    }

    /// Notes uses of a value that are not tracked further.
    fn hand_on(&mut self, value: &Known) {
        self.takes_all |= value.as_ref().is_some_and(Vec::is_empty);
    }

    fn command(&mut self, command: &Command, roots: &Roots) -> Known {
        if let Term::Function(function) = &command.first.term {
            return match function.name {
                "index" | "get" => self.looked_up(&command.arguments, roots),
                _ => {
                    command.arguments.iter().for_each(|operand| {
                        let value = self.operand(operand, roots);
                        self.hand_on(&value);
                    });
                    None
                }
            };
        }
        command.arguments.iter().for_each(|operand| {
            let value = self.operand(operand, roots);
            self.hand_on(&value);
        });
        self.operand(&command.first, roots)
    }

    /// `index .a "b" "c"`, as long as the keys are texts.
    fn looked_up(&mut self, arguments: &[Operand], roots: &Roots) -> Known {
        let (first, keys) = arguments.split_first()?;
        let mut path = self.operand(first, roots);
        for key in keys {
            if let (Some(path), Term::Text { text, .. }) = (&mut path, &key.term) {
                if path.len() < MAX_PATH {
                    path.push(text.clone());
                }
            } else {
                let value = self.operand(key, roots);
                self.hand_on(&value);
                self.hand_on(&path);
                path = None;
            }
        }
        self.record(path)
    }

    fn operand(&mut self, operand: &Operand, roots: &Roots) -> Known {
        let path = match &operand.term {
            Term::Dot => return roots.dot.clone(),
            Term::Field(names) => below(&roots.dot, names),
            Term::Variable(name, names) if name == "$" => below(&roots.dollar, names),
            Term::Chain(inner, names) => below(&self.operand(inner, roots), names),
            Term::Pipeline(pipeline) => return self.pipeline(pipeline, roots),
            Term::Variable(..)
            | Term::Function(_)
            | Term::Bool(_)
            | Term::Number(_)
            | Term::Text { .. }
            | Term::Nil => None,
        };
        self.record(path)
    }

    fn record(&mut self, path: Known) -> Known {
        if let Some(path) = path.as_ref().filter(|path| !path.is_empty()) {
            self.found.insert(path.clone());
        }
        path
    }
}

fn below(root: &Known, names: &[String]) -> Known {
    let root = root.as_ref().filter(|root| root.len() < MAX_PATH)?;
    Some(root.iter().chain(names).take(MAX_PATH).cloned().collect())
}
