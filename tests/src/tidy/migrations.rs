//! The folders of migrations: in step with each other, and free of names that a database reserves.
//!
//! What enters: the texts of the repository. What leaves: files that one database has and another lacks, numbers out of
//! order, and names that need quotes somewhere. It reads the shape of `create table` and `add column`, not SQL as a whole.

use std::collections::{BTreeMap, BTreeSet};

use super::{Finding, Text};

/// Databases whose folder must be there.
const REQUIRED: &[&str] = &["postgres", "sqlite"];

/// What a line of a table that declares no column starts with.
const CONSTRAINTS: &[&str] = &[
    "primary",
    "unique",
    "check",
    "foreign",
    "constraint",
    "exclude",
    "index",
    "key",
    "partition",
];

/// Migrations that one folder has and another lacks, and names that are not `NNNN_name.sql` counted from 0001.
pub fn out_of_step(texts: &[Text]) -> Vec<Finding> {
    let mut folders: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (folder, name) in texts.iter().filter_map(|text| place(&text.path)) {
        folders.entry(folder).or_default().push(name);
    }
    let missing = REQUIRED
        .iter()
        .filter(|folder| !folders.contains_key(*folder));
    let mut found: Vec<Finding> = missing
        .map(|folder| Finding::new(format!("migrations/{folder}"), 1, "no migrations here"))
        .collect();
    let all: BTreeSet<&str> = folders.values().flatten().copied().collect();
    for (folder, names) in &folders {
        found.extend(misnamed(folder, names));
        let lacking = all.iter().filter(|name| !names.contains(name));
        let text = "is missing: every database gets every migration, an empty one if need be";
        found.extend(
            lacking.map(|name| Finding::new(format!("migrations/{folder}/{name}"), 1, text)),
        );
    }
    found
}

/// The database and the name of a migration by its path.
fn place(path: &str) -> Option<(&str, &str)> {
    path.strip_prefix("migrations/")?
        .split_once('/')
        .filter(|(_, name)| name.ends_with(".sql"))
}

fn misnamed(folder: &str, names: &[&str]) -> Vec<Finding> {
    let mut found = Vec::new();
    for (at, name) in names.iter().enumerate() {
        let number = format!("{:04}_", at + 1);
        let rest = name
            .strip_prefix(&number)
            .and_then(|rest| rest.strip_suffix(".sql"));
        let plain = |rest: &str| {
            !rest.is_empty()
                && rest
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        };
        if !rest.is_some_and(plain) {
            let text =
                format!("should be called {number}name.sql: numbers without gaps, lower case");
            found.push(Finding::new(format!("migrations/{folder}/{name}"), 1, text));
        }
    }
    found
}

/// The words of a list with one word per line and `#` before remarks.
pub fn reserved_words(list: &str) -> BTreeSet<&str> {
    list.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect()
}

/// Tables and columns whose names some database reserves.
pub fn reserved_names(texts: &[Text], reserved: &BTreeSet<&str>) -> Vec<Finding> {
    let mut found = Vec::new();
    for text in texts.iter().filter(|text| text.has_extension("sql")) {
        for (line, name) in names(&text.content) {
            if reserved.contains(name.as_str()) {
                let advice = format!(
                    "`{name}` is reserved in some database: take another name rather than quotes"
                );
                found.push(Finding::new(&text.path, line, advice));
            }
        }
    }
    found
}

/// A word or a mark of SQL, in lower case and without quotes, at its line.
type Token = (usize, String);

fn names(sql: &str) -> Vec<Token> {
    let tokens = tokens(sql);
    let mut found = Vec::new();
    for at in 0..tokens.len() {
        let word = |offset: usize| tokens.get(at + offset).map_or("", |token| token.1.as_str());
        match (word(0), word(1)) {
            ("create", _) => found.extend(table(&tokens[at..])),
            ("add", "column") => found.extend(name_after(&tokens[at + 2..])),
            _ => {}
        }
    }
    found
}

