//! Label selectors in text form: `env=prod,tier in (a,b),!canary`.

/// Requirements on the labels of an object, all of which must hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LabelRequirements(Vec<LabelRequirement>);

#[derive(Clone, Debug, PartialEq)]
enum LabelRequirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
    /// Greater than, or less than if the flag is not set.
    Compared(String, bool, i64),
}

impl LabelRequirements {
    /// Parses `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1`; `None` for an invalid selector.
    pub fn parse(text: &str) -> Option<Self> {
        let mut requirements = Vec::new();
        let mut rest = text.trim();
        while !rest.is_empty() {
            let (requirement, after) = label_requirement(rest)?;
            requirements.push(requirement);
            rest = after.trim_start();
            match rest.strip_prefix(',') {
                Some(after) if !after.trim().is_empty() => rest = after.trim_start(),
                None if rest.is_empty() => {}
                _ => return None,
            }
        }
        Some(LabelRequirements(requirements))
    }

    /// Whether there are no requirements.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The only value that the requirements allow for a label, if there is one.
    pub fn value_of(&self, label: &str) -> Option<&str> {
        self.0.iter().find_map(|requirement| match requirement {
            LabelRequirement::In(name, values) if name == label => match &values[..] {
                [value] => Some(&**value),
                _ => None,
            },
            _ => None,
        })
    }

    /// Whether labels satisfy the requirements; `label` returns the value of one.
    pub fn hold<'v>(&self, label: impl Fn(&str) -> Option<&'v str>) -> bool {
        self.0.iter().all(|requirement| requirement.holds(&label))
    }
}

impl LabelRequirement {
    fn holds<'v>(&self, label: &impl Fn(&str) -> Option<&'v str>) -> bool {
        match self {
            LabelRequirement::In(name, values) => {
                label(name).is_some_and(|found| values.iter().any(|value| value == found))
            }
            LabelRequirement::NotIn(name, values) => {
                label(name).is_none_or(|found| values.iter().all(|value| value != found))
            }
            LabelRequirement::Exists(name) => label(name).is_some(),
            LabelRequirement::Absent(name) => label(name).is_none(),
            LabelRequirement::Compared(name, above, bound) => {
                let found = label(name).and_then(|found| found.parse::<i64>().ok());
                found.is_some_and(|found| if *above { found > *bound } else { found < *bound })
            }
        }
    }
}

fn label_requirement(text: &str) -> Option<(LabelRequirement, &str)> {
    if let Some(rest) = text.strip_prefix('!') {
        let (name, rest) = word(rest.trim_start())?;
        return Some((LabelRequirement::Absent(name.to_owned()), rest));
    }
    let (name, rest) = word(text)?;
    let name = name.to_owned();
    let rest = rest.trim_start();
    let value = |rest: &str| -> (String, usize) {
        let rest_trimmed = rest.trim_start();
        let found = word(rest_trimmed).map_or("", |(found, _)| found);
        (found.to_owned(), rest.len() - rest_trimmed.len() + found.len())
    };
    for (operator, is_in) in [("notin", false), ("in", true)] {
        let Some(after) = rest.strip_prefix(operator) else { continue };
        let (values, after) = after.trim_start().strip_prefix('(')?.split_once(')')?;
        let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
        let requirement =
            if is_in { LabelRequirement::In(name, values) } else { LabelRequirement::NotIn(name, values) };
        return Some((requirement, after));
    }
    for (operator, equals) in [("==", true), ("!=", false), ("=", true)] {
        let Some(after) = rest.strip_prefix(operator) else { continue };
        let (value, used) = value(after);
        let values = vec![value];
        let requirement =
            if equals { LabelRequirement::In(name, values) } else { LabelRequirement::NotIn(name, values) };
        return Some((requirement, after.get(used..)?));
    }
    for (operator, above) in [('>', true), ('<', false)] {
        let Some(after) = rest.strip_prefix(operator) else { continue };
        let (value, used) = value(after);
        return Some((LabelRequirement::Compared(name, above, value.parse().ok()?), after.get(used..)?));
    }
    Some((LabelRequirement::Exists(name), rest))
}

/// The label key or value at the start of a text.
fn word(text: &str) -> Option<(&str, &str)> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
    let end = text.find(|c: char| !is_part(c)).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selects(text: &str) -> Option<bool> {
        let labels = [("a", "1"), ("x.y/b", "two"), ("e", "")];
        let label = |name: &str| labels.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
        Some(LabelRequirements::parse(text)?.hold(label))
    }

    #[test]
    fn labels_are_selected_by_equality_and_by_sets() {
        for (text, want) in [
            ("", Some(true)),
            ("a=1", Some(true)),
            ("a==1,x.y/b=two", Some(true)),
            ("a=2", Some(false)),
            ("a!=2", Some(true)),
            ("c!=2", Some(true)),
            ("e=", Some(true)),
            ("e=,a=1", Some(true)),
            ("a in (1, 2)", Some(true)),
            ("a in (2),a", Some(false)),
            ("a notin (1,2)", Some(false)),
            ("c notin (1)", Some(true)),
            ("a , !c", Some(true)),
            ("!a", Some(false)),
            ("a>0,a<2", Some(true)),
            ("a>1", Some(false)),
            ("a>x", None),
            ("a=1,", None),
            ("a in 1", None),
            (",", None),
            ("a b", None),
            ("é", None),
        ] {
            assert_eq!(selects(text), want, "{text}");
        }
    }

    #[test]
    fn a_label_has_one_value_where_equality_requires_it() {
        for (text, want) in [
            ("a=1", Some("1")),
            ("b,a==1", Some("1")),
            ("a in (1)", Some("1")),
            ("a in (1,2),a=2", Some("2")),
            ("a=", Some("")),
            ("a in (1,2)", None),
            ("a!=1", None),
            ("a notin (1)", None),
            ("a", None),
            ("!a", None),
            ("a>1", None),
            ("b=1", None),
            ("", None),
        ] {
            let requirements = LabelRequirements::parse(text).unwrap();
            assert_eq!(requirements.value_of("a"), want, "{text}");
        }
    }
}
