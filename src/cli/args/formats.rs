//! Output formats.

use std::path::PathBuf;

use clap::{Args, ColorChoice, ValueEnum};

use super::ArgumentError;

/// How results look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// Human-readable text.
    Text,
    /// Stable, documented format for programs.
    Json,
}

/// How findings look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FindingsFormat {
    /// Human-readable text with the lines of the files.
    Text,
    /// One line for each finding, for editors and small terminals.
    Short,
    /// Stable, documented format for programs.
    Json,
    /// SARIF 2.1.0, for code scanning.
    Sarif,
    /// JUnit XML, for test reports of CI systems.
    Junit,
    /// Annotations of GitHub Actions.
    Github,
    /// Markdown for merge requests.
    Markdown,
}

/// Findings that make a command fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// Errors.
    Error,
    /// Errors and warnings.
    Warning,
}

/// How findings are reported.
#[derive(Clone, Debug, Args)]
pub struct FindingFlags {
    /// Output format.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: FindingsFormat,
    /// Exit with code 1 if there are findings of this severity, or a worse one.
    #[arg(long, value_name = "SEVERITY", default_value = "error")]
    fail_on: FailOn,
    /// Same as --fail-on warning.
    #[arg(long, hide = true, conflicts_with = "fail_on")]
    fail_on_warnings: bool,
    /// Print only findings that make the command fail, and no verdicts.
    #[arg(short, long)]
    pub quiet: bool,
    /// When to use colors in text output. With auto: on a terminal, unless NO_COLOR is set or TERM is dumb.
    #[arg(long, value_name = "WHEN", default_value_t = ColorChoice::Auto)]
    pub color: ColorChoice,
}

impl FindingFlags {
    /// The findings that make the command fail.
    pub fn fail_on(&self) -> FailOn {
        if self.fail_on_warnings { FailOn::Warning } else { self.fail_on }
    }
}

/// How findings are reported by commands that print objects.
#[derive(Clone, Debug, Default, Args)]
pub struct ObjectFindingFlags {
    /// Format of the findings, such as sarif, and the file to write them to: sarif=FILE. Without a file they go to standard
    /// error, in the place of text. May be repeated.
    #[arg(long, value_name = "FORMAT[=FILE]", value_parser = findings_output)]
    pub findings: Vec<FindingsOutput>,
}

/// A format of findings, and where they go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FindingsOutput {
    pub format: FindingsFormat,
    /// `None` for standard error.
    pub file: Option<PathBuf>,
}

fn findings_output(text: &str) -> Result<FindingsOutput, ArgumentError> {
    let (format, file) = match text.split_once('=') {
        Some((_, "")) => return Err(ArgumentError::Form("the name of the file is empty")),
        Some((format, file)) => (format, Some(PathBuf::from(file))),
        None => (text, None),
    };
    let unknown = "expected text, short, json, sarif, junit, github or markdown, and =FILE for a file";
    let format = FindingsFormat::from_str(format, false).map_err(|_| ArgumentError::Form(unknown))?;
    Ok(FindingsOutput { format, file })
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
