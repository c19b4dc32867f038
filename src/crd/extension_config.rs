//! ExtensionConfigs: where Runtime Extensions are (RH-2.1 to RH-2.5).

use super::MACHINE_VERSION;
use super::blocks::{generations, label_selector};
use super::column::AGE;
use super::column::Column::{self, Always};
use super::resource::Resource;
use super::schema::{Schema, byte, int32, list, map_of, object, string};
use crate::wire::Shape::V1Beta2;

const GROUP: &str = "runtime.cluster.x-k8s.io";
/// A DNS label that starts with a letter.
const SERVICE: &str = "^[a-z]([-a-z0-9]*[a-z0-9])?$";
/// A DNS label.
const LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
/// Only HTTPS is spoken (RH-4.1).
const URL: &str = "^https://.+";

const COLUMNS: &[Column] = &[
    Always("Discovered", "string", r#".status.conditions[?(@.type=="Discovered")].status"#),
    Always("Paused", "string", r#".status.conditions[?(@.type=="Paused")].status"#),
    AGE,
];

pub(super) fn resource() -> Resource {
    Resource::new(GROUP, MACHINE_VERSION, "ExtensionConfig", spec())
        .short("ext")
        .of_cluster()
        .status(generations(V1Beta2, status(), object()))
        .columns(COLUMNS)
}

fn spec() -> Schema {
    object()
        .required("clientConfig", client_config())
        .optional("namespaceSelector", label_selector().default_to_empty())
        .optional("settings", map_of(string()).props(1..))
}

/// The addresses of an extension: its URL or its Service, one of both.
fn client_config() -> Schema {
    let service = object()
        .required("name", string().len(1..=63).matches(SERVICE))
        .required("namespace", string().len(1..=63).matches(LABEL))
        .optional("path", string().len(1..=512).matches("^/"))
        .optional("port", int32().value(1..=65535).default_to_number(443));
    object()
        .props(1..)
        .optional("caBundle", byte().len(1..=51200))
        .optional("service", service)
        .optional("url", string().len(1..=512).matches(URL))
        .rule("has(self.url) != has(self.service)", "set exactly one of url and service")
}

fn status() -> Schema {
    let hook = object().required("apiVersion", string().len(1..=512)).required("hook", string().len(1..=256));
    let handler = object()
        .required("name", string().len(1..=512))
        .required("requestHook", hook)
        .optional("timeoutSeconds", int32().value(0..))
        .optional("failurePolicy", string().one_of(&["Ignore", "Fail"]));
    object().props(1..).optional("handlers", list(handler).items(1..=512).map_by(&["name"]))
}
