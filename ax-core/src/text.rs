//! Texts that come from outside: checked once on the way in, cleaned on the way to a column.
//!
//! In: JSON texts of callers (refused with a reason), error texts and logs of handlers (cleaned, never refused).
//! Out: text that every database takes. Never recurses and never builds a tree of values.

use serde::de::IgnoredAny;

use crate::Error;

/// The sizes that a submit and an outcome must keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest payload in bytes; 1 MiB unless stated.
    pub payload_bytes: usize,
    /// The largest result in bytes; 1 MiB unless stated.
    pub output_bytes: usize,
    /// The deepest nesting of arrays and objects in a payload or result; 128 unless stated.
    ///
    /// `serde_json` reads at most 127 levels into a value of a type (a raw value may be deeper).
    pub depth: usize,
    /// The longest error text that is kept, in bytes; 64 KiB unless stated.
    pub error_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            payload_bytes: 1 << 20,
            output_bytes: 1 << 20,
            depth: 128,
            error_bytes: 64 << 10,
        }
    }
}

impl Limits {
    /// Checks a payload with [`check_json`].
    ///
    /// # Errors
    /// As [`check_json`].
    pub fn check_payload(&self, text: &str) -> Result<(), Error> {
        check_json("payload", text, self.payload_bytes, self.depth)
    }

    /// Checks a handler's result with [`check_json`].
    ///
    /// # Errors
    /// As [`check_json`].
    pub fn check_output(&self, text: &str) -> Result<(), Error> {
        check_json("result", text, self.output_bytes, self.depth)
    }
}

/// Checks that `text` is JSON that can be stored and read back on every database; `what` names it in errors.
///
/// At most `max_bytes` long and `max_depth` deep, no NUL (neither as a byte nor as `\u0000`), no escape that is
/// half of a surrogate pair. Nesting of any depth is measured without recursion.
///
/// # Errors
/// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) with the limit and the measured number.
pub fn check_json(what: &str, text: &str, max_bytes: usize, max_depth: usize) -> Result<(), Error> {
    if text.len() > max_bytes {
        let size = text.len();
        return Err(Error::invalid(format!(
            "{what} has {size} bytes, the limit is {max_bytes}; store the data elsewhere and pass a reference"
        )));
    }
    scan(text.as_bytes(), max_depth).map_err(|found| found.explain(what, max_depth))?;
    serde_json::from_str::<IgnoredAny>(text)
        .map(|_| ())
        .map_err(|error| Error::invalid(format!("{what} is not valid JSON: {error}")))
}

/// What the byte scan refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    TooDeep,
    Nul,
    LoneSurrogate,
}

impl Found {
    fn explain(self, what: &str, max_depth: usize) -> Error {
        Error::invalid(match self {
            Self::TooDeep => format!("{what} is nested deeper than {max_depth} levels; flatten it"),
            Self::Nul => format!("{what} holds a NUL character, which databases refuse; remove it"),
            Self::LoneSurrogate => {
                format!(
                    "{what} holds half of a surrogate pair as an escape, which is no character; remove it"
                )
            }
        })
    }
}

/// One pass over the bytes: depth outside strings, escapes inside them. Malformed JSON is left to the parser.
fn scan(bytes: &[u8], max_depth: usize) -> Result<(), Found> {
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'[' | b'{' => {
                depth += 1;
                if depth > max_depth {
                    return Err(Found::TooDeep);
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b'"' => at = scan_string(bytes, at)?,
            0 => return Err(Found::Nul),
            _ => {}
        }
    }
    Ok(())
}

/// Scans from behind the opening quote; gives the position behind the closing one.
fn scan_string(bytes: &[u8], mut at: usize) -> Result<usize, Found> {
    while let Some(byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'"' => break,
            b'\\' if bytes.get(at) == Some(&b'u') => at = scan_escape(bytes, at + 1)?,
            b'\\' => at += 1,
            0 => return Err(Found::Nul),
            _ => {}
        }
    }
    Ok(at)
}

