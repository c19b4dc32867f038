//! Unicode classes: `\pL`, `\p{Greek}`, `\P{^Lu}`.
//!
//! Go knows general categories, scripts, and `Any`, `Assigned`, `ASCII`; it has neither the other properties nor
//! prefixes such as `Is` or `sc=`. Names are compared without case, spaces, underscores and hyphens. The characters
//! come from the tables of the `regex` crate, whose Unicode edition is newer than Go's.

use super::emit::{NOTHING, Read};
use super::error::{RegexError, SyntaxErrorKind};

/// Reads the Unicode class at the start of `text`, which is `\p` or `\P`.
pub(super) fn property(text: &str) -> Result<Read<'_>, RegexError> {
    let (name, rest) = split_name(&text[2..]).ok_or_else(|| SyntaxErrorKind::CharacterRange.at(text))?;
    let (caret, name) = name.strip_prefix('^').map_or((false, name), |name| (true, name));
    let class = translated(name).ok_or_else(|| SyntaxErrorKind::CharacterRange.between(text, rest))?;
    let negated = text.starts_with(r"\P") != caret;
    Ok((format!("[{}{class}]", if negated { "^" } else { "" }), rest))
}

/// The name in braces or of one letter, and what follows; `None` if the brace is not closed.
fn split_name(text: &str) -> Option<(&str, &str)> {
    match text.strip_prefix('{') {
        Some(braced) => braced.split_once('}'),
        None => Some(text.split_at(text.chars().next().map_or(0, char::len_utf8))),
    }
}

/// The class in the syntax of the `regex` crate, if Go has a class of this name.
fn translated(name: &str) -> Option<String> {
    let name = name.replace(['_', '-', ' '], "").to_ascii_lowercase();
    match name.as_str() {
        "any" | "ascii" | "assigned" => Some(format!(r"\p{{{name}}}")),
        "cs" | "surrogate" => Some(NOTHING.to_string()),
        _ if CATEGORIES.binary_search(&name.as_str()).is_ok() => Some(format!(r"\p{{gc={name}}}")),
        _ if SCRIPTS.binary_search(&name.as_str()).is_ok() => Some(format!(r"\p{{sc={name}}}")),
        _ => None,
    }
}

/// General categories, short and long.
#[rustfmt::skip]
const CATEGORIES: [&str; 80] = [
    "c", "casedletter", "cc", "cf", "closepunctuation", "cn", "cntrl", "co", "combiningmark",
    "connectorpunctuation", "control", "cs", "currencysymbol", "dashpunctuation", "decimalnumber", "digit",
    "enclosingmark", "finalpunctuation", "format", "initialpunctuation", "l", "lc", "letter", "letternumber",
    "lineseparator", "ll", "lm", "lo", "lowercaseletter", "lt", "lu", "m", "mark", "mathsymbol", "mc", "me",
    "mn", "modifierletter", "modifiersymbol", "n", "nd", "nl", "no", "nonspacingmark", "number",
    "openpunctuation", "other", "otherletter", "othernumber", "otherpunctuation", "othersymbol", "p",
    "paragraphseparator", "pc", "pd", "pe", "pf", "pi", "po", "privateuse", "ps", "punct", "punctuation", "s",
    "sc", "separator", "sk", "sm", "so", "spaceseparator", "spacingmark", "surrogate", "symbol",
    "titlecaseletter", "unassigned", "uppercaseletter", "z", "zl", "zp", "zs",
];

/// Scripts of Unicode 15.
#[rustfmt::skip]
const SCRIPTS: [&str; 163] = [
    "adlam", "ahom", "anatolianhieroglyphs", "arabic", "armenian", "avestan", "balinese", "bamum", "bassavah",
    "batak", "bengali", "bhaiksuki", "bopomofo", "brahmi", "braille", "buginese", "buhid", "canadianaboriginal",
    "carian", "caucasianalbanian", "chakma", "cham", "cherokee", "chorasmian", "common", "coptic", "cuneiform",
    "cypriot", "cyprominoan", "cyrillic", "deseret", "devanagari", "divesakuru", "dogra", "duployan",
    "egyptianhieroglyphs", "elbasan", "elymaic", "ethiopic", "georgian", "glagolitic", "gothic", "grantha",
    "greek", "gujarati", "gunjalagondi", "gurmukhi", "han", "hangul", "hanifirohingya", "hanunoo", "hatran",
    "hebrew", "hiragana", "imperialaramaic", "inherited", "inscriptionalpahlavi", "inscriptionalparthian",
    "javanese", "kaithi", "kannada", "katakana", "kawi", "kayahli", "kharoshthi", "khitansmallscript", "khmer",
    "khojki", "khudawadi", "lao", "latin", "lepcha", "limbu", "lineara", "linearb", "lisu", "lycian", "lydian",
    "mahajani", "makasar", "malayalam", "mandaic", "manichaean", "marchen", "masaramgondi", "medefaidrin",
    "meeteimayek", "mendekikakui", "meroiticcursive", "meroitichieroglyphs", "miao", "modi", "mongolian", "mro",
    "multani", "myanmar", "nabataean", "nagmundari", "nandinagari", "newa", "newtailue", "nko", "nushu",
    "nyiakengpuachuehmong", "ogham", "olchiki", "oldhungarian", "olditalic", "oldnortharabian", "oldpermic",
    "oldpersian", "oldsogdian", "oldsoutharabian", "oldturkic", "olduyghur", "oriya", "osage", "osmanya",
    "pahawhhmong", "palmyrene", "paucinhau", "phagspa", "phoenician", "psalterpahlavi", "rejang", "runic",
    "samaritan", "saurashtra", "sharada", "shavian", "siddham", "signwriting", "sinhala", "sogdian",
    "sorasompeng", "soyombo", "sundanese", "sylotinagri", "syriac", "tagalog", "tagbanwa", "taile", "taitham",
    "taiviet", "takri", "tamil", "tangsa", "tangut", "telugu", "thaana", "thai", "tibetan", "tifinagh",
    "tirhuta", "toto", "ugaritic", "vai", "vithkuqi", "wancho", "warangciti", "yezidi", "yi", "zanabazarsquare",
];
