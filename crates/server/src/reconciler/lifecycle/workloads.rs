//! The API servers of workload clusters that are in this process (DEC-54).

use std::fmt;

use model::hub::ObjectKey;

/// A workload cluster that can be used.
#[derive(Clone)]
pub struct WorkloadCluster {
    pub client: kube::Client,
    /// What others reach it with: the contents of the Secret `<cluster>-kubeconfig`.
    pub kubeconfig: String,
}

impl fmt::Debug for WorkloadCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WorkloadCluster")
    }
}

/// The workload clusters of this process.
pub trait WorkloadClusters: fmt::Debug + Send + Sync {
    /// The workload cluster of a Cluster; it is made if there is none.
    ///
    /// # Errors
    /// When it cannot be made, and why.
    fn open(&self, cluster: &ObjectKey) -> Result<WorkloadCluster, String>;

    /// The workload cluster of a Cluster, if there is one.
    fn get(&self, cluster: &ObjectKey) -> Option<WorkloadCluster>;

    /// Ends a workload cluster with everything in it.
    fn forget(&self, cluster: &ObjectKey);

    /// Ends all workload clusters.
    fn forget_all(&self);
}
