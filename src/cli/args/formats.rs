//! Output formats.

use clap::ValueEnum;

/// How results look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// Human-readable text.
    Text,
    /// Stable, documented format for programs.
    Json,
}

/// How a plan looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PlanFormat {
    /// Human-readable text.
    Text,
    /// Stable, documented format for programs.
    Json,
    /// Markdown for merge requests.
    Markdown,
}

/// How objects are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ObjectFormat {
    /// One document per object.
    Yaml,
    /// One array of objects.
    Json,
}
