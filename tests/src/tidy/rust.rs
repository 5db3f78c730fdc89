//! A Rust file as its tokens: where its functions, tests, literals, comments and attributes are.
//!
//! What enters: a [`Text`]. What leaves: places with line numbers, counted from 1. It reads tokens, not syntax trees, so it
//! sees inside macro calls as well, and never compiles anything.

use std::ops::RangeInclusive;

use proc_macro2::{Delimiter, Group, LexError, LineColumn, Literal, TokenStream, TokenTree};

use super::Text;

/// A Rust file taken apart.
#[derive(Debug, Default)]
pub struct RustFile {
    /// Path from the root of the repository.
    pub path: String,
    /// How many lines it has.
    pub lines: usize,
    /// Every function with a body, nested ones too.
    pub functions: Vec<Function>,
    /// Every module with a body or a file of its own, by name.
    pub modules: Vec<Named>,
    /// Every string literal outside doc comments, without its quotes.
    pub strings: Vec<Named>,
    /// Every attribute without blanks, such as `cfg(test)`, doc comments left out.
    pub attributes: Vec<Named>,
    /// Every comment, one entry per line of it.
    pub comments: Vec<Named>,
    /// Lines that are compiled for tests only.
    pub tests: Vec<RangeInclusive<usize>>,
}

/// A text at a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// The text.
    pub text: String,
    /// Where it starts.
    pub line: usize,
}

/// A function with a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// From the word `fn` to the closing brace.
    pub lines: RangeInclusive<usize>,
}

impl RustFile {
    /// Takes a file apart.
    ///
    /// # Errors
    ///
    /// When its text is not made of Rust tokens.
    pub fn parse(text: &Text) -> Result<RustFile, LexError> {
        let tokens: TokenStream = text.content.parse()?;
        let mut parts = RustFile {
            path: text.path.clone(),
            lines: text.content.lines().count(),
            ..RustFile::default()
        };
        let mut blanked = text
            .content
            .lines()
            .map(|line| line.chars().collect())
            .collect();
        parts.read(tokens, &mut blanked);
        parts.comments = comments(&blanked);
        Ok(parts)
    }

    /// Whether the file is one of tests: an integration test, a case for trybuild, or a module `tests`.
    pub fn is_test(&self) -> bool {
        self.path.contains("/tests/") || self.path.ends_with("/tests.rs")
    }

    /// Whether a line is compiled for tests only.
    pub fn in_tests(&self, line: usize) -> bool {
        self.is_test() || self.tests.iter().any(|range| range.contains(&line))
    }

    fn read(&mut self, tokens: TokenStream, blanked: &mut Vec<Vec<char>>) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        for (at, token) in tokens.iter().enumerate() {
            match token {
                TokenTree::Ident(word) if word == "fn" => {
                    self.functions.extend(function(&tokens[at..]))
                }
                TokenTree::Ident(word) if word == "mod" => {
                    self.modules.extend(name_after(&tokens[at..]))
                }
                TokenTree::Punct(mark) if mark.as_char() == '#' => self.attribute(&tokens[at..]),
                TokenTree::Literal(literal) => self.literal(literal, blanked),
                TokenTree::Group(group) if !is_doc(group) => self.read(group.stream(), blanked),
                _ => {}
            }
        }
    }

    fn attribute(&mut self, tokens: &[TokenTree]) {
        let group = tokens.iter().take(3).find_map(|token| match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket => Some(group),
            _ => None,
        });
        let Some(group) = group.filter(|group| !is_doc(group)) else {
            return;
        };
        let line = first_line(&tokens[0]);
        let text: String = group.stream().to_string().split_whitespace().collect();
        if text == "cfg(test)" || text.starts_with("cfg(all(test,") {
            self.tests.extend(end_of_item(tokens).map(|end| line..=end));
        }
        self.attributes.push(Named { text, line });
    }

    fn literal(&mut self, literal: &Literal, blanked: &mut [Vec<char>]) {
        let span = literal.span();
        blank(blanked, span.start(), span.end());
        let text = literal.to_string();
        let is_char = text.starts_with('\'') || text.starts_with("b'");
        if let Some((_, inner)) = text.split_once('"').filter(|_| !is_char) {
            let inner = inner.trim_end_matches('#').trim_end_matches('"').to_owned();
            self.strings.push(Named {
                text: inner,
                line: span.start().line,
            });
        }
    }
}

fn first_line(token: &TokenTree) -> usize {
    token.span().start().line
}

fn is_doc(group: &Group) -> bool {
    let first = group.stream().into_iter().next();
    group.delimiter() == Delimiter::Bracket
        && matches!(first, Some(TokenTree::Ident(word)) if word == "doc")
}

