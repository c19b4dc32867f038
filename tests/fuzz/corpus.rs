//! A folder with the worst input of each kind, which the next search begins with.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::genes::{Input, NAMES};
use crate::search::Found;

pub struct Corpus {
    folder: PathBuf,
}

impl Corpus {
    pub fn at(folder: OsString) -> Self {
        let folder = PathBuf::from(folder);
        fs::create_dir_all(&folder).unwrap();
        Corpus { folder }
    }

    fn file(&self, gene: &str) -> PathBuf {
        self.folder.join(gene.replace(' ', "-")).with_extension("json")
    }

    /// The inputs that are there.
    pub fn read(&self) -> Vec<Input> {
        let read = |gene: &&'static str| {
            let text = fs::read(self.file(gene)).ok()?;
            let mut kept: Value = serde_json::from_slice(&text).unwrap();
            let template = kept["template"].as_str().unwrap_or_default().to_owned();
            Some(Input { gene, class: kept["class"].take(), cluster: kept["cluster"].take(), template })
        };
        NAMES.iter().filter_map(read).collect()
    }

    /// Writes the worst of each kind.
    pub fn write(&self, worst: &[Found]) {
        for Found { input, .. } in worst {
            let Input { gene, class, cluster, template } = input;
            let kept = json!({"class": class, "cluster": cluster, "template": template});
            fs::write(self.file(gene), kept.to_string()).unwrap();
        }
    }
}
