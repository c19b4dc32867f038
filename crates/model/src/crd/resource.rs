//! Builder for definitions of kinds with a separate schema: in one version without conversion, or with an older
//! version.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::column::Column;
use super::schema::{SchemaBuilder, object, string};
use super::{conversion, descriptions};
use crate::hub::contract::{definition_name, plural};

/// The contract of all these kinds (CT-3.1).
const CONTRACT: &str = "cluster.x-k8s.io/v1beta2";
/// The contract of the older version of a kind (CT-3.2).
const OLDER_CONTRACT: &str = "cluster.x-k8s.io/v1beta1";

/// Paths of the replica counts for the scale subresource.
const REPLICAS: (&str, &str) = (".spec.replicas", ".status.replicas");
const SELECTOR: &str = ".status.selector";

/// The scale subresource, by which replicas can be read and set without knowledge of the kind.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ScaleSubresource {
    No,
    Replicas,
    /// With the label selector of the counted objects, which autoscalers need (CT-10.2).
    Selected,
}

/// A kind in a version.
pub(super) struct CrdBuilder {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    is_namespaced: bool,
    short_name: Option<&'static str>,
    spec: SchemaBuilder,
    status: Option<SchemaBuilder>,
    scale: ScaleSubresource,
    columns: &'static [Column],
    /// The kind in the older contract, which is served and not stored.
    older: Option<Box<CrdBuilder>>,
}

impl CrdBuilder {
    pub(super) fn new(group: &'static str, version: &'static str, kind: &'static str, spec: SchemaBuilder) -> Self {
        let (short_name, status, scale, columns, older) = (None, None, ScaleSubresource::No, [].as_slice(), None);
        CrdBuilder { group, version, kind, is_namespaced: true, short_name, spec, status, scale, columns, older }
    }

    /// Makes the kind cluster-scoped.
    pub(super) fn cluster_scoped(mut self) -> Self {
        self.is_namespaced = false;
        self
    }

    pub(super) fn short(mut self, name: &'static str) -> Self {
        self.short_name = Some(name);
        self
    }

    /// Adds a status subresource.
    pub(super) fn status(mut self, status: SchemaBuilder) -> Self {
        self.status = Some(status);
        self
    }

    pub(super) fn scale(mut self, scale: ScaleSubresource) -> Self {
        self.scale = scale;
        self
    }

    pub(super) fn columns(mut self, columns: &'static [Column]) -> Self {
        self.columns = columns;
        self
    }

    /// Adds the version of the older contract, which is converted from and to this one.
    pub(super) fn older(mut self, older: CrdBuilder) -> Self {
        self.older = Some(Box::new(older));
        self
    }

    /// The CustomResourceDefinition: named by CT-2.1, each version labelled with its contract (CT-3.2, CT-3.3).
    pub(super) fn definition(mut self) -> Value {
        let CrdBuilder { group, version, kind, .. } = self;
        let mut names = json!({
            "kind": kind,
            "listKind": format!("{kind}List"),
            "plural": plural(kind),
            "singular": kind.to_lowercase(),
            "categories": ["cluster-api"],
        });
        if let Some(name) = self.short_name {
            names["shortNames"] = json!([name]);
        }
        let name = definition_name(group, kind);
        let scope = if self.is_namespaced { "Namespaced" } else { "Cluster" };
        let mut labels = BTreeMap::from([(CONTRACT, version)]);
        let mut spec = json!({"group": group, "names": names, "scope": scope});
        let older = self.older.take();
        let mut versions = vec![self.into_version()];
        if let Some(older) = older {
            labels.insert(OLDER_CONTRACT, older.version);
            spec["conversion"] = conversion();
            versions.push(older.into_older_version());
        }
        spec["versions"] = Value::Array(versions);
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": name, "labels": labels},
            "spec": spec,
        })
    }

    /// The `openAPIV3Schema`.
    pub(super) fn into_schema(self) -> Value {
        let mut schema = object()
            .optional("apiVersion", string())
            .optional("kind", string())
            .optional("metadata", object())
            .required("spec", self.spec);
        if let Some(status) = self.status {
            schema = schema.optional("status", status);
        }
        schema.into()
    }

    fn into_version(self) -> Value {
        let columns = self.columns.iter().map(Column::definition).collect();
        self.version(columns)
    }

    fn into_older_version(self) -> Value {
        let columns = self.columns.iter().map(Column::older).collect();
        let mut version = self.version(columns);
        version["storage"] = json!(false);
        version
    }

    fn version(self, columns: Vec<Value>) -> Value {
        let subresources = self.subresources();
        let (name, kind) = (self.version, self.kind);
        let mut schema = self.into_schema();
        descriptions::describe(kind, &mut schema);
        let mut version = json!({
            "name": name, "served": true, "storage": true,
            "schema": {"openAPIV3Schema": schema},
            "additionalPrinterColumns": columns,
        });
        if subresources != json!({}) {
            version["subresources"] = subresources;
        }
        version
    }

    fn subresources(&self) -> Value {
        let mut subresources = json!({});
        if self.status.is_some() {
            subresources["status"] = json!({});
        }
        if self.scale != ScaleSubresource::No {
            let (spec, status) = REPLICAS;
            subresources["scale"] = json!({"specReplicasPath": spec, "statusReplicasPath": status});
        }
        if self.scale == ScaleSubresource::Selected {
            subresources["scale"]["labelSelectorPath"] = json!(SELECTOR);
        }
        subresources
    }
}
