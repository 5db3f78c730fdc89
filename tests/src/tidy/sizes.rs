//! How long files and functions may be.
//!
//! What enters: Rust files. What leaves: those that no longer fit a reader's head. Tests do not count.

use super::Finding;
use super::rust::RustFile;

/// Lines of a file, without its tests.
pub const MOST_LINES_OF_A_FILE: usize = 500;

/// Lines of a function, from the word `fn` to the closing brace.
pub const MOST_LINES_OF_A_FUNCTION: usize = 70;

/// Files that are too long.
pub fn files(sources: &[RustFile]) -> Vec<Finding> {
    sources
        .iter()
        .filter(|source| !source.is_test())
        .filter_map(file)
        .collect()
}

fn file(source: &RustFile) -> Option<Finding> {
    let tests: usize = source
        .tests
        .iter()
        .map(|range| range.end() - range.start() + 1)
        .sum();
    let lines = source.lines.saturating_sub(tests);
    let text = format!(
        "{lines} lines without tests, {MOST_LINES_OF_A_FILE} at most: give a part of it a file of its own"
    );
    (lines > MOST_LINES_OF_A_FILE).then(|| Finding::new(&source.path, 1, text))
}

/// Functions that are too long.
pub fn functions(sources: &[RustFile]) -> Vec<Finding> {
    sources.iter().flat_map(functions_of).collect()
}

fn functions_of(source: &RustFile) -> Vec<Finding> {
    let mut found = Vec::new();
    for function in source
        .functions
        .iter()
        .filter(|function| !source.in_tests(*function.lines.start()))
    {
        let lines = function.lines.end() - function.lines.start() + 1;
        if lines > MOST_LINES_OF_A_FUNCTION {
            let name = &function.name;
            let text = format!(
                "fn {name} has {lines} lines, {MOST_LINES_OF_A_FUNCTION} at most: name its steps"
            );
            found.push(Finding::new(&source.path, *function.lines.start(), text));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::Text;
    use super::*;

    fn parse(path: &str, content: &str) -> Vec<RustFile> {
        vec![RustFile::parse(&Text::new(path, content)).unwrap()]
    }

    #[test]
    fn a_file_of_501_lines_is_found_and_its_tests_do_not_count() {
        let fits = "const A: u8 = 1;\n".repeat(500);
        let tests = format!("#[cfg(test)]\nmod tests {{\n{fits}}}\n");
        assert!(files(&parse("a/src/b.rs", &format!("{fits}{tests}"))).is_empty());
        assert_eq!(
            files(&parse("a/src/b.rs", &format!("{fits}\n{tests}"))).len(),
            1
        );
        assert!(files(&parse("a/tests/b.rs", &format!("{fits}\n"))).is_empty());
    }

    #[test]
    fn a_function_of_71_lines_is_found() {
        let fits = format!("fn a() {{\n{}}}\n", "    a();\n".repeat(68));
        let long = format!("\nfn b() {{\n{}}}\n", "    a();\n".repeat(69));
        assert!(functions(&parse("a/src/b.rs", &fits)).is_empty());
        let found = functions(&parse("a/src/b.rs", &long));
        assert_eq!(found.iter().map(|f| f.line).collect::<Vec<_>>(), [2]);
        assert!(
            functions(&parse(
                "a/src/b.rs",
                &format!("#[cfg(test)]\nmod tests {{ {long} }}")
            ))
            .is_empty()
        );
    }
}
