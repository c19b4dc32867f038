//! Where the stories about machines run here: a server of their own, on the embedded API.

use std::path::{Path, PathBuf};

use super::both::server::fixture;
use crate::harness::server::Topologist;

/// A process with its API.
pub struct Backend {
    pub topologist: Topologist,
    pub kubeconfig: PathBuf,
    pub namespace: String,
}

impl Backend {
    /// A server on the classes of the stories, or on those that a story loads, with the timings of a file in a folder.
    pub fn start(folder: &Path, more: &[&str]) -> Self {
        let path = |name: &str| folder.join(name).display().to_string();
        let classes = fixture("").display().to_string();
        let (state, timings) = (path("state"), path("timings.yaml"));
        let arguments = ["--embedded", "--state-dir", &state, "--timings", &timings];
        let load: &[_] = if more.contains(&"--load") { &[] } else { &["--load", &classes] };
        let topologist = Topologist::serve(&[&arguments, load, more].concat());
        topologist.wait_until_ready();
        Backend { topologist, kubeconfig: folder.join("state/kubeconfig"), namespace: "default".to_owned() }
    }
}
