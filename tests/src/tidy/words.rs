//! Words and marks that have no place in the repository.
//!
//! What enters: texts and Rust files. What leaves: unfinished marks, names that say nothing, numbers of tickets, switched-off
//! lints, and files that do not say what they are for.

use super::rust::RustFile;
use super::{Finding, Text};

/// Names of modules that say nothing about what is inside.
pub const EMPTY_NAMES: &[&str] = &[
    "util", "utils", "common", "helper", "helpers", "manager", "managers", "imp", "impl", "misc",
    "stuff",
];

/// Marks of unfinished work, whole words. They are put together here so that this file has none.
const UNFINISHED: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("HA", "CK"),
];

/// Words before the number of a ticket.
const TICKETS: &[&str] = &["issue", "issues", "ticket", "tickets", "bug", "pr", "gh"];

/// Marks of unfinished work.
pub fn unfinished(texts: &[Text]) -> Vec<Finding> {
    let mut found = Vec::new();
    for (text, line, content) in lines(texts) {
        for mark in UNFINISHED
            .iter()
            .filter(|mark| words(content).any(|word| word == **mark))
        {
            found.push(Finding::new(
                &text.path,
                line,
                format!("{mark}: do it, or file it"),
            ));
        }
    }
    found
}

/// Modules whose names say nothing, by file, folder or declaration.
pub fn empty_names(sources: &[RustFile]) -> Vec<Finding> {
    let mut found = Vec::new();
    for source in sources {
        let stem = source.path.trim_end_matches(".rs");
        let of_path = stem.split('/').map(|name| (1, name));
        let declared = source
            .modules
            .iter()
            .map(|module| (module.line, module.text.as_str()));
        for (line, name) in of_path
            .chain(declared)
            .filter(|(_, name)| EMPTY_NAMES.contains(name))
        {
            found.push(Finding::new(
                &source.path,
                line,
                format!("`{name}` says nothing: name the module after what it does"),
            ));
        }
    }
    found
}

/// Rust files that do not open by saying what they are for.
pub fn unopened(texts: &[Text]) -> Vec<Finding> {
    let opens = |text: &&Text| text.has_extension("rs") && !text.content.starts_with("//! ");
    let advice =
        "open the file with `//!`: what it is for, what enters, what leaves, what it never does";
    texts
        .iter()
        .filter(opens)
        .map(|text| Finding::new(&text.path, 1, advice))
        .collect()
}

/// Switched-off lints. Code that macros generate may silence the lint on the names of job handles, since there an
/// expectation might be unfulfilled.
pub fn allowed_lints(sources: &[RustFile]) -> Vec<Finding> {
    let mut found = Vec::new();
    for source in sources {
        let generated = source.path.starts_with("ax-macros/src/");
        for attribute in source
            .attributes
            .iter()
            .filter(|attribute| is_allow(&attribute.text))
        {
            if !(generated && attribute.text == "allow(non_camel_case_types)") {
                let text = "use `#[expect(…, reason = \"…\")]`, or mend what the lint says";
                found.push(Finding::new(&source.path, attribute.line, text));
            }
        }
    }
    found
}

fn is_allow(attribute: &str) -> bool {
    attribute.starts_with("allow(")
        || (attribute.starts_with("cfg_attr(") && attribute.contains(",allow("))
}

/// Numbers of tickets in comments and documents: a reader has no tracker beside the text, and the number ages.
pub fn tickets(texts: &[Text], sources: &[RustFile]) -> Vec<Finding> {
    let comments = sources.iter().flat_map(|source| {
        source
            .comments
            .iter()
            .map(move |c| (&source.path, c.line, c.text.as_str()))
    });
    let documents = texts.iter().filter(|text| !text.has_extension("rs"));
    let documents = documents.flat_map(|text| {
        text.content
            .lines()
            .enumerate()
            .map(move |(at, line)| (&text.path, at + 1, line))
    });
    let found = comments
        .chain(documents)
        .filter(|(_, _, content)| names_ticket(content));
    found
        .map(|(path, line, _)| {
            Finding::new(
                path,
                line,
                "a number of a ticket: say what it is about instead",
            )
        })
        .collect()
}

