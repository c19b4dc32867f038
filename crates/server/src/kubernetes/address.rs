//! The URLs of objects on an API server. The path of a request is built only here (DEC-45).
//!
//! ```text
//! apiVersion, kind, namespace, name ─► checked ─► Resource ─► Api, to list and watch
//!                                         │          └─► One, Requests: for one object, for those of a namespace
//!                                         └─► Malformed: no request is sent
//! ```
//!
//! The client puts the parts of a path together as they are. Most of them come from objects that tenants write, so each
//! part is checked before: none can leave its segment of the path. The response is compared with the request.

use std::fmt::Debug;

use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, EvictParams, GetParams, GroupVersionKind, ListParams, Patch,
    PatchParams, Portforward, Portforwarder, PostParams, Resource as _,
};
use kube::core::{DynamicResourceScope, PartialObjectMeta, Request, request};
use serde::Serialize;
use serde::de::DeserializeOwned;

use model::hub::naming::{dns_label_faults, kind_faults, resource_part_faults, subdomain_faults};
use model::hub::{Object, ObjectKey, ObjectRef, contract, group_of, version_of};
use model::world::Scope;
use schema::field::shortened;

/// The error of a text that cannot be a segment of a path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid object reference: {part} {:?} {fault}", shortened(.text))]
pub struct InvalidSegment {
    /// Which part of the URL it is.
    pub part: &'static str,
    pub text: String,
    pub fault: String,
}

/// The error of a response about another object than the requested one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the API server returned {found} instead of {wanted}")]
pub struct AnotherObject {
    pub wanted: String,
    pub found: String,
}

impl From<InvalidSegment> for kube::Error {
    fn from(error: InvalidSegment) -> Self {
        kube::Error::Service(error.into())
    }
}

impl From<AnotherObject> for kube::Error {
    fn from(error: AnotherObject) -> Self {
        kube::Error::Service(error.into())
    }
}

fn checked(part: &'static str, text: &str, faults: impl Fn(&str) -> Vec<String>) -> Result<(), InvalidSegment> {
    match faults(text) {
        faults if faults.is_empty() => Ok(()),
        faults => Err(InvalidSegment { part, text: shortened(text).into_owned(), fault: faults.join(", and ") }),
    }
}

/// Checks a namespace.
fn namespace(text: &str) -> Result<(), InvalidSegment> {
    checked("the namespace", text, dns_label_faults)
}

/// Checks a name. The API server accepts further names, of roles for instance; the kinds that are read have none of
/// them.
fn name(text: &str) -> Result<(), InvalidSegment> {
    checked("the name", text, subdomain_faults)
}

/// A version of a kind as an API server serves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource(ApiResource);

impl Resource {
    /// The kind of a reference; the plural is the one that the contract prescribes (CT-2.1). A core kind has no group.
    ///
    /// # Errors
    /// When group, version or kind cannot be a part of a path.
    pub fn new(group: &str, version: &str, kind: &str) -> Result<Self, InvalidSegment> {
        Self::with_plural(group, version, kind, &contract::plural(kind))
    }

    /// The kind of an `apiVersion`.
    ///
    /// # Errors
    /// When group, version or kind cannot be a part of a path.
    pub fn from_api_version(api_version: &str, kind: &str) -> Result<Self, InvalidSegment> {
        if api_version.starts_with('/') {
            return Err(InvalidSegment {
                part: "the apiVersion",
                text: shortened(api_version).into_owned(),
                fault: "must be <group>/<version>".to_owned(),
            });
        }
        Self::new(group_of(api_version), version_of(api_version), kind)
    }

