//! Rules of the repository, one test each. What they read and how is in `ax_tests::tidy`.

use std::fs;

use ax_tests::tidy::rust::RustFile;
use ax_tests::tidy::{
    Finding, Text, documents, expect_none, layers, migrations, root, sizes, sql, texts, words,
};

fn repository() -> Vec<Text> {
    texts(&root()).expect("the repository can be read")
}

fn sources() -> Vec<RustFile> {
    let repository = repository();
    let files = repository.iter().filter(|text| text.has_extension("rs"));
    files
        .map(|text| RustFile::parse(text).unwrap_or_else(|error| panic!("{}: {error}", text.path)))
        .collect()
}

#[test]
fn crates_use_only_what_lies_below_them() {
    let workspace = layers::workspace(&root()).expect("cargo metadata works");
    expect_none(
        "a crate uses only crates below it",
        &layers::out_of_order(&workspace),
    );
}

#[test]
fn files_are_short() {
    expect_none("a file is one room", &sizes::files(&sources()));
}

#[test]
fn functions_are_short() {
    expect_none("a function fits a page", &sizes::functions(&sources()));
}

#[test]
fn sql_stands_only_in_the_store() {
    expect_none("only the store knows SQL", &sql::outside_store(&sources()));
}

#[test]
fn migrations_are_in_step() {
    expect_none(
        "all databases have the same migrations",
        &migrations::out_of_step(&repository()),
    );
}

#[test]
fn names_in_the_database_are_not_reserved() {
    let list = include_str!("../data/sql_reserved_words.txt");
    let found = migrations::reserved_names(&repository(), &migrations::reserved_words(list));
    expect_none("a name needs no quotes in any database", &found);
}

#[test]
fn names_of_modules_say_something() {
    expect_none(
        "a module is named after what it does",
        &words::empty_names(&sources()),
    );
}

#[test]
fn nothing_is_marked_unfinished() {
    expect_none(
        "what is in the repository is finished",
        &words::unfinished(&repository()),
    );
}

#[test]
fn files_say_what_they_are_for() {
    expect_none(
        "a Rust file opens by saying what it is for",
        &words::unopened(&repository()),
    );
}

#[test]
fn lints_are_not_switched_off() {
    expect_none(
        "a lint is met or expected, with its reason",
        &words::allowed_lints(&sources()),
    );
}

#[test]
fn no_ticket_numbers() {
    expect_none(
        "texts stand without a tracker",
        &words::tickets(&repository(), &sources()),
    );
}

#[test]
fn the_state_machine_is_the_one_in_the_documents() {
    let path = "docs/state-machine.md";
    let content = fs::read_to_string(root().join(path)).unwrap_or_default();
    let found = documents::judge(&root(), path, &content, &ax_core::state_machine_markdown());
    expect_none(
        "docs/state-machine.md is generated",
        &found.expect("the document can be written"),
    );
}

#[test]
fn programs_in_documents_are_the_examples() {
    let mut found = Vec::new();
    let repository = repository();
    let shows = |text: &&Text| {
        text.has_extension("md") && !documents::shown_examples(&text.content).is_empty()
    };
    for document in repository.iter().filter(shows) {
        match documents::with_examples(&document.content, example) {
            Ok(expected) => found.extend(
                documents::judge(&root(), &document.path, &document.content, &expected)
                    .expect("the document can be written"),
            ),
            Err(error) => found.push(Finding::new(&document.path, 1, error)),
        }
    }
    expect_none("a program in a document is one that runs", &found);
}

#[test]
fn the_readme_shows_the_quickstart() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap_or_default();
    let shown = documents::shown_examples(&readme);
    assert!(
        shown.contains(&"quickstart"),
        "README.md has no line <!-- example: quickstart -->: {shown:?}"
    );
}

fn example(name: &str) -> Result<String, String> {
    let path = format!("examples/examples/{name}.rs");
    let content =
        fs::read_to_string(root().join(&path)).map_err(|error| format!("{path}: {error}"))?;
    documents::shown_part(&content).map_err(|error| format!("{path}: {error}"))
}
