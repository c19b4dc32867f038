//! The current position of a check inside a value.

use crate::field::{lengthen, point, shortened};

/// Where a check stands inside a value; written out only when something is wrong. Names that are too long to be names are
/// cut short: there may be many errors below one.
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
                // The established path of an element of a root array has a dot.
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

    /// Writes the pointer; says whether it leads to the place. One that would be too long leads to something around it.
    fn point(&self, text: &mut String) -> bool {
        match self {
            ValuePath::Root => true,
            ValuePath::Member(parent, name) => parent.point(text) && point(text, name),
            ValuePath::Element(parent, i) => parent.point(text) && point(text, &i.to_string()),
        }
    }

    /// The place for a message.
    pub(super) fn named(&self) -> String {
        match self.render() {
            root if root.is_empty() => "the value".to_owned(),
            place => place.trim_start_matches('.').to_owned(),
        }
    }
}
