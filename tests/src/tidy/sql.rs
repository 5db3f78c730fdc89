//! Where SQL may stand: in the store of the engine and in the migrations. Drivers begin and end transactions and ask a
//! connection about itself; nothing else.
//!
//! What enters: Rust files. What leaves: statements in other rooms of the libraries. Tests, benchmarks and examples may speak
//! SQL of their own.

use super::Finding;
use super::rust::RustFile;

/// Packages whose business is not the library's.
const OUTSIDE: &[&str] = &["tests/", "bench/", "examples/"];

/// The only rooms that know SQL.
const STORE: &[&str] = &["ax-engine/src/store/", "ax-engine/src/store.rs"];

/// How a statement begins, and what must follow somewhere for it to be one.
const STATEMENTS: &[(&str, &[&str])] = &[
    ("select ", &[" from ", "select 1", "("]),
    ("insert into ", &[]),
    ("update ", &[" set "]),
    ("delete from ", &[]),
    ("with ", &[" as ("]),
    (
        "create ",
        &[
            "create table",
            "create index",
            "create unique index",
            "create view",
        ],
    ),
    ("alter table ", &[]),
    ("drop table ", &[]),
    ("pragma ", &[]),
    ("explain ", &["select ", "update ", "delete "]),
    ("begin ", &["begin immediate", "begin transaction"]),
    ("notify ", &["notify ax"]),
    ("listen ", &["listen ax"]),
];

/// Statements outside the store.
pub fn outside_store(sources: &[RustFile]) -> Vec<Finding> {
    let mut found = Vec::new();
    for source in sources.iter().filter(|source| !speaks_sql(source)) {
        for string in source
            .strings
            .iter()
            .filter(|string| !source.in_tests(string.line))
        {
            if is_statement(&string.text) && !(is_driver(source) && names_no_table(&string.text)) {
                let text = "SQL outside ax-engine/src/store: make it a statement of the store";
                found.push(Finding::new(&source.path, string.line, text));
            }
        }
    }
    found
}

fn speaks_sql(source: &RustFile) -> bool {
    STORE
        .iter()
        .chain(OUTSIDE)
        .any(|place| source.path.starts_with(place))
        || source.is_test()
}

fn is_driver(source: &RustFile) -> bool {
    source.path.starts_with("ax-engine/src/db/")
}

fn names_no_table(text: &str) -> bool {
    let text = text.to_lowercase();
    ![" from ", " into ", "update ", "table ", "index ", "ax_"]
        .iter()
        .any(|part| text.contains(part))
}

fn is_statement(text: &str) -> bool {
    let text = text.replace("\\n", " ").to_lowercase();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    STATEMENTS.iter().any(|(begin, any)| {
        text.starts_with(begin) && (any.is_empty() || any.iter().any(|part| text.contains(part)))
    })
}

#[cfg(test)]
mod tests {
    use super::super::Text;
    use super::*;

    fn check(path: &str, content: &str) -> usize {
        outside_store(&[RustFile::parse(&Text::new(path, content)).unwrap()]).len()
    }

    #[test]
    fn a_statement_outside_the_store_is_found() {
        let statement = "fn a() { run(\"\n  SELECT id\n  FROM ax_task\"); }";
        assert_eq!(check("ax-engine/src/claim.rs", statement), 1);
        assert_eq!(check("ax-sdk/src/lib.rs", statement), 1);
        assert_eq!(check("ax-engine/src/store/text.rs", statement), 0);
        assert_eq!(check("ax-engine/src/db/sqlite.rs", statement), 1);
        assert_eq!(
            check(
                "ax-engine/src/db/sqlite.rs",
                "fn a() { run(\"BEGIN IMMEDIATE\"); }"
            ),
            0
        );
        assert_eq!(
            check(
                "ax-engine/src/claim.rs",
                "fn a() { run(\"BEGIN IMMEDIATE\"); }"
            ),
            1
        );
        assert_eq!(check("bench/src/main.rs", statement), 0);
        assert_eq!(
            check(
                "ax-sdk/src/lib.rs",
                &format!("#[cfg(test)]\nmod tests {{ {statement} }}")
            ),
            0
        );
    }

    #[test]
    fn sentences_are_no_statements() {
        for text in [
            "update the lease",
            "select a database",
            "with care",
            "begin again",
            "delete it",
            "create the table",
        ] {
            assert!(!is_statement(text), "{text}");
        }
        for text in [
            "update ax_task set x = 1",
            "DELETE FROM t",
            "with a as (select 1)",
            "pragma journal_mode",
        ] {
            assert!(is_statement(text), "{text}");
        }
    }
}
