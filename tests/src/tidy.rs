//! Rules that hold for the whole repository, as functions over its texts.
//!
//! What enters: the files of the work tree, read once by [`texts`]. What leaves: a list of [`Finding`]s per rule, each with
//! the file and line to go to. Nothing here runs or changes what it judges, except that [`documents`] rewrites generated
//! parts when asked to. The suite `tests/tidy.rs` has one test per rule.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

pub mod documents;
pub mod layers;
pub mod migrations;
pub mod rust;
pub mod sizes;
pub mod sql;
pub mod words;

/// One breach of a rule, at a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Path from the root of the repository, with `/`.
    pub file: String,
    /// Line, counted from 1.
    pub line: usize,
    /// What is wrong and what to do.
    pub text: String,
}

impl Finding {
    /// A breach of a rule in `file` at `line`.
    pub fn new(file: impl Into<String>, line: usize, text: impl Into<String>) -> Finding {
        Finding {
            file: file.into(),
            line,
            text: text.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.text)
    }
}

/// Fails the calling test when a rule was broken, naming every place.
///
/// # Panics
///
/// When there is a finding.
#[track_caller]
pub fn expect_none(rule: &str, findings: &[Finding]) {
    if findings.is_empty() {
        return;
    }
    let places: Vec<String> = findings.iter().map(Finding::to_string).collect();
    panic!("{rule}, but:\n  {}\n", places.join("\n  "));
}

/// One text file of the repository.
#[derive(Debug, Clone)]
pub struct Text {
    /// Path from the root of the repository, with `/`.
    pub path: String,
    /// The content.
    pub content: String,
}

impl Text {
    /// A text by path and content.
    pub fn new(path: impl Into<String>, content: impl Into<String>) -> Text {
        Text {
            path: path.into(),
            content: content.into(),
        }
    }

    /// Whether this is a file of that extension.
    pub fn has_extension(&self, extension: &str) -> bool {
        Path::new(&self.path)
            .extension()
            .is_some_and(|found| found == extension)
    }
}

/// The root of the repository.
pub fn root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package).to_path_buf()
}

const EXTENSIONS: &[&str] = &["rs", "sql", "md", "toml"];

/// Every Rust, SQL, Markdown and TOML file below `root`, in the order of their paths; build output and hidden folders are
/// left out.
///
/// # Errors
///
/// When a folder or file cannot be read.
pub fn texts(root: &Path) -> std::io::Result<Vec<Text>> {
    let mut found = Vec::new();
    collect(root, "", &mut found)?;
    found.sort_by(|a: &Text, b| a.path.cmp(&b.path));
    Ok(found)
}

fn collect(folder: &Path, prefix: &str, found: &mut Vec<Text>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        let is_folder = entry.file_type()?.is_dir();
        if is_folder && !name.starts_with('.') && name != "target" {
            collect(&entry.path(), &format!("{path}/"), found)?;
        }
        let text = Text::new(path, String::new());
        if !is_folder
            && EXTENSIONS
                .iter()
                .any(|extension| text.has_extension(extension))
        {
            found.push(Text {
                content: fs::read_to_string(entry.path())?,
                ..text
            });
        }
    }
    Ok(())
}
