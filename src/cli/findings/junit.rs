//! Findings as a report of JUnit: one test case for each object, which fails with its errors.

use std::collections::BTreeMap;
use std::io;

use quick_xml::Writer;
use quick_xml::events::BytesText;

use super::{Finding, FindingObject};
use schema::field::{Level, plain};

/// The test cases of the judged objects, and of others with findings.
pub(super) fn suites(findings: &[Finding], judged: &[FindingObject]) -> io::Result<String> {
    let mut cases: BTreeMap<&FindingObject, Vec<&Finding>> = judged.iter().map(|object| (object, Vec::new())).collect();
    findings.iter().for_each(|finding| cases.entry(&finding.object).or_default().push(finding));
    let failed = cases.values().filter(|case| case.iter().any(|finding| finding.severity == Level::Error)).count();
    let counts = [("tests", cases.len().to_string()), ("failures", failed.to_string())];
    let counts = || counts.iter().map(|(name, count)| (*name, count.as_str()));
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
    writer.create_element("testsuites").with_attributes(counts()).write_inner_content(|writer| {
        let suite = writer.create_element("testsuite").with_attribute(("name", "topologist"));
        suite.with_attributes(counts()).write_inner_content(|writer| {
            cases.iter().try_for_each(|(object, findings)| write_case(writer, object, findings))
        })?;
        Ok(())
    })?;
    let xml =
        String::from_utf8(writer.into_inner()).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    Ok(format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{xml}\n"))
}

fn write_case(writer: &mut Writer<Vec<u8>>, object: &FindingObject, findings: &[&Finding]) -> io::Result<()> {
    let name = characters(&object.title());
    let file = findings.iter().find_map(|finding| finding.place.as_ref()).map(|place| characters(&place.file));
    let case = writer.create_element("testcase").with_attribute(("classname", &*characters(&object.kind)));
    let case = case.with_attribute(("name", &*name));
    let case = match &file {
        Some(file) => case.with_attribute(("file", &**file)),
        None => case,
    };
    let of = |level: Level| findings.iter().filter(move |finding| finding.severity == level);
    if findings.is_empty() {
        case.write_empty()?;
        return Ok(());
    }
    case.write_inner_content(|writer| {
        for error in of(Level::Error) {
            let failure = writer.create_element("failure").with_attribute(("type", error.id));
            let message = characters(&error.message);
            failure
                .with_attribute(("message", &*message))
                .write_text_content(BytesText::new(&characters(&error.line())))?;
        }
        let warnings: Vec<String> = of(Level::Warning).map(|warning| characters(&warning.line())).collect();
        if !warnings.is_empty() {
            writer.create_element("system-out").write_text_content(BytesText::new(&warnings.join("\n")))?;
        }
        Ok(())
    })?;
    Ok(())
}

/// A text as XML may contain it.
fn characters(text: &str) -> String {
    plain(text).replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}")
}
