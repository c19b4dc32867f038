//! Places in the texts of templates, which messages name as templates of Go do.

/// A range in a text. Lines count from 0, columns from 0 in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TextRange {
    pub line: usize,
    pub column: usize,
    pub length: usize,
}

/// The place in a template that a message is about: `template:2:46:` of an error, or the first use of `refers to .name`.
pub(super) fn place_in_template(message: &str, template: &str) -> Option<TextRange> {
    let (line, column) = named(message).or_else(|| {
        let variable = message.split_once("refers to ")?.1.split([',', ' ']).next()?;
        let is_whole = |at: &usize| !template[at + variable.len()..].starts_with(|next: char| next.is_alphanumeric());
        let at = template.match_indices(variable).map(|(at, _)| at).find(is_whole)?;
        let before = template.get(..at)?;
        Some((before.matches('\n').count(), before.len() - before.rfind('\n').map_or(0, |end| end + 1)))
    })?;
    let rest = template.split('\n').nth(line)?.get(column..)?;
    let length = rest.find(|letter: char| letter.is_whitespace() || "|(){}".contains(letter)).unwrap_or(rest.len());
    (length > 0).then_some(TextRange { line, column, length })
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
        let template = "- path: /a\n  content: {{ .builtin.cluster.name | frob }} {{ .zone }}{{ .zones }}\n";
        let part = |message: &str| {
            let TextRange { line, column, length } = place_in_template(message, template)?;
            template.split('\n').nth(line)?.get(column..column + length)
        };
        let error = "patch: valueFrom.template: template:2:38: executing \"template\" at <frob>: wrong";
        assert_eq!(part(error), Some("frob"));
        assert_eq!(part("Invalid value: \"x\": template: template:2:38: function \"frob\" not defined"), Some("frob"));
        assert_eq!(part("the template refers to .zones, which the class does not define"), Some(".zones"));
        assert_eq!(part("the template refers to .zone, which"), Some(".zone"));
        for other in
            ["template: template:3:0: unexpected EOF", "template:0:0: a", "template:2:500: a", "refers to", "no"]
        {
            assert_eq!(part(other), None, "{other}");
        }
    }
}
