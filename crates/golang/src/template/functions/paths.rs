//! Paths with slashes: `base dir clean ext isAbs`, and the `os` forms, which are the same on Linux.

use super::super::context::Context;
use super::super::error::Failure;
use super::super::value::Value;
use super::Parameter::Text;
use super::{Arguments, Function};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("base", &[Text], |context, arguments| made(context, arguments, base)),
    Function::new("osBase", &[Text], |context, arguments| made(context, arguments, base)),
    Function::new("dir", &[Text], |context, arguments| made(context, arguments, directory)),
    Function::new("osDir", &[Text], |context, arguments| made(context, arguments, directory)),
    Function::new("clean", &[Text], |context, arguments| made(context, arguments, clean)),
    Function::new("osClean", &[Text], |context, arguments| made(context, arguments, clean)),
    Function::new("ext", &[Text], |context, arguments| made(context, arguments, extension)),
    Function::new("osExt", &[Text], |context, arguments| made(context, arguments, extension)),
    Function::new("isAbs", &[Text], |_, arguments| Ok(arguments.text(0).starts_with('/').into())),
    Function::new("osIsAbs", &[Text], |_, arguments| Ok(arguments.text(0).starts_with('/').into())),
];

fn made<'a>(
    context: &mut Context<'a>,
    arguments: &Arguments<'_, 'a>,
    path: fn(&str) -> String,
) -> Result<Value<'a>, Failure> {
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
