//! The hooks of an upgrade, each of which blocks until a story opens it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::extension::{Reply, TestExtension};

/// The hooks of an upgrade in their order.
pub const UPGRADE_HOOKS: [&str; 6] = [
    "BeforeClusterUpgrade",
    "BeforeControlPlaneUpgrade",
    "AfterControlPlaneUpgrade",
    "BeforeWorkersUpgrade",
    "AfterWorkersUpgrade",
    "AfterClusterUpgrade",
];

/// A hook that blocks an upgrade of one step, and what has been upgraded meanwhile.
pub struct Hold {
    pub hook: &'static str,
    /// What the condition says.
    pub words: String,
    control_plane: &'static str,
    workers: &'static str,
    blocks: Arc<AtomicBool>,
}

/// All hooks of an upgrade block.
pub fn holds(lab: &TestExtension, from: &'static str, to: &'static str) -> Vec<Hold> {
    let hold = |(at, hook): (usize, &&'static str)| {
        let blocks = Arc::new(AtomicBool::new(true));
        let own = blocks.clone();
        lab.on(hook, &hook.to_lowercase(), move |_| match own.load(Ordering::SeqCst) {
            true => Reply::wait(1, "a person decides"),
            false => Reply::done(),
        });
        let version = |is_upgraded: bool| if is_upgraded { to } else { from };
        Hold {
            hook,
            words: format!("Following hooks are blocking upgrade: {hook}: a person decides"),
            control_plane: version(at > 1),
            workers: version(at > 3),
            blocks,
        }
    };
    UPGRADE_HOOKS.iter().enumerate().map(hold).collect()
}

impl Hold {
    /// The versions in the specs of the control plane and of all workers are those before or after the step.
    #[track_caller]
    pub fn check(&self, control_plane: &[Value], workers: &[Value]) {
        assert_eq!(control_plane, [json!(self.control_plane)], "{}", self.hook);
        assert!(
            !workers.is_empty() && workers.iter().all(|version| *version == self.workers),
            "{}: {workers:?}",
            self.hook
        );
    }

    /// The hook passes from now on.
    pub fn open(&self) {
        self.blocks.store(false, Ordering::SeqCst);
    }
}
