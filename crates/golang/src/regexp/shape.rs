//! The measures that Go limits while it parses: the nesting depth of an expression, and the number of copies of its
//! innermost part.
//!
//! Go measures its syntax tree, in which neighbouring letters are one string, groups that do not capture leave no
//! trace, and a sequence in a sequence is one sequence. No tree is built here: [`SequenceShape`] and
//! [`AlternativesShape`] add up what a tree would measure. Prefixes that Go factors out of alternatives are not
//! followed, so close to the limit the height may be off by a few.

/// Measures of a part of the expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ExpressionShape {
    kind: ShapeKind,
    pub(super) height: usize,
    /// Product of nested repeat counts, the largest one in this part.
    pub(super) copies: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ShapeKind {
    /// Letters that a neighbour with the same folding can join; `single` for one letter.
    Text {
        fold: bool,
        single: bool,
    },
    Class,
    Sequence,
    Alternatives,
    Other,
}

impl ExpressionShape {
    pub(super) fn letter(fold: bool) -> Self {
        Self::flat(ShapeKind::Text { fold, single: true })
    }

    pub(super) fn class() -> Self {
        Self::flat(ShapeKind::Class)
    }

    /// An assertion, or nothing at all.
    pub(super) fn empty() -> Self {
        Self::flat(ShapeKind::Other)
    }

    pub(super) fn captured(self) -> Self {
        Self { kind: ShapeKind::Other, height: self.height + 1, copies: self.copies }
    }

    pub(super) fn repeated(self, min: u32, max: Option<u32>) -> Self {
        let copies = match max {
            Some(0) => 1,
            _ => self.copies * max.unwrap_or(min).max(1),
        };
        Self { kind: ShapeKind::Other, height: self.height + 1, copies }
    }

    fn flat(kind: ShapeKind) -> Self {
        Self { kind, height: 1, copies: 1 }
    }

    /// The height below a parent of kind `parent`, into which a part of the same kind is merged.
    fn height_in(self, parent: ShapeKind) -> usize {
        if self.kind == parent { self.height - 1 } else { self.height }
    }

    fn is_one_character(self) -> bool {
        matches!(self.kind, ShapeKind::Class | ShapeKind::Text { single: true, .. })
    }
}

/// Parts that follow one another. The last one is held apart: a repetition applies to it alone.
#[derive(Debug, Default)]
pub(super) struct SequenceShape {
    parts: ShapeSum,
    last: Option<ExpressionShape>,
}

impl SequenceShape {
    pub(super) fn push(&mut self, shape: ExpressionShape) {
        self.settle();
        self.last = Some(shape);
    }

    pub(super) fn last(&self) -> Option<ExpressionShape> {
        self.last
    }

    pub(super) fn replace_last(&mut self, shape: ExpressionShape) {
        self.last = Some(shape);
    }

    pub(super) fn finish(mut self) -> ExpressionShape {
        self.settle();
        self.parts.finish(ShapeKind::Sequence)
    }

    fn settle(&mut self) {
        if let Some(shape) = self.last.take()
            && !self.parts.join(shape)
        {
            self.parts.push(shape, ShapeKind::Sequence);
        }
    }
}

/// Alternatives between `|`. Where each is one character they make a class.
#[derive(Debug, Default)]
pub(super) struct AlternativesShape {
    parts: ShapeSum,
    complex: bool,
}

impl AlternativesShape {
    pub(super) fn push(&mut self, shape: ExpressionShape) {
        self.complex |= !shape.is_one_character();
        self.parts.push(shape, ShapeKind::Alternatives);
    }

    pub(super) fn finish(self) -> ExpressionShape {
        if self.parts.count > 1 && !self.complex {
            ExpressionShape::class()
        } else {
            self.parts.finish(ShapeKind::Alternatives)
        }
    }
}

/// The combined measures of parts that are merged into one.
#[derive(Debug, Default)]
struct ShapeSum {
    count: usize,
    height: usize,
    copies: u32,
    latest: Option<ExpressionShape>,
}

impl ShapeSum {
    fn push(&mut self, shape: ExpressionShape, parent: ShapeKind) {
        self.count += if shape.kind == parent { 2 } else { 1 };
        self.height = self.height.max(shape.height_in(parent));
        self.copies = self.copies.max(shape.copies);
        self.latest = Some(shape);
    }

    /// Merges a text into the text before it if both have the same folding.
    fn join(&mut self, shape: ExpressionShape) -> bool {
        match (&mut self.latest, shape.kind) {
            (
                Some(ExpressionShape { kind: ShapeKind::Text { fold, single }, .. }),
                ShapeKind::Text { fold: next, .. },
            ) if *fold == next => {
                *single = false;
                true
            }
            _ => false,
        }
    }

    fn finish(self, kind: ShapeKind) -> ExpressionShape {
        match self.latest {
            None => ExpressionShape::empty(),
            Some(only) if self.count == 1 => only,
            Some(_) => ExpressionShape { kind, height: self.height + 1, copies: self.copies },
        }
    }
}