/// Scans the digits of a `\u` escape, with its second half where it is a pair.
fn scan_escape(bytes: &[u8], at: usize) -> Result<usize, Found> {
    match hex4(bytes, at) {
        Some(0) => Err(Found::Nul),
        Some(0xD800..=0xDBFF) => {
            let paired = bytes.get(at + 4..at + 6) == Some(b"\\u");
            match hex4(bytes, at + 6) {
                Some(0xDC00..=0xDFFF) if paired => Ok(at + 10),
                _ => Err(Found::LoneSurrogate),
            }
        }
        Some(0xDC00..=0xDFFF) => Err(Found::LoneSurrogate),
        Some(_) => Ok(at + 4),
        None => Ok(at),
    }
}

fn hex4(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.iter().try_fold(0, |value, byte| {
        Some(value * 16 + char::from(*byte).to_digit(16)?)
    })
}

/// Makes a text of our own making fit a column: NUL becomes U+FFFD, and what exceeds `max_bytes` is cut at a
/// character boundary with a marker `… [cut, N bytes]` that states the original size.
///
/// The result is never longer than `max_bytes`; where not even the marker fits, it is left out.
#[must_use]
pub fn clean_text(text: &str, max_bytes: usize) -> String {
    let mut clean = String::with_capacity(text.len().min(max_bytes));
    let mut rest = text;
    while let Some(nul) = rest.find('\0') {
        clean.push_str(&rest[..nul]);
        clean.push('\u{FFFD}');
        rest = &rest[nul + 1..];
        if clean.len() > max_bytes {
            return cut(clean, text.len(), max_bytes);
        }
    }
    let room = max_bytes.saturating_sub(clean.len());
    if rest.len() <= room {
        clean.push_str(rest);
        return clean;
    }
    clean.push_str(&rest[..rest.floor_char_boundary(room)]);
    cut(clean, text.len(), max_bytes)
}

