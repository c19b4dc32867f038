//! Every Machine that a namespace has ever had, as a watch of kubectl reports them.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use serde_json::{Deserializer, Value};

use super::site::Machine;
use crate::harness::kubectl::Kubectl;

/// A watch that writes its events into a file. It ends with the API server.
pub(super) struct History {
    watch: Child,
    events: PathBuf,
}

/// What happened to one Machine.
#[derive(Clone, Debug)]
pub(crate) struct Life {
    pub(crate) uid: String,
    /// As it was made.
    pub(crate) machine: Machine,
    /// When it was asked to go, as Kubernetes writes times.
    pub(crate) deleted: Option<String>,
    pub(crate) is_gone: bool,
}

impl History {
    pub(super) fn start(kubectl: &Kubectl) -> Self {
        let events = kubectl.folder.path().join("machines.json");
        let mut watch = kubectl.command(&["get", "machines", "--watch", "--output-watch-events", "-o", "json"]);
        let watch = watch.stdout(File::create(&events).unwrap()).stderr(Stdio::null()).spawn().unwrap();
        History { watch, events }
    }

    /// The Machines of a Cluster in the order in which they were made.
    pub(super) fn lives(&self, cluster: &str) -> Vec<Life> {
        let text = std::fs::read_to_string(&self.events).unwrap();
        let mut lives: Vec<Life> = Vec::new();
        // The last event may be written in part.
        for event in Deserializer::from_str(&text).into_iter::<Value>().map_while(Result::ok) {
            let object = &event["object"];
            if object["spec"]["clusterName"] != cluster {
                continue;
            }
            let (uid, machine) = Machine::read(object);
            let place = lives.iter().position(|life| life.uid == uid).unwrap_or_else(|| {
                lives.push(Life { uid, machine: machine.clone(), deleted: None, is_gone: false });
                lives.len() - 1
            });
            let life = &mut lives[place];
            if life.deleted.is_none() {
                life.deleted = object["metadata"]["deletionTimestamp"].as_str().map(str::to_owned);
            }
            life.is_gone |= event["type"] == "DELETED";
        }
        lives
    }
}

impl Drop for History {
    fn drop(&mut self) {
        let _ = self.watch.kill();
        let _ = self.watch.wait();
    }
}
