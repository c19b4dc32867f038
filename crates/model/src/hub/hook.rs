//! Lifecycle hooks, by which Runtime Extensions block or observe the lifecycle of a Cluster (RH-1.2).

use std::fmt;

/// A hook that calls all extensions registered for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hook {
    AfterClusterUpgrade,
    AfterControlPlaneInitialized,
    AfterControlPlaneUpgrade,
    AfterWorkersUpgrade,
    BeforeClusterCreate,
    BeforeClusterDelete,
    BeforeClusterUpgrade,
    BeforeControlPlaneUpgrade,
    BeforeWorkersUpgrade,
}

impl Hook {
    /// Every lifecycle hook, by name.
    pub const ALL: [Hook; 9] = [
        Hook::AfterClusterUpgrade,
        Hook::AfterControlPlaneInitialized,
        Hook::AfterControlPlaneUpgrade,
        Hook::AfterWorkersUpgrade,
        Hook::BeforeClusterCreate,
        Hook::BeforeClusterDelete,
        Hook::BeforeClusterUpgrade,
        Hook::BeforeControlPlaneUpgrade,
        Hook::BeforeWorkersUpgrade,
    ];

    /// The name on the wire and in annotations.
    pub const fn name(self) -> &'static str {
        match self {
            Hook::AfterClusterUpgrade => "AfterClusterUpgrade",
            Hook::AfterControlPlaneInitialized => "AfterControlPlaneInitialized",
            Hook::AfterControlPlaneUpgrade => "AfterControlPlaneUpgrade",
            Hook::AfterWorkersUpgrade => "AfterWorkersUpgrade",
            Hook::BeforeClusterCreate => "BeforeClusterCreate",
            Hook::BeforeClusterDelete => "BeforeClusterDelete",
            Hook::BeforeClusterUpgrade => "BeforeClusterUpgrade",
            Hook::BeforeControlPlaneUpgrade => "BeforeControlPlaneUpgrade",
            Hook::BeforeWorkersUpgrade => "BeforeWorkersUpgrade",
        }
    }
}

impl fmt::Display for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hooks_are_ordered_by_name() {
        // HK-10
        let mut names = Hook::ALL.map(Hook::name);
        assert!(Hook::ALL.is_sorted());
        names.sort_unstable();
        assert_eq!(names, Hook::ALL.map(Hook::name));
    }
}