fn table(tokens: &[Token]) -> Vec<Token> {
    let Some(at) = tokens.iter().take(3).position(|token| token.1 == "table") else {
        return Vec::new();
    };
    let mut found: Vec<Token> = name_after(&tokens[at + 1..]).into_iter().collect();
    let Some(open) = tokens
        .iter()
        .position(|token| token.1 == "(" || token.1 == ";")
    else {
        return found;
    };
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.1.as_str() {
            "(" => depth += 1,
            ")" => depth -= 1,
            _ => {}
        }
        let starts = token.1 == "(" || token.1 == ",";
        if depth == 0 {
            break;
        }
        if depth == 1 && starts {
            found.extend(column(&tokens[at + 1..]));
        }
    }
    found
}

/// The column declared here. A constraint names none: it is followed by a parenthesis within three words.
fn column(tokens: &[Token]) -> Option<Token> {
    let first = tokens.first()?;
    let constraint = CONSTRAINTS.contains(&first.1.as_str())
        && tokens.iter().skip(1).take(3).any(|token| token.1 == "(");
    (!constraint).then(|| first.clone())
}

/// The name here, past `if not exists` and a schema.
fn name_after(tokens: &[Token]) -> Option<Token> {
    tokens
        .iter()
        .find(|token| !["if", "not", "exists"].contains(&token.1.as_str()))
        .cloned()
}

fn tokens(sql: &str) -> Vec<Token> {
    let mut found = Vec::new();
    for (at, line) in sql.lines().enumerate() {
        let code = line.split("--").next().unwrap_or_default().to_lowercase();
        let mut word = String::new();
        for c in code.chars().chain([' ']) {
            if c.is_alphanumeric() || "_{}$".contains(c) {
                word.push(c);
                continue;
            }
            if !word.is_empty() {
                found.push((at + 1, std::mem::take(&mut word)));
            }
            if "(),;".contains(c) {
                found.push((at + 1, c.to_string()));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(paths: &[&str]) -> Vec<Text> {
        paths.iter().map(|path| Text::new(*path, "")).collect()
    }

    fn places(findings: &[Finding]) -> Vec<&str> {
        findings
            .iter()
            .map(|finding| finding.file.as_str())
            .collect()
    }

    #[test]
    fn a_migration_that_one_database_lacks_is_found() {
        let good = [
            "migrations/postgres/0001_core.sql",
            "migrations/sqlite/0001_core.sql",
        ];
        assert!(out_of_step(&texts(&good)).is_empty());
        let lacking = [&good[..], &["migrations/postgres/0002_more.sql"]].concat();
        assert_eq!(
            places(&out_of_step(&texts(&lacking))),
            ["migrations/sqlite/0002_more.sql"]
        );
        let third = [
            &good[..],
            &[
                "migrations/mysql/README.md",
                "migrations/mysql/0001_other.sql",
            ],
        ]
        .concat();
        assert_eq!(out_of_step(&texts(&third)).len(), 3);
        assert_eq!(
            places(&out_of_step(&texts(&good[..1]))),
            ["migrations/sqlite"]
        );
    }

    #[test]
    fn a_gap_in_the_numbers_is_found() {
        let gap = [
            "migrations/postgres/0002_core.sql",
            "migrations/sqlite/0002_core.sql",
        ];
        assert_eq!(out_of_step(&texts(&gap)).len(), 2);
    }

    #[test]
    fn reserved_names_of_tables_and_columns_are_found() {
        let sql = "-- key text,\ncreate table if not exists ax_a (\n  id bytea primary key,\n  \"trigger\" text,\n  rank int default (1),\n\
                   primary key (id, key),\n  constraint rank check (id > 0)\n);\ncreate index x on ax_a (rank);\n\
                   alter table ax_a add column order int;\ncreate table key (id int);";
        let reserved = BTreeSet::from(["key", "trigger", "rank", "order", "primary", "constraint"]);
        let found = reserved_names(&[Text::new("m.sql", sql)], &reserved);
        assert_eq!(
            found.iter().map(|f| f.line).collect::<Vec<_>>(),
            [4, 5, 10, 11]
        );
    }

    #[test]
    fn the_list_of_reserved_words_knows_each_database() {
        let words = reserved_words(include_str!("../../data/sql_reserved_words.txt"));
        for word in [
            "analyse",
            "rank",
            "lateral",
            "key",
            "trigger",
            "autoincrement",
            "when",
        ] {
            assert!(words.contains(word), "{word}");
        }
        for word in ["id", "state", "fence", "payload", "priority"] {
            assert!(!words.contains(word), "{word}");
        }
    }
}