    /// A kind that the program defines; nothing of it comes from an object.
    pub fn known(group: &'static str, version: &'static str, kind: &'static str) -> Self {
        let plural = contract::plural(kind);
        Resource(ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), &plural))
    }

    fn with_plural(group: &str, version: &str, kind: &str, plural: &str) -> Result<Self, InvalidSegment> {
        if !group.is_empty() {
            checked("the group", group, subdomain_faults)?;
        }
        checked("the version", version, resource_part_faults)?;
        checked("the kind", kind, kind_faults)?;
        checked("the plural", plural, resource_part_faults)?;
        let kind = GroupVersionKind::gvk(group, version, kind);
        Ok(Resource(ApiResource::from_gvk_with_plural(&kind, plural)))
    }

    /// The kind as a type of the client.
    pub fn as_api(&self) -> &ApiResource {
        &self.0
    }

    /// The objects of the kind, in one namespace or in all.
    ///
    /// # Errors
    /// When the namespace cannot be a part of a path.
    pub fn api<K>(&self, client: kube::Client, namespace: Option<&str>) -> Result<Api<K>, InvalidSegment>
    where
        K: kube::Resource<Scope = DynamicResourceScope, DynamicType = ApiResource>,
    {
        match namespace {
            Some(one) => {
                self::namespace(one)?;
                Ok(Api::namespaced_with(client, one, &self.0))
            }
            None => Ok(Api::all_with(client, &self.0)),
        }
    }

    /// The objects of the kind in the scope of an installation. The namespaces of a [`Scope`] are valid.
    pub(crate) fn in_scope<K>(&self, client: kube::Client, scope: &Scope) -> Api<K>
    where
        K: kube::Resource<Scope = DynamicResourceScope, DynamicType = ApiResource>,
    {
        match scope.only_namespace() {
            Some(one) => Api::namespaced_with(client, one, &self.0),
            None => Api::all_with(client, &self.0),
        }
    }

    /// The objects of the kind in all namespaces.
    pub fn anywhere<K>(&self, client: kube::Client) -> Api<K>
    where
        K: kube::Resource<Scope = DynamicResourceScope, DynamicType = ApiResource>,
    {
        Api::all_with(client, &self.0)
    }

    /// One object of the kind.
    ///
    /// # Errors
    /// When namespace or name cannot be a part of a path.
    pub fn one<K>(&self, client: kube::Client, key: &ObjectKey) -> Result<ObjectApi<K>, InvalidSegment>
    where
        K: kube::Resource<Scope = DynamicResourceScope, DynamicType = ApiResource>,
    {
        name(&key.name)?;
        let what = format!("{} {key}", self.0.kind);
        Ok(ObjectApi { api: self.api(client, Some(&key.namespace))?, key: key.clone(), what })
    }

    /// One object of the kind, which has no namespace.
    ///
    /// # Errors
    /// When the name cannot be a part of a path.
    pub fn one_of_cluster<K>(&self, client: kube::Client, name: &str) -> Result<ObjectApi<K>, InvalidSegment>
    where
        K: kube::Resource<Scope = DynamicResourceScope, DynamicType = ApiResource>,
    {
        self::name(name)?;
        let what = format!("{} {name}", self.0.kind);
        Ok(ObjectApi { api: self.anywhere(client), key: ObjectKey::new("", name), what })
    }

    /// Requests for the objects of the kind in a namespace.
    ///
    /// # Errors
    /// When the namespace cannot be a part of a path.
    pub fn requests(&self, namespace: &str) -> Result<ObjectRequests, InvalidSegment> {
        self::namespace(namespace)?;
        let resource = self.0.clone();
        let request = Request::new(DynamicObject::url_path(&resource, Some(namespace)));
        Ok(ObjectRequests { resource, namespace: namespace.to_owned(), request })
    }

    /// Requests for the objects of the kind in all namespaces.
    pub(super) fn everywhere(&self) -> ObjectRequests {
        let resource = self.0.clone();
        let request = Request::new(DynamicObject::url_path(&resource, None));
        ObjectRequests { resource, namespace: String::new(), request }
    }
}

/// The objects of a known kind in the scope of an installation.
pub(crate) fn in_scope<K>(client: kube::Client, scope: &Scope) -> Api<K>
where
    K: kube::Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
{
    match scope.only_namespace() {
        Some(one) => Api::namespaced(client, one),
        None => Api::all(client),
    }
}

/// The objects of a kind that the program defines, in all namespaces.
pub(crate) fn anywhere<K: kube::Resource<DynamicType = ()>>(client: kube::Client) -> Api<K> {
    Api::all(client)
}

/// The objects of a known kind in one namespace.
///
/// # Errors
/// When the namespace cannot be a part of a path.
pub(super) fn in_namespace<K>(client: kube::Client, one: &str) -> Result<Api<K>, InvalidSegment>
where
    K: kube::Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
{
    namespace(one)?;
    Ok(Api::namespaced(client, one))
}

/// One object of a kind that the program defines.
///
/// # Errors
/// When namespace or name cannot be a part of a path.
pub(crate) fn one<K>(client: kube::Client, key: &ObjectKey) -> Result<ObjectApi<K>, InvalidSegment>
where
    K: kube::Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
{
    namespace(&key.namespace)?;
    name(&key.name)?;
    let what = format!("{} {key}", K::kind(&()));
    Ok(ObjectApi { api: Api::namespaced(client, &key.namespace), key: key.clone(), what })
}

/// One object, of a kind that the program defines, which has no namespace.
///
/// # Errors
/// When the name cannot be a part of a path.
pub fn one_of_cluster<K>(client: kube::Client, name: &str) -> Result<ObjectApi<K>, InvalidSegment>
where
    K: kube::Resource<Scope = ClusterResourceScope, DynamicType = ()>,
{
    self::name(name)?;
    let what = format!("{} {name}", K::kind(&()));
    Ok(ObjectApi { api: Api::all(client), key: ObjectKey::new("", name), what })
}

