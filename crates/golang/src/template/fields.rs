//! The variables that a template uses, as far as they are visible in its text (DEC-5).

use std::collections::BTreeSet;

use super::Template;
use super::tree::{Code, Instruction, Operand, Pipeline, PipelineCommand, Term};

/// A chain of names from the data's root, as `.builtin.cluster.name` or `index . "a-b" "c"`.
pub type FieldChain = Vec<String>;

/// The path of dot or of a value from the root; `None` if it is known only while rendering.
type KnownChain = Option<FieldChain>;

/// All paths, sorted and without duplicates, and whether they are complete.
pub(super) fn referenced_fields(template: &Template) -> (Vec<FieldChain>, bool) {
    let mut walk =
        FieldCollector { found: BTreeSet::new(), calls: vec![], seen: BTreeSet::new(), steps: 0, takes_all: false };
    walk.code(&template.parsed.code, Some(FieldChain::new()));
    while let Some((name, dot)) = walk.calls.pop() {
        walk.takes_all |= walk.seen.len() >= MAX_CALLS;
        let is_new = walk.seen.len() < MAX_CALLS && walk.seen.insert((name.clone(), dot.clone()));
        if let Some(code) = template.parsed.definitions.get(&name).filter(|_| is_new) {
            walk.code(code, dot);
        }
    }
    (walk.found.into_iter().collect(), !walk.takes_all)
}

/// Maximum length of a path.
const MAX_PATH: usize = 16;

/// Maximum number of instructions that are followed.
const MAX_STEPS: usize = 50_000;

/// Maximum number of combinations of a template and its argument that are followed.
const MAX_CALLS: usize = 1000;

struct FieldCollector {
    found: BTreeSet<FieldChain>,
    calls: Vec<(String, KnownChain)>,
    seen: BTreeSet<(String, KnownChain)>,
    steps: usize,
    /// Whether the data is used as a whole, where it cannot be followed.
    takes_all: bool,
}

/// The two values that names are relative to.
#[derive(Clone)]
struct Roots {
    dot: KnownChain,
    dollar: KnownChain,
}

/// An open scope: dot outside, and where the else part starts.
struct OpenScope {
    outer: KnownChain,
    otherwise: usize,
}

impl FieldCollector {
    fn code(&mut self, code: &Code, dot: KnownChain) {
        let mut roots = Roots { dot: dot.clone(), dollar: dot };
        let mut scopes: Vec<OpenScope> = Vec::new();
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
                    scopes.push(OpenScope { outer: roots.dot.clone(), otherwise: *otherwise });
                }
                Instruction::With { value, otherwise } => {
                    let inner = self.pipeline(value, &roots);
                    scopes.push(OpenScope { outer: std::mem::replace(&mut roots.dot, inner), otherwise: *otherwise });
                }
                Instruction::Range { over, otherwise, .. } => {
                    let over = self.pipeline(over, &roots);
                    self.hand_on(&over);
                    scopes.push(OpenScope { outer: roots.dot.take(), otherwise: *otherwise });
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

    fn pipeline(&mut self, pipeline: &Pipeline, roots: &Roots) -> KnownChain {
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

    /// Records the use of a value that is not tracked further.
    fn hand_on(&mut self, value: &KnownChain) {
        self.takes_all |= value.as_ref().is_some_and(Vec::is_empty);
    }

    fn command(&mut self, command: &PipelineCommand, roots: &Roots) -> KnownChain {
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

    /// `index .a "b" "c"`, where the keys are strings.
    fn looked_up(&mut self, arguments: &[Operand], roots: &Roots) -> KnownChain {
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

    fn operand(&mut self, operand: &Operand, roots: &Roots) -> KnownChain {
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

    fn record(&mut self, path: KnownChain) -> KnownChain {
        if let Some(path) = path.as_ref().filter(|path| !path.is_empty()) {
            self.found.insert(path.clone());
        }
        path
    }
}

fn below(root: &KnownChain, names: &[String]) -> KnownChain {
    let root = root.as_ref().filter(|root| root.len() < MAX_PATH)?;
    Some(root.iter().chain(names).take(MAX_PATH).cloned().collect())
}
