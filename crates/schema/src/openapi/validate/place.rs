//! Path of the current check inside a value.

use crate::field::{lengthen, point, shortened};

/// Path of a check inside a value, rendered only for errors. Overlong names are cut: there may be many errors below
/// one.
#[derive(Debug)]
pub(in crate::openapi) enum ValuePath<'a> {
    Root,
    Member(&'a ValuePath<'a>, &'a str),
    Element(&'a ValuePath<'a>, usize),
}

impl ValuePath<'_> {
    pub(in crate::openapi) fn render(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        text
    }

    fn write(&self, text: &mut String) {
        match self {
            ValuePath::Root => {}
            ValuePath::Member(parent, name) => {
                parent.write(text);
                lengthen(text, &[".", &shortened(name)]);
            }
            ValuePath::Element(parent, i) => {
                parent.write(text);
                // By convention, the path of an element of a root array starts with a dot.
                let dot = if text.is_empty() { "." } else { "" };
                lengthen(text, &[dot, "[", &i.to_string(), "]"]);
            }
        }
    }

    pub(super) fn pointer(&self) -> String {
        let mut text = String::new();
        self.point(&mut text);
        text
    }

    /// Appends the pointer; returns whether it is exact. A pointer that is too long refers to an enclosing value.
    fn point(&self, text: &mut String) -> bool {
        match self {
            ValuePath::Root => true,
            ValuePath::Member(parent, name) => parent.point(text) && point(text, name),
            ValuePath::Element(parent, i) => parent.point(text) && point(text, &i.to_string()),
        }
    }

    /// The path in a message.
    pub(super) fn named(&self) -> String {
        match self.render() {
            root if root.is_empty() => "the value".to_owned(),
            place => place.trim_start_matches('.').to_owned(),
        }
    }
}
