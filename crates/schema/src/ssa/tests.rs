//! Applies and updates, in small and for made-up objects.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;

const VERSION: &str = "g/v1";
const THEN: &str = "2026-01-01T00:00:00Z";
const NOW: &str = "2026-01-01T00:00:07Z";

fn schema() -> MergeSchema {
    let text = json!({"type": "string"});
    let texts = json!({"type": "object", "additionalProperties": text});
    let entry = json!({"type": "object", "properties": {"name": text, "value": text, "texts": texts}});
    let spec = json!({"type": "object", "properties": {"a": text, "b": text, "texts": texts,
        "entries": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": entry},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": text},
        "list": {"type": "array", "items": text}}});
    MergeSchema::from_openapi(&json!({"type": "object", "properties": {"spec": spec, "status": texts}}))
}

fn object(spec: &Value) -> Value {
    json!({"apiVersion": VERSION, "kind": "K", "metadata": {"name": "n", "namespace": "ns"}, "spec": spec})
}

/// A stored object with its field owners.
#[derive(Clone, Debug, Default, PartialEq)]
struct StoredObject {
    object: Option<Value>,
    managers: Vec<ManagedFields>,
}

impl StoredObject {
    fn spec(&self) -> Value {
        self.object.as_ref().map(|object| object["spec"].clone()).unwrap_or_default()
    }

    /// Field owners as `manager operation fields`.
    fn owners(&self) -> Vec<String> {
        let shown = |entry: &ManagedFields| {
            format!("{} {} {}", entry.manager, entry.operation.as_str(), entry.fields.to_value()["f:spec"])
        };
        self.managers.iter().map(shown).collect()
    }

    fn try_apply(&self, manager: &str, spec: &Value, force: bool, now: &str) -> Result<(Self, bool), ApplyRefused> {
        let schema = schema();
        let request = ApplyRequest::new(manager, VERSION, now, &schema);
        let applied = apply(self.object.as_ref(), &self.managers, &object(spec), &request, force)?;
        Ok((StoredObject { object: Some(applied.object), managers: applied.managers }, applied.changed))
    }

    /// The object after a forced apply, if a server stores it: a server refuses a null left of an owned map whose
    /// entries were all removed.
    fn storable(&self, manager: &str, spec: &Value) -> Option<Self> {
        self.try_apply(manager, spec, true, THEN)
            .ok()
            .map(|(stored, _)| stored)
            .filter(|stored| !has_null(&stored.spec()))
    }

    fn applied(&self, manager: &str, spec: &Value) -> Self {
        self.try_apply(manager, spec, true, THEN).unwrap().0
    }

    fn updated(&self, manager: &str, spec: &Value, now: &str) -> Self {
        let (schema, object) = (schema(), object(spec));
        let request = ApplyRequest::new(manager, VERSION, now, &schema);
        let managers = update(self.object.as_ref(), &object, &self.managers, &request).unwrap();
        StoredObject { object: Some(object), managers }
    }
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(has_null),
        Value::Object(members) => members.values().any(has_null),
        _ => false,
    }
}

fn refusal(stored: &StoredObject, spec: &Value) -> String {
    stored.try_apply("new", spec, false, NOW).unwrap_err().to_string()
}