fn names_ticket(line: &str) -> bool {
    let parts: Vec<&str> = line
        .split(|c: char| c.is_whitespace() || "(),;:[]".contains(c))
        .collect();
    let is_number = |part: &str| part.parse::<u32>().is_ok();
    let hash = parts
        .iter()
        .any(|part| part.strip_prefix('#').is_some_and(is_number));
    let word = |part: &str| TICKETS.contains(&part.to_lowercase().as_str());
    hash || parts
        .windows(2)
        .any(|pair| word(pair[0]) && is_number(pair[1].trim_end_matches('.')))
}

fn lines(texts: &[Text]) -> impl Iterator<Item = (&Text, usize, &str)> {
    texts.iter().flat_map(|text| {
        text.content
            .lines()
            .enumerate()
            .map(move |(at, line)| (text, at + 1, line))
    })
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(path: &str, content: &str) -> Vec<RustFile> {
        vec![RustFile::parse(&Text::new(path, content)).unwrap()]
    }

    fn places(findings: &[Finding]) -> Vec<usize> {
        findings.iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn an_unfinished_mark_is_found() {
        let text = Text::new("a.md", format!("fine\n- {}: later\n", UNFINISHED[0]));
        assert_eq!(places(&unfinished(&[text])), [2]);
        assert!(unfinished(&[Text::new("a.md", "autodoc, XXXL")]).is_empty());
    }

    #[test]
    fn a_module_that_says_nothing_is_found() {
        assert_eq!(places(&empty_names(&parse("a/src/utils/x.rs", ""))), [1]);
        assert_eq!(places(&empty_names(&parse("a/src/helpers.rs", ""))), [1]);
        assert_eq!(
            places(&empty_names(&parse("a/src/lib.rs", "\nmod misc;"))),
            [2]
        );
        assert!(empty_names(&parse("a/src/lib.rs", "mod claim;")).is_empty());
    }

    #[test]
    fn a_file_that_does_not_open_is_found() {
        assert_eq!(places(&unopened(&[Text::new("a.rs", "use x;\n")])), [1]);
        assert!(unopened(&[Text::new("a.rs", "//! Why.\n"), Text::new("a.md", "x")]).is_empty());
    }

    #[test]
    fn a_switched_off_lint_is_found() {
        assert_eq!(
            places(&allowed_lints(&parse(
                "a/src/b.rs",
                "#![allow(x)]\n#[cfg_attr(y, allow(x))]\nfn a() {}"
            ))),
            [1, 2]
        );
        assert!(
            allowed_lints(&parse(
                "a/src/b.rs",
                "// #[allow(x)]\n#[expect(x, reason = \"y\")]\nfn a() {}"
            ))
            .is_empty()
        );
        let handle = "fn a() { quote! { #[allow(non_camel_case_types)] enum x {} }; }";
        assert!(allowed_lints(&parse("ax-macros/src/job.rs", handle)).is_empty());
        assert_eq!(
            places(&allowed_lints(&parse("ax-sdk/src/job.rs", handle))),
            [1]
        );
    }

    #[test]
    fn a_ticket_is_found_in_comments_and_documents_only() {
        let bad = ["// see #12", "/// as in issue 3.", "// (#4)", "// PR #5"];
        for line in bad {
            assert_eq!(
                places(&tickets(&[], &parse("a/src/b.rs", line))),
                [1],
                "{line}"
            );
        }
        let fine = "// \"name#2\", the 3 issues\nconst A: &str = \"#12 issue 3\"; const B: &str = r#\"x\"#;";
        assert!(tickets(&[], &parse("a/src/b.rs", fine)).is_empty());
        assert_eq!(
            places(&tickets(&[Text::new("a.md", "# 1\n\nsee #7")], &[])),
            [3]
        );
    }
}