/// The last line of the item that starts here: its body's end, or its semicolon.
fn end_of_item(tokens: &[TokenTree]) -> Option<usize> {
    tokens.iter().find_map(|token| match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
            Some(group.span_close().end().line)
        }
        TokenTree::Punct(mark) if mark.as_char() == ';' => Some(first_line(token)),
        _ => None,
    })
}

fn function(tokens: &[TokenTree]) -> Option<Function> {
    let TokenTree::Ident(name) = tokens.get(1)? else {
        return None;
    };
    let has_body = tokens.iter().find_map(|token| match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => Some(true),
        TokenTree::Punct(mark) if mark.as_char() == ';' => Some(false),
        _ => None,
    });
    let lines = first_line(&tokens[0])..=end_of_item(tokens)?;
    has_body?.then(|| Function {
        name: name.to_string(),
        lines,
    })
}

fn name_after(tokens: &[TokenTree]) -> Option<Named> {
    let TokenTree::Ident(name) = tokens.get(1)? else {
        return None;
    };
    Some(Named {
        text: name.to_string(),
        line: first_line(&tokens[1]),
    })
}

fn blank(lines: &mut [Vec<char>], start: LineColumn, end: LineColumn) {
    for line in start.line..=end.line {
        let Some(chars) = lines.get_mut(line - 1) else {
            continue;
        };
        let from = if line == start.line { start.column } else { 0 };
        let to = if line == end.line {
            end.column
        } else {
            chars.len()
        };
        chars.iter_mut().take(to).skip(from).for_each(|c| *c = ' ');
    }
}

/// Comments of lines in which no literal is left.
fn comments(lines: &[Vec<char>]) -> Vec<Named> {
    let mut found = Vec::new();
    let mut in_block = false;
    for (at, chars) in lines.iter().enumerate() {
        let line: String = chars.iter().collect();
        let opening = if in_block {
            Some(0)
        } else {
            line.find("//").into_iter().chain(line.find("/*")).min()
        };
        let Some(opening) = opening else { continue };
        let text = line[opening..].to_owned();
        in_block = (in_block || text.starts_with("/*")) && !text.contains("*/");
        found.push(Named { text, line: at + 1 });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(content: &str) -> RustFile {
        RustFile::parse(&Text::new("a/src/b.rs", content)).unwrap()
    }

    #[test]
    fn finds_functions_with_their_lines() {
        let file = parse(
            "fn one() {\n}\ntrait T {\n  fn none();\n  fn two() -> u8\n  {\n    fn three() {}\n    1\n  }\n}\n",
        );
        let found: Vec<(&str, usize, usize)> = file
            .functions
            .iter()
            .map(|f| (f.name.as_str(), *f.lines.start(), *f.lines.end()))
            .collect();
        assert_eq!(found, [("one", 1, 2), ("two", 5, 9), ("three", 7, 7)]);
    }

    #[test]
    fn finds_lines_compiled_for_tests() {
        let file = parse(
            "fn a() {}\n#[cfg(test)]\nmod tests {\n  fn b() {}\n}\n#[cfg(test)]\nuse x::y;\nfn c() {}\n",
        );
        assert_eq!(file.tests, [2..=5, 6..=7]);
        assert!(file.in_tests(4) && !file.in_tests(1) && !file.in_tests(8));
    }

    #[test]
    fn strings_are_no_comments_and_comments_are_no_strings() {
        let file = parse(
            "//! Doc \"quoted\".\nconst A: &str = \"http://x // no\"; // yes \"no\"\nconst B: &str = r#\"two\n// lines\"#;\n",
        );
        let strings: Vec<&str> = file.strings.iter().map(|s| s.text.as_str()).collect();
        assert_eq!(strings, ["http://x // no", "two\n// lines"]);
        let comments: Vec<(usize, &str)> = file
            .comments
            .iter()
            .map(|c| (c.line, c.text.as_str()))
            .collect();
        assert_eq!(comments, [(1, "//! Doc \"quoted\"."), (2, "// yes \"no\"")]);
    }

    #[test]
    fn finds_modules_and_attributes() {
        let file = parse(
            "#![deny(x)]\nmod a;\n#[expect(dead_code, reason = \"r\")]\nmod b { mod c {} }\n",
        );
        let modules: Vec<&str> = file.modules.iter().map(|m| m.text.as_str()).collect();
        assert_eq!(modules, ["a", "b", "c"]);
        let attributes: Vec<(usize, &str)> = file
            .attributes
            .iter()
            .map(|a| (a.line, a.text.as_str()))
            .collect();
        assert_eq!(
            attributes,
            [(1, "deny(x)"), (3, "expect(dead_code,reason=\"r\")")]
        );
    }
}
