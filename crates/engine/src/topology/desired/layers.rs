//! Fields that the topology or, by default, the class sets.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::DesiredObject;
use crate::topology::Failure;
use crate::topology::origin::Origin;
use golang::calendar;
use golang::json::List;
use model::hub::{IntOrString, MachineGate, Taint};

/// The two layers of a part of a topology: fields of the Cluster override fields of its class.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layers<'a> {
    /// The path of the part in the Cluster.
    pub(super) topology_path: &'a str,
    /// The path of its class in the ClusterClass.
    pub(super) class_path: &'a str,
}

impl Layers<'_> {
    /// Sets the value at `path` to the topology's value, else to the class's value at `from`; without either, it stays
    /// unchanged.
    pub(super) fn set<T: OptionalField>(
        self,
        object: &mut DesiredObject,
        path: &'static str,
        from: &str,
        topology: &T,
        class: &T,
    ) -> Result<(), Failure> {
        let given = topology.given().map(|value| (value, self.topology_origin(from)));
        match given.or_else(|| Some((class.given()?, self.class_origin(from)))) {
            // Lists are replaced as a whole, and empty lists are not written (DS-03).
            Some((Value::Array(list), origin)) if list.is_empty() => {
                object.object.remove(path);
                object.origins.mark(path, origin);
                Ok(())
            }
            Some((value, origin)) => object.set(path, value, origin),
            None => Ok(()),
        }
    }

    /// Sets a field that only the topology can have.
    pub(super) fn set_from_topology<T: OptionalField>(
        self,
        object: &mut DesiredObject,
        path: &'static str,
        from: &str,
        topology: &T,
    ) -> Result<(), Failure> {
        topology.given().map_or(Ok(()), |value| object.set(path, value, self.topology_origin(from)))
    }

    /// A field of the Cluster.
    pub(super) fn topology_origin(self, from: &str) -> Origin {
        Origin::Cluster(Cow::Owned([self.topology_path, ".", from].concat()))
    }

    /// A field of the class.
    pub(super) fn class_origin(self, from: &str) -> Origin {
        Origin::Class(Cow::Owned([self.class_path, ".", from].concat()))
    }
}

/// An optional field.
pub(super) trait OptionalField {
    /// The applied form of the value, if it is set.
    fn given(&self) -> Option<Value>;
}

impl OptionalField for Option<i32> {
    fn given(&self) -> Option<Value> {
        self.map(Value::from)
    }
}

impl OptionalField for Option<IntOrString> {
    fn given(&self) -> Option<Value> {
        self.as_ref().map(Value::from)
    }
}

impl OptionalField for Option<Value> {
    fn given(&self) -> Option<Value> {
        self.clone()
    }
}

impl OptionalField for String {
    fn given(&self) -> Option<Value> {
        (!self.is_empty()).then(|| self.as_str().into())
    }
}

impl<T: ListElement> OptionalField for List<T> {
    fn given(&self) -> Option<Value> {
        self.is_present().then(|| self.iter().map(ListElement::to_value).collect())
    }
}

/// An element of a list.
pub(super) trait ListElement {
    fn to_value(&self) -> Value;
}

impl ListElement for String {
    fn to_value(&self) -> Value {
        self.as_str().into()
    }
}

impl ListElement for Taint {
    fn to_value(&self) -> Value {
        let Taint { key, value, effect, propagation } = self;
        members([
            ("key", key.given()),
            ("value", value.given()),
            ("effect", effect.given()),
            ("propagation", propagation.given()),
        ])
    }
}

impl ListElement for MachineGate {
    fn to_value(&self) -> Value {
        members([("conditionType", self.condition_type.given()), ("polarity", self.polarity.given())])
    }
}

/// An object of the present members.
pub(super) fn members<const N: usize>(members: [(&str, Option<Value>); N]) -> Value {
    let given = members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(given.collect::<Map<_, _>>())
}

/// The applied form of a time: RFC 3339 in UTC (DS-17). Invalid times are passed on for the API server to reject.
pub(super) fn rfc3339(text: &str) -> Option<Value> {
    (!text.is_empty()).then(|| calendar::in_utc(text).unwrap_or_else(|| text.to_owned()).into())
}