/// The path to the Nodes of a cluster, or to one of them.
///
/// # Errors
/// When the name cannot be a part of a path.
pub(super) fn nodes(one: Option<&str>) -> Result<String, InvalidSegment> {
    match one {
        Some(one) => {
            name(one)?;
            Ok(format!("/api/v1/nodes/{one}"))
        }
        None => Ok("/api/v1/nodes".to_owned()),
    }
}

/// A client for one object, whose namespace and name are valid segments. It checks that each response is about this
/// object.
#[derive(Clone, Debug)]
pub struct ObjectApi<K> {
    api: Api<K>,
    key: ObjectKey,
    what: String,
}

impl<K: kube::Resource + Clone + DeserializeOwned + Debug> ObjectApi<K> {
    /// The object, if there is one.
    ///
    /// # Errors
    /// When it cannot be read, or the answer is about another.
    pub async fn get_opt(&self) -> kube::Result<Option<K>> {
        let found = self.api.get_opt(&self.key.name).await?;
        found.map(|found| self.checked(found)).transpose()
    }

    /// The metadata of the object, if there is one.
    ///
    /// # Errors
    /// When it cannot be read, or the answer is about another.
    pub(crate) async fn get_metadata_opt(&self) -> kube::Result<Option<PartialObjectMeta<K>>> {
        let Some(found) = self.api.get_metadata_opt(&self.key.name).await? else { return Ok(None) };
        self.check(found.metadata.namespace.as_deref(), found.metadata.name.as_deref())?;
        Ok(Some(found))
    }

    /// Creates the object with the checked namespace and name.
    ///
    /// # Errors
    /// When it is not created, or the answer is about another.
    pub async fn create(&self, params: &PostParams, object: &K) -> kube::Result<K>
    where
        K: Serialize,
    {
        self.checked(self.api.create(params, object).await?)
    }

    /// Changes the object.
    ///
    /// # Errors
    /// When it is not changed, or the answer is about another.
    pub async fn patch<P: Serialize + Debug>(&self, params: &PatchParams, patch: &Patch<P>) -> kube::Result<K> {
        self.checked(self.api.patch(&self.key.name, params, patch).await?)
    }

    /// Changes the status of the object.
    ///
    /// # Errors
    /// When it is not changed, or the answer is about another.
    pub async fn patch_status<P: Serialize + Debug>(&self, params: &PatchParams, patch: &Patch<P>) -> kube::Result<K> {
        self.checked(self.api.patch_status(&self.key.name, params, patch).await?)
    }

    /// Streams to a port of the object.
    ///
    /// # Errors
    /// When it does not exist, or the API server does not allow it.
    pub(super) async fn portforward(&self, port: u16) -> kube::Result<Portforwarder>
    where
        K: Portforward,
    {
        self.api.portforward(&self.key.name, &[port]).await
    }

    fn checked(&self, found: K) -> kube::Result<K> {
        let metadata = found.meta();
        self.check(metadata.namespace.as_deref(), metadata.name.as_deref())?;
        Ok(found)
    }

    fn check(&self, namespace: Option<&str>, name: Option<&str>) -> Result<(), AnotherObject> {
        let found = ObjectKey::new(namespace.unwrap_or_default(), name.unwrap_or_default());
        if found == self.key {
            return Ok(());
        }
        Err(AnotherObject { wanted: self.what.clone(), found: found.to_string() })
    }
}

/// Requests for the objects of a kind in a namespace, both of which are valid segments.
#[derive(Clone, Debug)]
pub struct ObjectRequests {
    resource: ApiResource,
    namespace: String,
    request: Request,
}

/// Kinds of the core group without a namespace that may be written.
const IN_NO_NAMESPACE: [&str; 2] = ["Namespace", "Node"];

/// A request that can be sent.
type RequestResult = Result<http::Request<Vec<u8>>, kube::Error>;

impl ObjectRequests {
    /// Requests for the objects of a reference or selection.
    ///
    /// # Errors
    /// When one of its parts cannot be a part of a path.
    pub fn for_kind(api_version: &str, kind: &str, namespace: &str) -> Result<Self, InvalidSegment> {
        Resource::from_api_version(api_version, kind)?.requests(namespace)
    }

    /// Requests for the object of a reference.
    ///
    /// # Errors
    /// When one of its parts cannot be a part of a path.
    pub fn to(reference: &ObjectRef) -> Result<Self, InvalidSegment> {
        let ObjectRef { api_version, kind, key } = reference;
        let known = IN_NO_NAMESPACE.into_iter().find(|known| *known == kind).filter(|_| api_version == "v1");
        if let Some(known) = known.filter(|_| key.namespace.is_empty()) {
            return Ok(Resource::known("", "v1", known).everywhere());
        }
        Self::for_kind(&reference.api_version, &reference.kind, &reference.key.namespace)
    }

