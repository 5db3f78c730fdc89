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
