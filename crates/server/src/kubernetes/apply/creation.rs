//! Creation of objects, and adoption of those that exist already (RS-13, DEC-36).
//!
//! ```text
//! apply, only if there is no object of this name ─► created
//!        └─ conflict ─► read it ─► no other owner ─► apply to this version of it ─► adopted
//!                               └► another owner, or it is being deleted ─► an error; nothing is written
//! ```

use serde_json::json;
use tracing::info;

use super::{ApplyError, PlanExecution};
use crate::kubernetes::untyped;
use engine::topology::plan::PlanStep;
use model::hub::{Object, paths};

/// A resourceVersion that no stored object has: the first write of an etcd gets 2, and other stores count on from
/// there. An API server compares it with the version of an existing object (409), and ignores it where there is none.
const OF_NO_OBJECT: &str = "1";
/// How often an existing object is read anew because another client changed it meanwhile.
const ATTEMPTS: usize = 5;

impl PlanExecution<'_> {
    /// Creates the object of a step. It never writes over an object with another owner, not even over one that was
    /// created a moment ago.
    pub(super) async fn create(&self, step: &PlanStep, sent: &Object) -> Result<Object, ApplyError> {
        let mut new = sent.clone();
        new.set(paths::metadata::RESOURCE_VERSION, json!(OF_NO_OBJECT))?;
        match untyped::apply(self.client, &new, false).await {
            Err(error) if error.is_conflict() => self.adopt(step, sent).await,
            created => created.map_err(|error| ApplyError::create(&step.object, error)),
        }
    }

    async fn adopt(&self, step: &PlanStep, sent: &Object) -> Result<Object, ApplyError> {
        let claimant = step.part.claimant(&self.run.cluster.name);
        for _ in 0..ATTEMPTS {
            let found = untyped::get(self.client, &step.object).await;
            let found = found.map_err(|error| ApplyError::create(&step.object, error))?;
            let Some(found) = found else { break };
            claimant.adopt(&found)?;
            let mut sent = sent.clone();
            for field in [paths::metadata::UID, paths::metadata::RESOURCE_VERSION] {
                sent.set(field, json!(found.text(field)?))?;
            }
            match untyped::apply(self.client, &sent, false).await {
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(ApplyError::create(&step.object, error)),
                Ok(adopted) => {
                    info!(object = %step.object, "Adopted an existing object");
                    return Ok(adopted);
                }
            }
        }
        Err(ApplyError::Changed { object: Box::new(step.object.clone()) })
    }
}
