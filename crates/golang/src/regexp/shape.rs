//! The measures Go limits while it parses: how deep an expression nests and how often its innermost part is copied.
//!
//! Go measures its syntax tree, in which neighbouring letters are one string, groups that do not capture leave no
//! trace, and a sequence in a sequence is one sequence. No tree is built here: [`Sequence`] and [`Branches`] add up
//! what a tree would measure. Prefixes that Go factors out of alternatives are not followed, so close to the limit the
//! height may be off by a few.

/// What is known of a part of the expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    kind: Kind,
    pub(super) height: usize,
    /// Product of nested repeat counts, the largest one in this part.
    pub(super) copies: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
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

impl Shape {
    pub(super) fn letter(fold: bool) -> Self {
        Self::flat(Kind::Text { fold, single: true })
    }

    pub(super) fn class() -> Self {
        Self::flat(Kind::Class)
    }

    /// An assertion, or nothing at all.
    pub(super) fn empty() -> Self {
        Self::flat(Kind::Other)
    }

    pub(super) fn captured(self) -> Self {
        Self { kind: Kind::Other, height: self.height + 1, copies: self.copies }
    }

    pub(super) fn repeated(self, min: u32, max: Option<u32>) -> Self {
        let copies = match max {
            Some(0) => 1,
            _ => self.copies * max.unwrap_or(min).max(1),
        };
        Self { kind: Kind::Other, height: self.height + 1, copies }
    }

    fn flat(kind: Kind) -> Self {
        Self { kind, height: 1, copies: 1 }
    }

    /// The height below a parent of kind `parent`, into which a part of the same kind is merged.
    fn height_in(self, parent: Kind) -> usize {
        if self.kind == parent { self.height - 1 } else { self.height }
    }

    fn is_one_character(self) -> bool {
        matches!(self.kind, Kind::Class | Kind::Text { single: true, .. })
    }
}

/// Parts that follow one another. The last one is held apart: a repetition applies to it alone.
#[derive(Debug, Default)]
pub(super) struct Sequence {
    parts: Parts,
    last: Option<Shape>,
}

impl Sequence {
    pub(super) fn push(&mut self, shape: Shape) {
        self.settle();
        self.last = Some(shape);
    }

    pub(super) fn last(&self) -> Option<Shape> {
        self.last
    }

    pub(super) fn replace_last(&mut self, shape: Shape) {
        self.last = Some(shape);
    }

    pub(super) fn finish(mut self) -> Shape {
        self.settle();
        self.parts.finish(Kind::Sequence)
    }

    fn settle(&mut self) {
        if let Some(shape) = self.last.take()
            && !self.parts.join(shape)
        {
            self.parts.push(shape, Kind::Sequence);
        }
    }
}

/// Alternatives between `|`. Where each is one character they make a class.
#[derive(Debug, Default)]
pub(super) struct Branches {
    parts: Parts,
    complex: bool,
}

impl Branches {
    pub(super) fn push(&mut self, shape: Shape) {
        self.complex |= !shape.is_one_character();
        self.parts.push(shape, Kind::Alternatives);
    }

    pub(super) fn finish(self) -> Shape {
        if self.parts.count > 1 && !self.complex { Shape::class() } else { self.parts.finish(Kind::Alternatives) }
    }
}

/// The measures of parts that will be one.
#[derive(Debug, Default)]
struct Parts {
    count: usize,
    height: usize,
    copies: u32,
    latest: Option<Shape>,
}

impl Parts {
    fn push(&mut self, shape: Shape, parent: Kind) {
        self.count += if shape.kind == parent { 2 } else { 1 };
        self.height = self.height.max(shape.height_in(parent));
        self.copies = self.copies.max(shape.copies);
        self.latest = Some(shape);
    }

    /// Makes text and the text before it one part, if both are text of the same folding.
    fn join(&mut self, shape: Shape) -> bool {
        match (&mut self.latest, shape.kind) {
            (Some(Shape { kind: Kind::Text { fold, single }, .. }), Kind::Text { fold: next, .. }) if *fold == next => {
                *single = false;
                true
            }
            _ => false,
        }
    }

    fn finish(self, kind: Kind) -> Shape {
        match self.latest {
            None => Shape::empty(),
            Some(only) if self.count == 1 => only,
            Some(_) => Shape { kind, height: self.height + 1, copies: self.copies },
        }
    }
}
