//! Types of values: `typeOf kindOf typeIs kindIs typeIsLike deepEqual`.

use super::Parameter::{Any, Text};
use super::TemplateFunction;
use super::comparison::deep_equal;

pub(super) const FUNCTIONS: &[TemplateFunction] = &[
    TemplateFunction::new("typeOf", &[Any], |context, arguments| Ok(context.heap.type_name(arguments.any(0)).into())),
    TemplateFunction::new("typeIs", &[Text, Any], |context, arguments| {
        Ok((context.heap.type_name(arguments.any(1)) == arguments.text(0)).into())
    }),
    TemplateFunction::new("typeIsLike", &[Text, Any], |context, arguments| {
        let name = context.heap.type_name(arguments.any(1));
        Ok((name == arguments.text(0) || name.strip_prefix('*') == Some(arguments.text(0))).into())
    }),
    TemplateFunction::new("kindOf", &[Any], |_, arguments| Ok(arguments.any(0).kind().into())),
    TemplateFunction::new("kindIs", &[Text, Any], |_, arguments| {
        Ok((arguments.any(1).kind() == arguments.text(0)).into())
    }),
    TemplateFunction::new("deepEqual", &[Any, Any], |context, arguments| {
        deep_equal(context, arguments.any(0), arguments.any(1), 0).map(Into::into)
    }),
];