    /// Requests for objects, of a kind that the program defines, which have no namespace.
    pub(super) fn cluster_scoped<K: kube::Resource<Scope = ClusterResourceScope, DynamicType = ()>>() -> Self {
        let resource = ApiResource::erase::<K>(&());
        ObjectRequests { resource, namespace: String::new(), request: Request::new(K::url_path(&(), None)) }
    }

    pub(super) fn get_metadata(&self, name: &str) -> RequestResult {
        self.named(name, |request| request.get_metadata(name, &GetParams::default()))
    }

    pub(super) fn get(&self, name: &str) -> RequestResult {
        self.named(name, |request| request.get(name, &GetParams::default()))
    }

    pub(super) fn patch<P: Serialize + Debug>(
        &self,
        name: &str,
        params: &PatchParams,
        patch: &Patch<P>,
    ) -> RequestResult {
        self.named(name, |request| request.patch(name, params, patch))
    }

    pub(super) fn patch_status<P: Serialize + Debug>(
        &self,
        name: &str,
        params: &PatchParams,
        patch: &Patch<P>,
    ) -> RequestResult {
        self.named(name, |request| request.patch_subresource("status", name, params, patch))
    }

    pub(super) fn evict(&self, name: &str, grace: Option<u32>) -> RequestResult {
        let delete_options = grace.map(|seconds| DeleteParams::default().grace_period(seconds));
        let params = EvictParams { delete_options, ..EvictParams::default() };
        self.named(name, |request| request.evict(name, &params))
    }

    pub(super) fn delete(&self, name: &str, params: &DeleteParams) -> RequestResult {
        self.named(name, |request| request.delete(name, params))
    }

    /// Creates an object, whose name is only in its body.
    pub(super) fn create(&self, name: &str, params: &PostParams, body: Vec<u8>) -> RequestResult {
        self.named(name, |request| request.create(params, body))
    }

    pub(super) fn list(&self, params: &ListParams) -> RequestResult {
        self.request.list(params).map_err(kube::Error::BuildRequest)
    }

    pub(super) fn list_metadata(&self, params: &ListParams) -> RequestResult {
        self.request.list_metadata(params).map_err(kube::Error::BuildRequest)
    }

    fn named(
        &self,
        name: &str,
        build: impl FnOnce(&Request) -> Result<http::Request<Vec<u8>>, request::Error>,
    ) -> RequestResult {
        self::name(name)?;
        build(&self.request).map_err(kube::Error::BuildRequest)
    }

    /// Checks that an object of a list is a requested one. A list of a built-in kind has no kind in its objects;
    /// metadata has a separate kind.
    pub(super) fn checked(&self, found: Object) -> Result<Object, AnotherObject> {
        let (api_version, kind) = (found.api_version(), found.kind());
        let is_of_kind = (api_version, kind) == (&*self.resource.api_version, &*self.resource.kind)
            || (api_version, kind) == METADATA
            || (api_version.is_empty() && kind.is_empty());
        if is_of_kind && found.namespace() == self.namespace && !found.name().is_empty() {
            return Ok(found);
        }
        let ApiResource { api_version, kind, .. } = &self.resource;
        let wanted = format!("{kind} of {api_version} in namespace {:?}", self.namespace);
        Err(AnotherObject { wanted, found: described(&found.reference()) })
    }
}

/// The kind of an object of which only the metadata was requested.
const METADATA: (&str, &str) = ("meta.k8s.io/v1", "PartialObjectMetadata");

/// The requested object: checks version, kind, namespace and name.
///
/// # Errors
/// When it is another.
pub(super) fn answered(wanted: &ObjectRef, found: Object) -> Result<Object, AnotherObject> {
    answers(wanted, &found).map(|()| found)
}

/// Checks that an object is the requested one.
///
/// # Errors
/// When it is another.
pub(super) fn answers(wanted: &ObjectRef, found: &Object) -> Result<(), AnotherObject> {
    let ObjectRef { api_version, kind, key } = wanted;
    let is_of_kind = (found.api_version(), found.kind()) == (&**api_version, &**kind);
    if is_of_kind && (found.namespace(), found.name()) == (&*key.namespace, &*key.name) {
        return Ok(());
    }
    Err(AnotherObject { wanted: described(wanted), found: described(&found.reference()) })
}

fn described(reference: &ObjectRef) -> String {
    format!("{reference} of {:?}", shortened(&reference.api_version))
}

/// The definition of which only the metadata was requested.
///
/// # Errors
/// When it is another.
pub(super) fn answered_definition(wanted: &str, found: Object) -> Result<Object, AnotherObject> {
    if found.name() == wanted && found.namespace().is_empty() {
        return Ok(found);
    }
    let wanted = format!("CustomResourceDefinition {wanted}");
    Err(AnotherObject { wanted, found: described(&found.reference()) })
}

#[cfg(test)]
mod tests;
