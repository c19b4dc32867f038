//! The API servers of workload clusters in this process (DEC-54).

use std::fmt;

use model::hub::ObjectKey;

/// An open workload cluster.
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

/// The reason for which a workload cluster cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadOpenError {
    /// Its API server cannot be created.
    #[error(transparent)]
    NotCreated(Box<dyn std::error::Error + Send + Sync>),
    /// It was deleted in the meantime.
    #[error("the workload cluster {0} is gone")]
    Gone(ObjectKey),
}

/// The workload clusters of this process.
pub trait WorkloadClusters: fmt::Debug + Send + Sync {
    /// The workload cluster of a Cluster; creates it if it does not exist.
    ///
    /// # Errors
    /// When it cannot be created.
    fn open(&self, cluster: &ObjectKey) -> Result<WorkloadCluster, WorkloadOpenError>;

    /// The workload cluster of a Cluster, if it exists.
    fn get(&self, cluster: &ObjectKey) -> Option<WorkloadCluster>;

    /// Deletes a workload cluster with everything in it.
    fn forget(&self, cluster: &ObjectKey);

    /// Deletes all workload clusters.
    fn forget_all(&self);
}
