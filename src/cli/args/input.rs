//! Flags about the files that commands read.

use std::env;
use std::path::{Path, PathBuf};

use clap::Args;

use super::ArgumentError;

/// Input flags that several commands share.
#[derive(Clone, Debug, Args)]
pub struct InputFlags {
    /// Files or directories with existing objects that are not validated; may be repeated.
    #[arg(long, value_name = "PATH")]
    pub world: Vec<PathBuf>,
    /// Files or directories with CustomResourceDefinitions of providers, for contracts, list merging, defaults, and
    /// checks of the objects that topologies define; may be repeated. Without it, those of the environment variable
    /// TOPOLOGIST_CRDS, separated by colons, or else the directories crds and config/crd/bases, if they exist.
    #[arg(long, value_name = "PATH")]
    pub crds: Vec<PathBuf>,
    /// Files with fields that webhooks of providers add to objects of a kind in a version: apiVersion, kind, and the
    /// fields. Fields that an object has keep their values; may be repeated.
    #[arg(long, value_name = "FILE")]
    pub assume: Vec<PathBuf>,
    #[command(flatten)]
    pub variables: VariableFlags,
    #[command(flatten)]
    pub links: LinkFlags,
    /// Accept input with nothing to validate, default, render, plan or simulate, such as other kinds only. Without it
    /// the exit code is 2.
    #[arg(long)]
    pub allow_empty: bool,
}

/// The environment variable with paths of definitions.
const CRDS: &str = "TOPOLOGIST_CRDS";

/// The directories in which definitions are looked for: of Helm charts, and of projects that kubebuilder made.
const CRD_DIRECTORIES: [&str; 2] = ["crds", "config/crd/bases"];

impl InputFlags {
    /// What names the paths of definitions, for messages.
    pub fn crd_source(&self) -> &'static str {
        if self.crds.is_empty() { CRDS } else { "--crds" }
    }

    /// The paths of definitions.
    pub fn crd_paths(&self) -> Vec<PathBuf> {
        if !self.crds.is_empty() {
            return self.crds.clone();
        }
        match env::var_os(CRDS) {
            Some(paths) => env::split_paths(&paths).filter(|path| !path.as_os_str().is_empty()).collect(),
            None => CRD_DIRECTORIES.map(PathBuf::from).into_iter().filter(|path| path.is_dir()).collect(),
        }
    }
}

/// Links in directories (DEC-65).
#[derive(Clone, Debug, Default, Args)]
pub struct LinkFlags {
    /// Follow links that lead out of a directory, and links to directories. Without it, a link to a file elsewhere is
    /// an error.
    #[arg(long)]
    pub follow_links: bool,
}

/// Environment variables that files may use (DEC-65).
#[derive(Clone, Debug, Default, Args)]
pub struct VariableFlags {
    /// Substitute these environment variables, such as VERSION,REPLICAS, for ${V}, ${V:-default} and ${V:=default} in
    /// the files; may be repeated. A variable that is not named has its default, and is an error without one. $${V} is
    /// not substituted.
    #[arg(long = "env", value_name = "NAME", value_delimiter = ',', value_parser = variable_name)]
    pub names: Vec<String>,
    /// Substitute all environment variables with this prefix, such as CLUSTER_; may be repeated.
    #[arg(long = "env-prefix", value_name = "PREFIX", value_delimiter = ',', value_parser = variable_prefix)]
    pub prefixes: Vec<String>,
}

impl VariableFlags {
    /// Whether variables are substituted at all.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && self.prefixes.is_empty()
    }

    /// Whether the command line names a variable.
    pub fn include(&self, name: &str) -> bool {
        self.names.iter().any(|named| named == name) || self.prefixes.iter().any(|prefix| name.starts_with(&**prefix))
    }
}

/// The name of an environment variable. Rejects a path that follows the flag by mistake.
fn variable_name(text: &str) -> Result<String, ArgumentError> {
    let name = variable_prefix(text)?;
    if Path::new(text).exists() && env::var_os(text).is_none() {
        return Err(ArgumentError::PathOfVariable);
    }
    Ok(name)
}

/// The beginning of the name of an environment variable.
fn variable_prefix(text: &str) -> Result<String, ArgumentError> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    match text.is_empty() || text.starts_with(|c: char| c.is_ascii_digit()) || !text.chars().all(is_name) {
        true => Err(ArgumentError::Form("expected names of environment variables, such as VERSION,REPLICAS")),
        false => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_prefixes_say_which_variables_are_included() {
        // DEC-65
        let variables = VariableFlags { names: vec!["VERSION".to_owned()], prefixes: vec!["CLUSTER_".to_owned()] };
        for (name, want) in [
            ("VERSION", true),
            ("VERSIONS", false),
            ("VERSIO", false),
            ("version", false),
            ("CLUSTER_NAME", true),
            ("CLUSTER", false),
            ("A_CLUSTER_NAME", false),
            ("", false),
        ] {
            assert_eq!(variables.include(name), want, "{name}");
        }
        assert!(!variables.is_empty() && VariableFlags::default().is_empty());
    }

    #[test]
    fn what_is_no_name_of_a_variable_is_refused() {
        // DEC-65: the flag once had no value, and paths stood behind it.
        for text in ["", "manifests/", "cluster.yaml", "./a", "-", "1A", "A B", "é", "A="] {
            assert!(variable_name(text).is_err() && variable_prefix(text).is_err(), "{text}");
        }
        // Tests run in the folder of the package.
        assert!(variable_name("src").is_err() && variable_prefix("src").is_ok());
        assert_eq!(variable_name("_A1"), Ok("_A1".to_owned()));
    }
}
