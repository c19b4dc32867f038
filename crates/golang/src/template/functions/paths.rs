//! Paths with slashes: `base dir clean ext isAbs`, and the `os` forms, which are the same on Linux.

use super::super::context::RenderContext;
use super::super::error::RenderFailure;
use super::super::value::TemplateValue;
use super::Parameter::Text;
use super::{CallArguments, TemplateFunction};

pub(super) const FUNCTIONS: &[TemplateFunction] = &[
    TemplateFunction::new("base", &[Text], |context, arguments| made(context, arguments, base)),
    TemplateFunction::new("osBase", &[Text], |context, arguments| made(context, arguments, base)),
    TemplateFunction::new("dir", &[Text], |context, arguments| made(context, arguments, directory)),
    TemplateFunction::new("osDir", &[Text], |context, arguments| made(context, arguments, directory)),
    TemplateFunction::new("clean", &[Text], |context, arguments| made(context, arguments, clean)),
    TemplateFunction::new("osClean", &[Text], |context, arguments| made(context, arguments, clean)),
    TemplateFunction::new("ext", &[Text], |context, arguments| made(context, arguments, extension)),
    TemplateFunction::new("osExt", &[Text], |context, arguments| made(context, arguments, extension)),
    TemplateFunction::new("isAbs", &[Text], |_, arguments| Ok(arguments.text(0).starts_with('/').into())),
    TemplateFunction::new("osIsAbs", &[Text], |_, arguments| Ok(arguments.text(0).starts_with('/').into())),
];

fn made<'a>(
    context: &mut RenderContext<'a>,
    arguments: &CallArguments<'_, 'a>,
    path: fn(&str) -> String,
) -> Result<TemplateValue<'a>, RenderFailure> {
    context.text(path(arguments.text(0)))
}

fn base(path: &str) -> String {
    let trimmed = path.trim_end_matches('/');
    match trimmed.rsplit('/').next() {
        _ if path.is_empty() => ".".to_owned(),
        _ if trimmed.is_empty() => "/".to_owned(),
        last => last.unwrap_or_default().to_owned(),
    }
}

fn directory(path: &str) -> String {
    clean(path.rfind('/').map_or("", |slash| &path[..=slash]))
}

fn clean(path: &str) -> String {
    let is_absolute = path.starts_with('/');
    let mut kept: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if kept.last().is_some_and(|last| *last != "..") => {
                kept.pop();
            }
            ".." if is_absolute => {}
            part => kept.push(part),
        }
    }
    match (is_absolute, kept.is_empty()) {
        (true, _) => format!("/{}", kept.join("/")),
        (false, true) => ".".to_owned(),
        (false, false) => kept.join("/"),
    }
}

fn extension(path: &str) -> String {
    let last = path.rsplit('/').next().unwrap_or_default();
    last.rfind('.').map_or("", |dot| &last[dot..]).to_owned()
}
