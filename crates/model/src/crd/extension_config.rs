//! ExtensionConfigs: addresses of Runtime Extensions (RH-2.1 to RH-2.5).

use serde_json::{Value, json};

use super::blocks::{generations, label_selector};
use super::column::AGE;
use super::column::Column::{self, Always};
use super::conversion;
use super::resource::CrdBuilder;
use super::schema::{SchemaBuilder, byte, int32, list, map_of, object, string};
use crate::wire::SchemaVersion::{self, V1Beta1, V1Beta2};
use crate::wire::conversion::extension_config::{GROUP, KIND};

/// A DNS label that starts with a letter.
const SERVICE: &str = "^[a-z]([-a-z0-9]*[a-z0-9])?$";
/// A DNS label.
const LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
/// Only HTTPS is supported (RH-4.1).
const URL: &str = "^https://.+";

const COLUMNS: &[Column] = &[
    Always("Discovered", "string", r#".status.conditions[?(@.type=="Discovered")].status"#),
    Always("Paused", "string", r#".status.conditions[?(@.type=="Paused")].status"#),
    AGE,
];
const OLD_COLUMNS: &[Column] =
    &[Always("Discovered", "string", r#".status.conditions[?(@.type=="Discovered")].status"#), AGE];

/// The definition with both versions.
pub(super) fn definition() -> Value {
    let mut definition = resource("v1beta2", V1Beta2, COLUMNS).definition();
    let mut older = resource("v1alpha1", V1Beta1, OLD_COLUMNS).definition()["spec"]["versions"][0].take();
    older["storage"] = json!(false);
    older["deprecated"] = json!(true);
    older["deprecationWarning"] = json!(format!("{GROUP}/v1alpha1 {KIND} is deprecated; use {GROUP}/v1beta2 {KIND}"));
    if let Some(versions) = definition["spec"]["versions"].as_array_mut() {
        versions.push(older);
    }
    definition["spec"]["conversion"] = conversion();
    definition
}

fn resource(version: &'static str, shape: SchemaVersion, columns: &'static [Column]) -> CrdBuilder {
    let status = match shape {
        V1Beta2 => generations(shape, status().props(1..), object()),
        V1Beta1 => generations(shape, object(), status()),
    };
    CrdBuilder::new(GROUP, version, KIND, spec()).short("ext").cluster_scoped().status(status).columns(columns)
}

fn spec() -> SchemaBuilder {
    object()
        .required("clientConfig", client_config())
        .optional("namespaceSelector", label_selector().default_to_empty())
        .optional("settings", map_of(string()))
}

/// The address of an extension: a URL or a Service.
fn client_config() -> SchemaBuilder {
    let service = object()
        .required("name", string().len(1..=63).matches(SERVICE))
        .required("namespace", string().len(1..=63).matches(LABEL))
        .optional("path", string().len(1..=512).matches("^/"))
        .optional("port", int32().value(1..=65535).default_to_number(443));
    object()
        .props(1..)
        .optional("caBundle", byte().len(..=51200))
        .optional("service", service)
        .optional("url", string().len(1..=512).matches(URL))
        .rule("has(self.url) != has(self.service)", "set exactly one of url and service")
}

fn status() -> SchemaBuilder {
    let hook = object().required("apiVersion", string().len(1..=512)).required("hook", string().len(1..=256));
    let handler = object()
        .required("name", string().len(1..=512))
        .required("requestHook", hook)
        .optional("timeoutSeconds", int32().value(0..))
        .optional("failurePolicy", string().one_of(&["Ignore", "Fail"]));
    object().optional("handlers", list(handler).items(..=512).map_by(&["name"]))
}
