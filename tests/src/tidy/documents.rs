//! Documents that repeat what code says: each must say the same.
//!
//! What enters: a document and the texts it repeats. What leaves: the document as it should be; [`judge`] compares, or with
//! `AX_WRITE_DOCS=1` in the environment writes it.
//!
//! A program of a document stands below the line `<!-- example: NAME -->`, between the next two code fences. It is the part
//! of `examples/examples/NAME.rs` between the lines `// ANCHOR: readme` and `// ANCHOR_END: readme`, without the
//! indentation that all its lines share.

use std::fs;
use std::path::Path;

use super::Finding;

const OPENING: &str = "<!-- example: ";
const FENCE: &str = "```";

/// Compares a document with what it should be, or writes it when `AX_WRITE_DOCS=1` says so.
///
/// # Errors
///
/// When the document cannot be written.
pub fn judge(
    root: &Path,
    path: &str,
    content: &str,
    expected: &str,
) -> std::io::Result<Vec<Finding>> {
    if content == expected {
        return Ok(Vec::new());
    }
    if std::env::var_os("AX_WRITE_DOCS").is_some_and(|write| write == "1") {
        fs::write(root.join(path), expected)?;
        return Ok(Vec::new());
    }
    let same = content
        .lines()
        .zip(expected.lines())
        .take_while(|(is, should)| is == should)
        .count();
    let should = expected.lines().nth(same).unwrap_or("the end of the text");
    let text = format!(
        "should be `{should}`; `AX_WRITE_DOCS=1 cargo test -p ax-tests --test tidy` writes it anew"
    );
    Ok(vec![Finding::new(path, same + 1, text)])
}

/// The names of the examples that a document shows, in its order.
pub fn shown_examples(document: &str) -> Vec<&str> {
    document.lines().filter_map(example_of).collect()
}

fn example_of(line: &str) -> Option<&str> {
    line.trim()
        .strip_prefix(OPENING)?
        .strip_suffix("-->")
        .map(str::trim)
}

/// A document with each of its programs taken from the example of that name, given by `program`.
///
/// # Errors
///
/// When `program` does not know an example, or no code fences follow the line that names it.
pub fn with_examples(
    document: &str,
    program: impl Fn(&str) -> Result<String, String>,
) -> Result<String, String> {
    let mut expected = String::new();
    let mut lines = document.lines();
    while let Some(line) = lines.next() {
        push(&mut expected, line);
        let Some(name) = example_of(line) else {
            continue;
        };
        let opening = lines.next().filter(|line| line.starts_with(FENCE));
        push(
            &mut expected,
            opening.ok_or_else(|| format!("no code fence below the line of example {name}"))?,
        );
        expected.push_str(&program(name)?);
        let closing = lines.find(|line| line.starts_with(FENCE));
        push(
            &mut expected,
            closing.ok_or_else(|| format!("the code fence of example {name} is not closed"))?,
        );
    }
    Ok(expected)
}

fn push(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

/// The part of an example that documents show.
///
/// # Errors
///
/// When the example has no such part.
pub fn shown_part(example: &str) -> Result<String, String> {
    let at = |mark: &str| {
        example
            .lines()
            .position(|line| line.trim() == mark)
            .ok_or(format!("no line `{mark}` in it"))
    };
    let (from, to) = (at("// ANCHOR: readme")?, at("// ANCHOR_END: readme")?);
    let lines: Vec<&str> = example.lines().take(to).skip(from + 1).collect();
    let indent = |line: &&str| line.len() - line.trim_start().len();
    let shared = lines
        .iter()
        .filter(|line| !line.trim().is_empty())
        .map(indent)
        .min()
        .unwrap_or(0);
    let mut shown = String::new();
    for line in lines {
        push(&mut shown, line.get(shared..).unwrap_or_default());
    }
    Ok(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = "# a\n<!-- example: first -->\n```rust\nold\n```\nend\n";

    #[test]
    fn a_program_is_taken_from_its_example() {
        let expected = with_examples(DOCUMENT, |name| Ok(format!("{name}();\n"))).unwrap();
        assert_eq!(
            expected,
            "# a\n<!-- example: first -->\n```rust\nfirst();\n```\nend\n"
        );
        assert_eq!(shown_examples(DOCUMENT), ["first"]);
    }

    #[test]
    fn a_document_without_fences_or_with_an_unknown_example_is_refused() {
        assert!(with_examples("<!-- example: x -->\ntext\n", |_| Ok(String::new())).is_err());
        assert!(with_examples("<!-- example: x -->\n```\ntext\n", |_| Ok(String::new())).is_err());
        assert!(with_examples(DOCUMENT, |_| Err("unknown".into())).is_err());
    }

    #[test]
    fn the_shown_part_loses_its_shared_indentation() {
        let example = "fn main() {\n    // ANCHOR: readme\n    a();\n\n        b();\n    // ANCHOR_END: readme\n}\n";
        assert_eq!(shown_part(example).unwrap(), "a();\n\n    b();\n");
        assert!(shown_part("fn main() {}\n").is_err());
    }

    #[test]
    fn a_difference_is_found_at_its_line() {
        let found = judge(Path::new("/nonexistent"), "a.md", "1\nx\n", "1\n2\n").unwrap();
        assert_eq!((found[0].file.as_str(), found[0].line), ("a.md", 2));
    }
}