/// SSA-01
#[test]
fn a_field_of_another_manager_conflicts_unless_it_is_equal_or_forced() {
    let stored = StoredObject::default().applied("engine", &json!({"a": "1", "texts": {"k": "1"}}));
    let stored = stored.updated("kubectl-edit", &json!({"a": "1", "b": "2", "texts": {"k": "1"}}), THEN);
    assert_eq!(
        refusal(&stored, &json!({"b": "3"})),
        "Apply failed with 1 conflict: conflict with \"kubectl-edit\" using g/v1: .spec.b"
    );
    assert_eq!(
        refusal(&stored, &json!({"a": "3", "b": "3", "texts": {"k": "2"}})),
        "Apply failed with 3 conflicts: conflicts with \"engine\":\n- .spec.a\n- .spec.texts.k\n\
         conflicts with \"kubectl-edit\" using g/v1:\n- .spec.b"
    );
    let shared = stored.try_apply("new", &json!({"a": "1"}), false, NOW).unwrap().0;
    assert_eq!(
        shared.owners(),
        [
            r#"new Apply {"f:a":{}}"#,
            r#"engine Apply {"f:a":{},"f:texts":{"f:k":{}}}"#,
            r#"kubectl-edit Update {"f:b":{}}"#,
        ]
    );
    let taken = stored.try_apply("new", &json!({"a": "3", "b": "3"}), true, NOW).unwrap().0;
    assert_eq!(taken.owners(), [r#"engine Apply {"f:texts":{"f:k":{}}}"#, r#"new Apply {"f:a":{},"f:b":{}}"#]);
}

/// SSA-01, LBL-04
#[test]
fn a_field_that_is_no_longer_applied_is_removed_unless_another_manager_owns_it() {
    let mine = json!({"a": "1", "b": "1", "texts": {"k": "1", "l": "1"}, "set": ["x", "y"],
        "entries": [{"name": "p"}, {"name": "q"}]});
    let stored = StoredObject::default().applied("me", &mine);
    let theirs = json!({"b": "1", "texts": {"l": "1"}, "set": ["y"], "entries": [{"name": "q", "value": "v"}]});
    let both = stored.applied("them", &theirs);
    let left = both.applied("me", &json!({"list": []}));
    let mut want = theirs.clone();
    want["list"] = json!([]);
    assert_eq!(left.spec(), want);
    assert_eq!(stored.applied("me", &json!({"a": "1"})).spec(), json!({"a": "1"}));
}

/// SSA-01
#[test]
fn lists_that_are_merged_keep_their_order() {
    for (live, config, want) in [
        (json!(["a", "b", "c"]), json!(["x"]), json!(["a", "b", "c", "x"])),
        (json!(["a", "b", "c"]), json!(["c", "a", "x"]), json!(["b", "c", "a", "x"])),
        // Another order alone is no change.
        (json!(["a", "b", "c"]), json!(["c", "a"]), json!(["a", "b", "c"])),
        (json!(["a", "b", "c"]), json!(["a", "x", "b"]), json!(["a", "x", "b", "c"])),
        (json!(["a", "b"]), json!(["x", "b"]), json!(["a", "x", "b"])),
        (json!([]), json!(["b", "a"]), json!(["b", "a"])),
    ] {
        let stored = StoredObject::default().applied("me", &json!({"set": live}));
        assert_eq!(stored.applied("you", &json!({"set": config})).spec()["set"], want, "{live} {config}");
    }
}

#[test]
fn a_configuration_that_does_not_fit_is_refused() {
    for (spec, want) in [
        (json!({"entries": [{"name": "p"}, {"name": "p"}]}), ".spec.entries: duplicate entries for key [name=\"p\"]"),
        (json!({"set": ["x", "x"]}), ".spec.set: duplicate entries for key [=\"x\"]"),
        (
            json!({"entries": [{}]}),
            ".spec.entries: element 0: associative list with keys has an element that omits key field \"name\" \
             (and doesn't have default value)",
        ),
        (json!({"x": 1}), ".spec.x: field not declared in schema"),
        (json!({"a": {}}), ".spec.a: expected string, got &value.valueUnstructured{Value:map[string]interface {}{}}"),
        (
            json!({"x": 1, "y": 1}),
            "errors:\n  .spec.x: field not declared in schema\n  .spec.y: field not declared in schema",
        ),
    ] {
        assert_eq!(
            refusal(&StoredObject::default(), &spec),
            format!("failed to create typed patch object (ns/n; g/v1, Kind=K): {want}")
        );
    }
}

#[test]
fn null_removes_a_value_and_keeps_merged_members() {
    let stored = StoredObject::default().applied("me", &json!({"a": "1", "texts": {"k": "1"}, "list": ["x"]}));
    let nulled = stored.applied("you", &json!({"a": null, "texts": null, "list": null}));
    assert_eq!(nulled.spec(), json!({"a": null, "texts": {"k": "1"}, "list": null}));
    assert_eq!(
        nulled.owners(),
        [r#"me Apply {"f:texts":{"f:k":{}}}"#, r#"you Apply {"f:a":{},"f:list":{},"f:texts":{}}"#]
    );
}

#[test]
fn an_update_owns_the_fields_that_it_changes() {
    let stored = StoredObject::default().updated("maker", &json!({"a": "1", "b": "1", "texts": {"k": "1"}}), THEN);
    assert_eq!(stored.owners(), [r#"maker Update {".":{},"f:a":{},"f:b":{},"f:texts":{".":{},"f:k":{}}}"#]);
    let changed = stored.updated("editor", &json!({"a": "2", "texts": {"k": "1", "l": "1"}}), NOW);
    assert_eq!(
        changed.owners(),
        [r#"maker Update {".":{},"f:texts":{".":{},"f:k":{}}}"#, r#"editor Update {"f:a":{},"f:texts":{"f:l":{}}}"#,]
    );
    assert_eq!(changed.managers.iter().map(|entry| entry.time.as_deref()).collect::<Vec<_>>(), [Some(THEN), Some(NOW)]);
    let same = changed.updated("editor", &changed.spec(), "2027-01-01T00:00:00Z");
    assert_eq!(same, changed, "nothing changes, so no time does");
}

#[test]
fn fields_without_an_owner_belong_to_before_first_apply() {
    let unowned = StoredObject { object: Some(object(&json!({"a": "1", "b": "1"}))), managers: Vec::new() };
    assert_eq!(unowned.updated("me", &json!({"a": "2"}), NOW).managers, []);
    let (applied, changed) = unowned.try_apply("me", &json!({"a": "1"}), false, NOW).unwrap();
    assert_eq!(applied.owners(), [r#"me Apply {"f:a":{}}"#, r#"before-first-apply Update {".":{},"f:a":{},"f:b":{}}"#]);
    assert!(!changed && applied.managers[0].time.is_none() && applied.managers[1].time.as_deref() == Some(NOW));
    let conflict = unowned.try_apply("me", &json!({"a": "2"}), false, NOW).unwrap_err().to_string();
    assert!(conflict.ends_with("conflict with \"before-first-apply\" using g/v1: .spec.a"), "{conflict}");
}

#[test]
fn kubectl_takes_over_only_fields_that_it_applied() {
    let name = "kubectl.kubernetes.io/last-applied-configuration";
    let mut first = object(&json!({"a": "1", "b": "1"}));
    first["metadata"]["annotations"] = json!({name: object(&json!({"a": "1", "b": "0"})).to_string()});
    let schema = schema();
    let request = |manager| ApplyRequest::new(manager, VERSION, NOW, &schema);
    let managers = update(None, &first, &[], &request("kubectl-client-side-apply")).unwrap();
    let applied = |manager, spec| apply(Some(&first), &managers, &object(&spec), &request(manager), false);
    let taken = applied("kubectl", json!({"a": "<2>"})).unwrap();
    assert_eq!(taken.object["spec"], json!({"a": "<2>", "b": "1"}));
    let annotation = taken.object["metadata"]["annotations"][name].as_str().unwrap();
    let config = object(&json!({"a": "<2>"})).to_string().replace('<', "\\u003c").replace('>', "\\u003e");
    assert_eq!(annotation, format!("{config}\n"));
    assert!(matches!(applied("kubectl", json!({"b": "2"})), Err(ApplyRefused::Conflicts(all)) if all.len() == 1));
    assert!(matches!(applied("other", json!({"a": "2"})), Err(ApplyRefused::Conflicts(all)) if all.len() == 1));
}

#[test]
fn an_end_point_owns_only_fields_that_it_writes() {
    let schema = schema();
    let status = FieldSet::from_paths([ElementPath::from_fields(&["status"]).0.as_slice()]);
    let request = ApplyRequest { reset: &status, ..ApplyRequest::new("me", VERSION, NOW, &schema) };
    let mut config = object(&json!({"a": "1"}));
    config["status"] = json!({"k": "1"});
    let applied = apply(None, &[], &config, &request, false).unwrap();
    assert_eq!(applied.managers[0].fields.to_value(), json!({"f:spec": {"f:a": {}}}));
    let updated = update(None, &config, &[], &request).unwrap();
    assert_eq!(updated[0].fields.to_value(), json!({"f:spec": {".": {}, "f:a": {}}}));
}

/// DEC-15
#[test]
fn entries_of_other_versions_are_kept_converted_or_dropped() {
    let schema = schema();
    let stored = StoredObject::default().applied("old", &json!({"a": "1", "b": "1"}));
    let older: Vec<_> =
        stored.managers.iter().map(|entry| ManagedFields { api_version: "g/v0".into(), ..entry.clone() }).collect();
    let live = stored.object.unwrap();
    let owners = |convert: Option<&Convert<'_>>| {
        let request = ApplyRequest { convert, ..ApplyRequest::new("new", VERSION, NOW, &schema) };
        let applied = apply(Some(&live), &older, &object(&json!({"a": "2"})), &request, true).unwrap();
        StoredObject { object: Some(applied.object), managers: applied.managers }.owners()
    };
    let new = r#"new Apply {"f:a":{}}"#.to_owned();
    assert_eq!(owners(None), [r#"old Apply {"f:a":{},"f:b":{}}"#.to_owned(), new.clone()]);
    let same = |object: &Value, _: &str| Ok(Some((object.clone(), schema.clone())));
    assert_eq!(owners(Some(&same)), [r#"old Apply {"f:b":{}}"#.to_owned(), new.clone()]);
    assert_eq!(owners(Some(&|_, _| Ok(None))), [new]);
    let request = ApplyRequest {
        convert: Some(&|_, _| Err(NotConverted("no".to_owned()))),
        ..ApplyRequest::new("new", VERSION, NOW, &schema)
    };
    let refused = apply(Some(&live), &older, &object(&json!({})), &request, true);
    assert_eq!(refused, Err(ApplyRefused::Unconverted(NotConverted("no".to_owned()))));
}

/// SSA-01: owner references are distinguished by uid, finalizers by their value, for every kind.
#[test]
fn metadata_is_merged_as_in_every_kind() {
    let config = |uid: &str, finalizer: &str, label: &str| {
        json!({"apiVersion": VERSION, "kind": "K", "metadata": {"name": "n", "labels": {label: "x"},
            "finalizers": [finalizer], "ownerReferences": [{"uid": uid, "name": "o"}]}})
    };
    let schema = MergeSchema::unknown();
    let request = |manager| ApplyRequest::new(manager, VERSION, NOW, &schema);
    let first = apply(None, &[], &config("1", "f", "l"), &request("me"), false).unwrap();
    let both = apply(Some(&first.object), &first.managers, &config("2", "g", "m"), &request("you"), false).unwrap();
    assert_eq!(
        both.object["metadata"],
        json!({"name": "n", "labels": {"l": "x", "m": "x"}, "finalizers": ["f", "g"],
        "ownerReferences": [{"uid": "1", "name": "o"}, {"uid": "2", "name": "o"}]})
    );
    let owned = json!({"f:metadata": {"f:labels": {"f:m": {}}, "f:finalizers": {"v:\"g\"": {}},
        "f:ownerReferences": {"k:{\"uid\":\"2\"}": {}}}});
    assert_eq!(both.managers[1].fields.to_value(), owned);
}

#[test]
fn entries_are_read_and_written_as_the_server_has_them() {
    let status = json!({".": {}, "f:k": {}, "i:0": {}, "v:1": {}, "k:{\"a\":true}": {".": {}, "f:a": {}}});
    let entry = json!({"manager": "m", "operation": "Apply", "apiVersion": "g/v1", "time": THEN,
        "fieldsType": "FieldsV1", "subresource": "status", "fieldsV1": {"f:status": status}});
    let object = json!({"metadata": {"managedFields": [entry]}});
    let entries = ManagedFields::all_of(&object).unwrap();
    assert_eq!(with_managers(json!({}), &entries), object);
    assert_eq!(with_managers(object, &[]), json!({"metadata": {}}));
    assert_eq!(
        entries[0].fields.to_string(),
        r#"{"f:status":{".":{},"f:k":{},"k:{\"a\":true}":{".":{},"f:a":{}},"v:1":{},"i:0":{}}}"#
    );
    for (wrong, want) in [
        (json!({"operation": "Delete"}), "managed fields entry 0: unknown operation \"Delete\""),
        (json!({"operation": "Apply"}), "managed fields entry 0: unknown type of fields \"\""),
        (
            json!({"operation": "Apply", "fieldsType": "FieldsV1", "manager": 1}),
            "managed fields entry 0: manager is no string",
        ),
        (
            json!({"operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": {"f:a": 1}}),
            "managed fields entry 0: what is below \"f:a\" is no object",
        ),
        (
            json!({"operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": {"": {}}}),
            "managed fields entry 0: bad path element \"\": no type",
        ),
    ] {
        let object = json!({"metadata": {"managedFields": [wrong]}});
        assert_eq!(ManagedFields::all_of(&object).unwrap_err().to_string(), want);
    }
}

#[test]
fn a_set_contains_its_members_and_their_descendants() {
    let set = FieldSet::parse(&json!({"f:spec": {".": {}, "f:a": {}, "f:texts": {"f:k": {}}}, "x:new": {}})).unwrap();
    let path = |names: &[&str]| ElementPath::from_fields(names).0;
    assert!(set.has(&path(&["spec"])) && set.has(&path(&["spec", "a"])) && !set.has(&path(&["spec", "texts"])));
    assert!(set.has_prefix(&path(&["spec", "texts"])) && !set.has_prefix(&path(&["spec", "b"])) && set.has_prefix(&[]));
    let shown: Vec<String> = set.paths().iter().map(ToString::to_string).collect();
    assert_eq!(shown, [".spec", ".spec.a", ".spec.texts.k"]);
    assert_eq!(set.leaves().to_value(), json!({"f:spec": {"f:a": {}, "f:texts": {"f:k": {}}}}));
    let spec = FieldSet::from_paths([path(&["spec"]).as_slice()]);
    assert_eq!(set.without(&spec), FieldSet::default());
    assert_eq!(set.difference(&spec), set.leaves());
}

/// Some of the texts in any order, at least one, since an empty merged list has no owner and may come and go.
fn some(texts: &'static [&'static str]) -> impl Strategy<Value = Vec<&'static str>> {
    proptest::sample::subsequence(texts, 1..=texts.len()).prop_shuffle()
}

fn texts() -> impl Strategy<Value = Value> {
    (some(&["k", "l", "m"]), "[12]").prop_map(|(keys, value)| keys.into_iter().map(|key| (key, json!(value))).collect())
}

fn spec() -> impl Strategy<Value = Value> {
    let maybe = |value: BoxedStrategy<Value>| proptest::option::weighted(0.4, value);
    let text = || "[12]".prop_map(Value::from).boxed();
    let entry = (maybe(text()), maybe(texts().boxed()));
    let entries = (some(&["p", "q", "r"]), proptest::collection::vec(entry, 3)).prop_map(|(names, entries)| {
        let entry = |(name, (value, texts)): (&str, (Option<Value>, Option<Value>))| {
            let fields = [("name", Some(json!(name))), ("value", value), ("texts", texts)];
            fields.into_iter().filter_map(|(name, value)| Some((name, value?))).collect::<Value>()
        };
        names.into_iter().zip(entries).map(entry).collect::<Value>()
    });
    let set = || some(&["x", "y", "z"]).prop_map(Value::from).boxed();
    let fields =
        (maybe(text()), maybe(text()), maybe(texts().boxed()), maybe(entries.boxed()), maybe(set()), maybe(set()));
    fields.prop_map(|(a, b, texts, entries, set, list)| {
        let fields = [("a", a), ("b", b), ("texts", texts), ("entries", entries), ("set", set), ("list", list)];
        fields.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    })
}

/// An object written by several managers.
fn stored() -> impl Strategy<Value = StoredObject> {
    let write = (proptest::sample::select(vec!["ann", "bob", "eve"]), spec(), any::<bool>());
    proptest::collection::vec(write, 0..4).prop_map(|writes| {
        writes.into_iter().fold(StoredObject::default(), |stored, (manager, spec, is_update)| match is_update {
            true => stored.updated(manager, &spec, THEN),
            false => stored.storable(manager, &spec).unwrap_or(stored),
        })
    })
}

fn set() -> impl Strategy<Value = FieldSet> {
    (spec(), any::<bool>()).prop_map(|(spec, is_known)| {
        let schema = if is_known { schema() } else { MergeSchema::deduced() };
        field_set(&object(&spec), &schema)
    })
}

/// Any JSON value with keys that have a meaning here.
fn anything() -> impl Strategy<Value = Value> {
    let key = proptest::sample::select(vec![
        "spec",
        "metadata",
        "name",
        "type",
        "properties",
        "items",
        "additionalProperties",
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-map-type",
        "ownerReferences",
        "finalizers",
        "uid",
        "f:spec",
        "k:{}",
        ".",
        "v:1",
        "managedFields",
        "fieldsV1",
        "x-kubernetes-embedded-resource",
        "default",
    ]);
    let text = proptest::sample::select(vec![
        "", "object", "array", "string", "set", "map", "atomic", "name", "Apply", "FieldsV1",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2..3).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text.prop_map(Value::from)
    ];
    leaf.prop_recursive(6, 40, 5, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(key.clone(), inner, 0..5).prop_map(|map| Value::Object(
                map.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Map<_, _>>()
            )),
        ]
    })
}

#[test]
fn a_new_object_that_is_atomic_as_a_whole_has_no_fields() {
    let properties = json!({"spec": {"type": "object", "properties": {"a": {"type": "string"}}}});
    let root = json!({"type": "object", "x-kubernetes-map-type": "atomic", "properties": properties});
    let schema = MergeSchema::from_openapi(&root);
    let request = ApplyRequest::new("ann", VERSION, NOW, &schema);
    let applied = apply(None, &[], &object(&json!({"a": "1"})), &request, false).unwrap();
    assert_eq!((applied.changed, applied.managers), (false, Vec::new()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_set_that_is_printed_and_read_is_the_same(set in set()) {
        prop_assert_eq!(&FieldSet::parse(&set.to_value()).unwrap(), &set);
        prop_assert_eq!(&FieldSet::parse(&serde_json::from_str(&set.to_string()).unwrap()).unwrap(), &set);
        let paths = set.paths();
        prop_assert_eq!(&FieldSet::from_paths(paths.iter().map(|path| path.0.as_slice())), &set);
    }

    #[test]
    fn sets_obey_the_laws_of_sets(a in set(), b in set(), c in set()) {
        prop_assert_eq!(a.union(&b), b.union(&a));
        prop_assert_eq!(a.intersection(&b), b.intersection(&a));
        prop_assert_eq!(a.union(&b).union(&c), a.union(&b.union(&c)));
        prop_assert_eq!(a.difference(&b).union(&a.intersection(&b)), a.clone());
        prop_assert!(a.difference(&b).intersection(&b).is_empty());
        prop_assert_eq!(a.union(&b).difference(&b), a.difference(&b));
        prop_assert_eq!(a.difference(&a), FieldSet::default());
        prop_assert!(a.without(&b).difference(&a.difference(&b)).is_empty());
        let size = |set: &FieldSet| set.paths().len();
        prop_assert_eq!(size(&a) + size(&b), size(&a.union(&b)) + size(&a.intersection(&b)));
    }

    #[test]
    fn a_new_object_is_its_configuration(spec in spec()) {
        let (schema, config) = (schema(), object(&spec));
        let nothing = json!({});
        let Ok((stored, changed)) = StoredObject::default().try_apply("ann", &spec, false, NOW) else { return Ok(()) };
        let merged = super::merge::merged(Some(&nothing), Some(&config), &schema.0);
        prop_assert_eq!((stored.object, changed), (merged, true));
        prop_assert!(!FieldComparison::between(&nothing, &config, &schema).is_same());
    }

    #[test]
    fn nothing_is_removed_while_all_fields_are_applied_again(stored in stored(), spec in spec()) {
        let Some(before) = stored.storable("ann", &spec) else { return Ok(()) };
        let mut more = spec.clone();
        more["texts"]["more"] = json!("1");
        let Some(after) = before.storable("ann", &more) else { return Ok(()) };
        let merged = super::merge::merged(before.object.as_ref(), Some(&object(&more)), &schema().0);
        prop_assert_eq!(&after.object, &merged);
    }

    #[test]
    fn applying_again_changes_nothing(stored in stored(), spec in spec()) {
        let Some(once) = stored.storable("ann", &spec) else { return Ok(()) };
        let (twice, changed) = once.try_apply("ann", &spec, false, NOW).unwrap();
        prop_assert!(!changed);
        prop_assert_eq!(twice, once);
    }

    /// For appliers: applying a part of a list entry owns the entry; updating it may not, and then the entry is removed
    /// with its owner.
    #[test]
    fn applying_removes_no_field_that_others_apply(stored in stored(), spec in spec()) {
        let (Some(before), Some(after)) = (&stored.object, stored.storable("ann", &spec)) else { return Ok(()) };
        let removed = FieldComparison::between(before, after.object.as_ref().unwrap(), &schema()).removed;
        let is_other = |entry: &&ManagedFields| entry.manager != "ann" && entry.operation == ManagedOperation::Apply;
        for entry in stored.managers.iter().filter(is_other) {
            prop_assert!(removed.intersection(&entry.fields).is_empty(), "{} loses {}", entry.manager, removed);
        }
    }

    #[test]
    fn applied_fields_are_in_the_object_and_owned(stored in stored(), spec in spec()) {
        let Some(after) = stored.storable("ann", &spec) else { return Ok(()) };
        let schema = schema();
        let wanted = object(&spec);
        let merged = super::merge::merged(after.object.as_ref(), Some(&wanted), &schema.0).unwrap();
        prop_assert!(FieldComparison::between(after.object.as_ref().unwrap(), &merged, &schema).is_same());
        let owned = after.managers.iter().find(|entry| entry.manager == "ann" && entry.operation == ManagedOperation::Apply);
        let owned = owned.map(|entry| entry.fields.clone()).unwrap_or_default();
        let sent = field_set(&wanted, &schema);
        prop_assert!(owned.difference(&sent).is_empty());
        prop_assert!(sent.difference(&owned).paths().iter().all(|path| !path.to_string().starts_with(".spec")));
    }

    #[test]
    fn a_manager_that_changes_a_field_is_its_only_owner(stored in stored(), spec in spec()) {
        let Some(before) = &stored.object else { return Ok(()) };
        let after = stored.updated("new", &spec, NOW);
        if stored.managers.is_empty() { return Ok(()) }
        let comparison = FieldComparison::between(before, after.object.as_ref().unwrap(), &schema());
        let written = comparison.added.union(&comparison.modified);
        for entry in &after.managers {
            prop_assert_eq!(entry.manager == "new", entry.fields == written, "{:?}", entry);
            prop_assert!(entry.manager == "new" || entry.fields.intersection(&written).is_empty());
            prop_assert!(entry.fields.intersection(&comparison.removed).is_empty());
        }
    }

    /// DEC-15, SSA-13
    #[test]
    fn a_difference_is_found_whenever_applying_changes_something(stored in stored(), spec in spec()) {
        let applied = stored.try_apply("ann", &spec, true, THEN);
        let (Some(live), Ok((after, changed))) = (&stored.object, applied) else { return Ok(()) };
        let schema = schema();
        let own = |managers: &[ManagedFields]| {
            let own = managers.iter().find(|entry| entry.manager == "ann" && entry.operation == ManagedOperation::Apply);
            own.map(|entry| entry.fields.clone())
        };
        let comparing = ComparisonContext { manager: "ann", schema: &schema, managers: &stored.managers, uncompared: &[] };
        let found = difference(live, &object(&spec), &comparing);
        let owns_the_same = own(&stored.managers).is_some() && own(&stored.managers) == own(&after.managers);
        prop_assert_eq!(found.changed(), changed || !owns_the_same, "{:?}", found);
        if stored.storable("ann", &spec).is_none() { return Ok(()) }
        let comparing = ComparisonContext { managers: &after.managers, ..comparing };
        let again = difference(after.object.as_ref().unwrap(), &object(&spec), &comparing);
        prop_assert_eq!(again.changes, vec![]);
    }

    /// DEC-15
    #[test]
    fn an_apply_that_the_fast_path_skips_would_change_nothing(stored in stored(), spec in spec(), other in spec(), more in spec()) {
        let Some(applied) = stored.storable("ann", &spec) else { return Ok(()) };
        let mut worlds = vec![applied.updated("new", &other, NOW)];
        worlds.extend(applied.storable("bob", &other));
        let is_skipped = |world: &StoredObject, spec: &Value| {
            let own = world.managers.iter().find(|entry| entry.is_of_applier("ann"));
            own.is_some_and(|own| is_as_applied(world.object.as_ref().unwrap(), &object(spec), own, &[], &[]))
        };
        // For an empty map only a server knows whether it is atomic, and in which order it keeps entries of others.
        if let Some(alone) = StoredObject::default().storable("ann", &spec) {
            prop_assert!(is_skipped(&alone, &spec), "it is as it was applied");
        }
        worlds.push(applied);
        for world in &worlds {
            for sent in [&spec, &other, &more] {
                if is_skipped(world, sent) {
                    let (after, changed) = world.try_apply("ann", sent, true, NOW).unwrap();
                    prop_assert!(!changed);
                    prop_assert_eq!(&after.object, &world.object);
                }
            }
        }
    }

    #[test]
    fn no_json_value_panics(schema in anything(), live in anything(), config in anything(), fields in anything()) {
        for schema in [MergeSchema::from_openapi(&schema), MergeSchema::unknown(), MergeSchema::deduced()] {
            let mut managers = ManagedFields::all_of(&live).unwrap_or_default();
            if let Ok(fields) = FieldSet::parse(&fields) {
                managers.push(ManagedFields {
                    manager: "m".into(),
                    operation: ManagedOperation::Apply,
                    api_version: String::new(),
                    time: None,
                    subresource: String::new(),
                    fields,
                });
            }
            let request = ApplyRequest::new("m", "", NOW, &schema);
            let _ = apply(Some(&live), &managers, &config, &request, false);
            let _ = apply(Some(&live), &managers, &config, &request, true);
            let _ = apply(Some(&live), &managers, &config, &ApplyRequest { manager: "kubectl", ..request }, false);
            let _ = update(Some(&live), &config, &managers, &request);
            for own in &managers {
                let _ = is_as_applied(&live, &config, own, &[&["metadata", "name"]], &[&["spec", "*"]]);
            }
            let reduced = reduce(&live, SENT, &[&["spec", "name"]]);
            let assumed = [as_applied("m", &reduced, &schema)];
            for managers in [&managers[..], &assumed] {
                let comparing = ComparisonContext { manager: "m", schema: &schema, managers, uncompared: &[] };
                let _ = difference(&live, &config, &comparing);
            }
        }
    }
}