fn cut(mut clean: String, original: usize, max_bytes: usize) -> String {
    let marker = format!("… [cut, {original} bytes]");
    let (room, marker) = match max_bytes.checked_sub(marker.len()) {
        Some(room) => (room, marker.as_str()),
        None => (max_bytes, ""),
    };
    clean.truncate(clean.floor_char_boundary(room));
    clean.push_str(marker);
    clean
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    fn check(text: &str) -> Result<(), String> {
        Limits::default()
            .check_payload(text)
            .map_err(|error| error.to_string())
    }

    fn nested(depth: usize) -> String {
        "[".repeat(depth) + &"]".repeat(depth)
    }

    #[test]
    fn case_c28_depth_is_counted_without_recursion() {
        for depth in [0, 1, 127, 128] {
            let text = if depth == 0 {
                "1".to_owned()
            } else {
                nested(depth)
            };
            assert_eq!(check(&text), Ok(()), "{depth}");
        }
        for depth in [129, 10_000, 500_000] {
            let error = check(&nested(depth)).unwrap_err();
            assert_eq!(
                error, "payload is nested deeper than 128 levels; flatten it",
                "{depth}"
            );
        }
        let wide = format!("[{}1]", "[],".repeat(1_000));
        assert_eq!(check(&wide), Ok(()));
        let brackets_in_text = format!("\"{}\"", "[".repeat(1_000));
        assert_eq!(check(&brackets_in_text), Ok(()));
    }

    #[test]
    fn case_c24_nul_and_lone_surrogates_are_refused() {
        for text in ["\"a\0b\"", r#""\u0000""#, r#"{"\u0000":1}"#, "\0"] {
            assert!(check(text).unwrap_err().contains("NUL"), "{text:?}");
        }
        for text in [
            r#""\ud800""#,
            r#""\udfff""#,
            r#""\ud800\ud800""#,
            r#""\ud83dx""#,
            r#""\ud83d\n""#,
            r#""\udc00\ud800""#,
        ] {
            assert!(check(text).unwrap_err().contains("surrogate"), "{text}");
        }
        for text in [
            r#""\ud83d\ude00""#,
            r#""\\u0000""#,
            r#""\\\\ud800""#,
            r#""\u0001\u00e9""#,
            "\"😀\"",
        ] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn malformed_json_says_where() {
        for text in [
            "",
            "{",
            "[1,]",
            "nope",
            "1 2",
            "\"\\u12\"",
            "\"open",
            "\"\\",
            "]",
        ] {
            let error = check(text).unwrap_err();
            assert!(error.starts_with("payload is not valid JSON: "), "{error}");
        }
        assert!(
            check("{\"a\": 1,\n x}")
                .unwrap_err()
                .ends_with("line 2 column 2")
        );
    }

    #[test]
    fn case_c26_a_payload_over_the_limit_is_refused_with_the_numbers() {
        let text = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2));
        assert_eq!(check(&text(1 << 20)), Ok(()));
        let error = check(&text((1 << 20) + 1)).unwrap_err();
        assert!(
            error.contains("1048577 bytes, the limit is 1048576"),
            "{error}"
        );
    }

    #[test]
    fn case_c26_error_texts_are_cut_at_a_character() {
        for bytes in [65_535, 65_536, 65_537, 1 << 20, 20 << 20] {
            for unit in ["x", "é", "字", "😀"] {
                let text = unit.repeat(bytes / unit.len() + 1);
                let clean = clean_text(&text, 65_536);
                assert!(clean.len() <= 65_536);
                let marker = format!("… [cut, {} bytes]", text.len());
                assert_eq!(
                    clean.ends_with(&marker),
                    text.len() > 65_536,
                    "{bytes} {unit}"
                );
            }
        }
        assert_eq!(clean_text("abcdef", 3), "abc");
        assert_eq!(clean_text("é", 1), "");
    }

    #[test]
    fn case_c24_own_texts_are_cleaned_visibly() {
        assert_eq!(clean_text("a\0b", 100), "a\u{FFFD}b");
        assert_eq!(clean_text("\0\0", 100), "\u{FFFD}\u{FFFD}");
        assert_eq!(clean_text("plain", 100), "plain");
    }

    fn depth_of(value: &Value) -> usize {
        match value {
            Value::Array(items) => 1 + items.iter().map(depth_of).max().unwrap_or(0),
            Value::Object(fields) => 1 + fields.values().map(depth_of).max().unwrap_or(0),
            _ => 0,
        }
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[^\0]*".prop_map(Value::from),
        ];
        leaf.prop_recursive(12, 200, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map("[^\0]*", inner, 0..5)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn depth_equals_the_recursive_model(value in any_json()) {
            let (text, depth) = (value.to_string(), depth_of(&value));
            prop_assert!(check_json("x", &text, usize::MAX, depth).is_ok());
            if depth > 0 {
                prop_assert!(check_json("x", &text, usize::MAX, depth - 1).is_err());
            }
        }

        #[test]
        fn what_passes_is_read_back(text in r#"[\[\]{}",:\\u0-9a-fdD\x00 ]{0,30}"#) {
            if check_json("x", &text, usize::MAX, 100).is_ok() {
                let value = serde_json::from_str::<Value>(&text);
                prop_assert!(value.is_ok(), "{:?}", value);
                prop_assert!(!value.unwrap().to_string().contains("\\u0000"));
            }
        }

        #[test]
        fn cleaned_text_keeps_its_limit(text in "(\0|.){0,60}", max in 0..100_usize) {
            let clean = clean_text(&text, max);
            prop_assert!(clean.len() <= max);
            prop_assert!(!clean.contains('\0'));
            if !text.contains('\0') && text.len() <= max {
                prop_assert_eq!(clean, text);
            }
        }
    }
}
