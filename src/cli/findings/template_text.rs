//! Places in the texts of templates: messages name them as Go does, by line and column.

/// A range in a text. Lines count from 0, columns from 0 in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TextRange {
    pub line: usize,
    pub column: usize,
    pub length: usize,
}

/// The place in a template that a message is about: `template:2:46:` of an error, or the first use of a variable that the
/// template `refers to`.
pub(super) fn place_in_template(message: &str, template: &str) -> Option<TextRange> {
    let (line, column) = named(message).or_else(|| {
        let variable = message.split_once("refers to ")?.1.split([',', ' ']).next()?;
        let at = template.match_indices(variable).map(|(at, _)| at).find(|at| is_use(template, *at, variable.len()))?;
        let before = template.get(..at)?;
        Some((before.matches('\n').count(), before.len() - before.rfind('\n').map_or(0, |end| end + 1)))
    })?;
    let rest = template.split('\n').nth(line)?.get(column..)?;
    let length = rest.find(|letter: char| letter.is_whitespace() || "|(){}".contains(letter)).unwrap_or(rest.len());
    (length > 0).then_some(TextRange { line, column, length })
}

/// Whether the text at a place is a variable as a whole, in an action and in no comment.
fn is_use(template: &str, at: usize, length: usize) -> bool {
    let is_of_name = |letter: char| letter.is_alphanumeric() || letter == '_';
    let (Some(before), Some(after)) = (template.get(..at), template.get(at + length..)) else { return false };
    let action = before.rsplit_once("{{").map(|(_, action)| action).filter(|action| !action.contains("}}"));
    !before.ends_with(|letter: char| is_of_name(letter) || letter == '.' || letter == ')')
        && !after.starts_with(is_of_name)
        && action.is_some_and(|action| !action.contains("/*"))
}

/// Line and column of an error.
fn named(message: &str) -> Option<(usize, usize)> {
    message.split("template:").skip(1).find_map(|rest| {
        let mut numbers = rest.split(':');
        let (line, column): (usize, usize) = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
        Some((line.checked_sub(1)?, column))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_places() {
        let template = "- path: /a\n  content: {{ .builtin.cluster.name | frob }} {{- /* .zone */ -}}.zone{{ .a.zone .zone_x }}{{ \
                        .zone }}{{ .zones }}\n";
        let part = |message: &str| {
            let TextRange { line, column, length } = place_in_template(message, template)?;
            template.split('\n').nth(line)?.get(column..column + length)
        };
        let error = "patch: valueFrom.template: template:2:38: executing \"template\" at <frob>: wrong";
        assert_eq!(part(error), Some("frob"));
        assert_eq!(part("Invalid value: \"x\": template: template:2:38: function \"frob\" not defined"), Some("frob"));
        assert_eq!(part("the template refers to .zones, which the class does not define"), Some(".zones"));
        assert_eq!(part("the template refers to .zone, which"), Some(".zone"));
        let TextRange { column, .. } = place_in_template("refers to .zone, which", template).unwrap();
        assert_eq!(&template.lines().nth(1).unwrap()[column - 3..column], "{{ ", "neither a comment nor another name");
        for other in
            ["template: template:3:0: unexpected EOF", "template:0:0: a", "template:2:500: a", "refers to", "no"]
        {
            assert_eq!(part(other), None, "{other}");
        }
    }
}
