//! A strict reader of pages: what it accepts is well-formed XML, apart from the contents of `style` and `script`.

use std::collections::BTreeMap;

/// An element with what is in it.
#[derive(Debug, Default)]
pub(super) struct Element {
    pub name: String,
    attributes: BTreeMap<String, String>,
    pub children: Vec<Node>,
}

#[derive(Debug)]
pub(super) enum Node {
    Element(Element),
    Text(String),
}

impl Element {
    pub(super) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.get(name).map(String::as_str)
    }

    pub(super) fn class(&self) -> &str {
        self.attribute("class").unwrap_or_default()
    }

    pub(super) fn elements(&self) -> impl Iterator<Item = &Element> {
        self.children.iter().filter_map(|node| if let Node::Element(one) = node { Some(one) } else { None })
    }

    /// This element and all in it, in the order of the page.
    pub(super) fn all(&self) -> Vec<&Element> {
        std::iter::once(self).chain(self.elements().flat_map(Element::all)).collect()
    }

    /// All elements in it with one of their classes.
    pub(super) fn of_class(&self, class: &str) -> Vec<&Element> {
        self.all().into_iter().filter(|one| one.class().split(' ').any(|it| it == class)).collect()
    }

    pub(super) fn named(&self, name: &str) -> Vec<&Element> {
        self.all().into_iter().filter(|one| one.name == name).collect()
    }

    /// The first element with this name.
    pub(super) fn one(&self, name: &str) -> &Element {
        self.named(name).first().unwrap_or_else(|| panic!("no {name} in {self:?}"))
    }

    /// All text in it.
    pub(super) fn text(&self) -> String {
        let text = |node: &Node| match node {
            Node::Text(text) => text.clone(),
            Node::Element(element) => element.text(),
        };
        self.children.iter().map(text).collect()
    }
}

/// The root of a page.
pub(super) fn document(page: &str) -> Element {
    let rest = page.strip_prefix("<!DOCTYPE html>").expect("a page begins with its type");
    let mut reader = Reader { rest: rest.trim_start() };
    let root = reader.element();
    assert_eq!(reader.rest.trim(), "", "after the end");
    root
}

struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn fails(&self, why: &str) -> ! {
        panic!("{why}: {:?}", self.rest.chars().take(80).collect::<String>())
    }

    fn eats(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn wants(&mut self, text: &str) {
        if !self.eats(text) {
            self.fails(&format!("{text:?} is missing"));
        }
    }

    /// What comes before the text, which must be there.
    fn until(&mut self, end: &str) -> &'a str {
        let Some((before, _)) = self.rest.split_once(end) else { self.fails(&format!("no {end:?} follows")) };
        self.rest = &self.rest[before.len()..];
        before
    }

    fn name(&mut self) -> String {
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
            self.fails("not a name");
        }
        self.rest = rest;
        name.to_owned()
    }

    fn element(&mut self) -> Element {
        self.wants("<");
        let mut element = Element { name: self.name(), ..Element::default() };
        while self.eats(" ") {
            let name = self.name();
            self.wants("=\"");
            let value = unescaped(self.until("\""));
            self.wants("\"");
            assert!(element.attributes.insert(name.clone(), value).is_none(), "{name} is there twice");
        }
        if self.eats("/>") {
            return element;
        }
        self.wants(">");
        let end = format!("</{}>", element.name);
        if ["style", "script"].contains(&&*element.name) {
            element.children.push(Node::Text(self.until(&end).to_owned()));
        }
        while !self.eats(&end) {
            let node = if self.rest.starts_with('<') {
                Node::Element(self.element())
            } else {
                Node::Text(unescaped(self.until("<")))
            };
            element.children.push(node);
        }
        element
    }
}

/// A text without its entities, of which XML and HTML know these.
fn unescaped(text: &str) -> String {
    assert!(!text.contains(['<', '>']), "not escaped: {text:?}");
    assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "a control character: {text:?}");
    let mut parts = text.split('&');
    let mut plain = parts.next().unwrap().to_owned();
    for part in parts {
        let (entity, rest) = part.split_once(';').unwrap_or_else(|| panic!("not escaped: {text:?}"));
        plain.push(match entity {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            "#39" => '\'',
            _ => panic!("XML does not know &{entity};"),
        });
        plain += rest;
    }
    plain
}

#[test]
fn a_page_that_is_not_well_formed_is_refused() {
    let read = |body: &str| std::panic::catch_unwind(|| document(&format!("<!DOCTYPE html>\n<b>{body}</b>\n"))).is_ok();
    assert!(read("a &amp; <i class=\"x\" id=\"y\">b</i><br/>"));
    for body in ["<i>", "</i>", "a & b", "&nbsp;", "a > b", "<i x>b</i>", "<i x=y/>", "<i x=\"1\" x=\"2\"/>", "\u{1b}"]
    {
        assert!(!read(body), "{body}");
    }
}
