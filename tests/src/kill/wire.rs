//! Reads along in the conversation between a client and PostgreSQL, just enough to know what must not be answered.
//!
//! What enters: bytes as they pass. What leaves: from the client whole batches, each with what it does to the database;
//! from the server whether a transaction is open and how often it said that it is ready. Changes no byte.

use std::collections::HashMap;

/// What a batch asks of the database.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Deed {
    /// It reads, or prepares.
    #[default]
    Read,
    /// It writes; outside of a transaction it thereby commits too.
    Write,
    /// It ends a transaction for good.
    Commit,
}

/// What the client sent up to a point at which the server answers.
#[derive(Debug, PartialEq, Eq)]
pub struct Batch {
    /// The bytes, untouched.
    pub bytes: Vec<u8>,
    /// The most that it asks for.
    pub deed: Deed,
}

/// The client's side of one connection.
#[derive(Debug, Default)]
pub struct Frontend {
    started: bool,
    unread: Vec<u8>,
    held: Vec<u8>,
    deed: Deed,
    statements: HashMap<Vec<u8>, Deed>,
    portals: HashMap<Vec<u8>, Deed>,
}

impl Frontend {
    /// Takes bytes of the client.
    pub fn push(&mut self, bytes: &[u8]) {
        self.unread.extend_from_slice(bytes);
    }

    /// The next whole batch, if there is one by now.
    pub fn batch(&mut self) -> Option<Batch> {
        while let Some(message) = self.message() {
            let ends = self.read(&message);
            self.held.extend_from_slice(&message);
            if ends {
                let (bytes, deed) = (
                    std::mem::take(&mut self.held),
                    std::mem::take(&mut self.deed),
                );
                return Some(Batch { bytes, deed });
            }
        }
        None
    }

    /// The first message of a connection has no type byte.
    fn message(&mut self) -> Option<Vec<u8>> {
        let length = length(&self.unread, usize::from(self.started))?;
        (self.unread.len() >= length).then(|| self.unread.drain(..length).collect())
    }

    /// Notes what a message does; says whether the server answers after it.
    fn read(&mut self, message: &[u8]) -> bool {
        if !self.started {
            self.started = true;
            return true;
        }
        let (kind, mut body) = (message[0], &message[5..]);
        match kind {
            b'Q' => self.deed = self.deed.max(deed_of(text(&mut body))),
            b'P' => {
                let name = text(&mut body).to_vec();
                self.statements.insert(name, deed_of(text(&mut body)));
            }
            b'B' => {
                let portal = text(&mut body).to_vec();
                let deed = self
                    .statements
                    .get(text(&mut body))
                    .copied()
                    .unwrap_or_default();
                self.portals.insert(portal, deed);
            }
            b'E' => {
                let deed = self
                    .portals
                    .get(text(&mut body))
                    .copied()
                    .unwrap_or_default();
                self.deed = self.deed.max(deed);
            }
            _ => {}
        }
        !matches!(kind, b'P' | b'B' | b'E' | b'D' | b'C')
    }
}

/// The server's side of one connection.
#[derive(Debug, Default)]
pub struct Backend {
    unread: Vec<u8>,
    in_transaction: bool,
    ready: u64,
}

impl Backend {
    /// Takes bytes of the server.
    pub fn push(&mut self, bytes: &[u8]) {
        self.unread.extend_from_slice(bytes);
        let mut from = 0;
        while let Some(length) =
            length(&self.unread[from..], 1).filter(|n| from + n <= self.unread.len())
        {
            if self.unread[from] == b'Z' {
                self.in_transaction = self.unread[from + 5] == b'T';
                self.ready += 1;
            }
            from += length;
        }
        self.unread.drain(..from);
    }

    /// Whether a transaction is open that can still commit.
    pub fn in_transaction(&self) -> bool {
        self.in_transaction
    }

    /// How often the server was ready for the next batch.
    pub fn ready(&self) -> u64 {
        self.ready
    }
}

/// The length of the message at the head, when that much is known: its own length field counts itself, not the type.
fn length(bytes: &[u8], kind: usize) -> Option<usize> {
    let field: [u8; 4] = bytes.get(kind..kind + 4)?.try_into().ok()?;
    Some(kind + usize::try_from(u32::from_be_bytes(field)).ok()?)
}

/// Takes a text that ends with NUL.
fn text<'a>(body: &mut &'a [u8]) -> &'a [u8] {
    let end = body
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(body.len());
    let text = &body[..end];
    *body = body.get(end + 1..).unwrap_or_default();
    text
}

/// What a statement does, by its words; a comment at its head is passed over.
fn deed_of(statement: &[u8]) -> Deed {
    let text = String::from_utf8_lossy(statement).to_lowercase();
    let mut lines = text
        .lines()
        .map(str::trim)
        .skip_while(|line| line.is_empty() || line.starts_with("--"));
    let first = lines
        .next()
        .unwrap_or_default()
        .split(|c: char| !c.is_alphabetic())
        .next()
        .unwrap_or_default();
    match first {
        "commit" | "end" => Deed::Commit,
        "insert" | "update" | "delete" | "merge" => Deed::Write,
        "with"
            if ["insert into", "update ", "delete from"]
                .iter()
                .any(|word| text.contains(word)) =>
        {
            Deed::Write
        }
        _ => Deed::Read,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: &str, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
        [kind.as_bytes(), &length, body].concat()
    }

    fn started() -> Frontend {
        let mut client = Frontend::default();
        client.push(&message("", b"\x00\x03\x00\x00user\0ax\0\0"));
        assert_eq!(client.batch().unwrap().deed, Deed::Read);
        client
    }

    fn deed(client: &mut Frontend, bytes: &[u8]) -> Deed {
        client.push(bytes);
        let batch = client.batch().expect("a whole batch");
        assert_eq!(batch.bytes, bytes, "not a byte is changed");
        assert_eq!(client.batch(), None);
        batch.deed
    }

    #[test]
    fn a_simple_commit_is_seen() {
        let mut client = started();
        assert_eq!(
            deed(&mut client, &message("Q", b"BEGIN READ WRITE\0")),
            Deed::Read
        );
        assert_eq!(deed(&mut client, &message("Q", b"commit\0")), Deed::Commit);
        assert_eq!(deed(&mut client, &message("Q", b"ROLLBACK\0")), Deed::Read);
    }

    #[test]
    fn an_extended_statement_counts_where_it_is_executed() {
        let mut client = started();
        let parse = [
            message("P", b"s1\0INSERT INTO t VALUES ($1)\0\0\0"),
            message("D", b"Ss1\0"),
            message("S", b""),
        ];
        assert_eq!(deed(&mut client, &parse.concat()), Deed::Read);
        let run = [
            message("B", b"\0s1\0\0\0\0\0\0\0"),
            message("E", b"\0\0\0\0\0"),
            message("S", b""),
        ];
        assert_eq!(deed(&mut client, &run.concat()), Deed::Write);
        let parse = [
            message("P", b"s2\0COMMIT\0\0\0"),
            message("B", b"\0s2\0\0\0\0\0\0\0"),
            message("S", b""),
        ];
        assert_eq!(
            deed(&mut client, &parse.concat()),
            Deed::Read,
            "bound is not executed"
        );
        let run = [message("E", b"\0\0\0\0\0"), message("S", b"")];
        assert_eq!(deed(&mut client, &run.concat()), Deed::Commit);
    }

    #[test]
    fn a_batch_comes_whole_or_not_at_all() {
        let mut client = started();
        let bytes = [
            message("B", b"\0s\0\0\0\0\0\0\0"),
            message("E", b"\0\0\0\0\0"),
            message("S", b""),
        ]
        .concat();
        for at in 1..bytes.len() {
            client.push(&bytes[..at]);
            assert_eq!(client.batch(), None, "cut at {at}");
            client.push(&bytes[at..]);
            assert_eq!(client.batch().unwrap().bytes, bytes);
        }
    }

    #[test]
    fn statements_are_told_apart_by_their_words() {
        let check = |text: &str, deed: Deed| assert_eq!(deed_of(text.as_bytes()), deed, "{text}");
        check("SELECT 1", Deed::Read);
        check("-- ax_task_due\n UPDATE ax_task SET state = 2", Deed::Write);
        check("WITH a AS (SELECT 1) SELECT * FROM a", Deed::Read);
        check(
            "with a as (delete from t returning 1) select 1",
            Deed::Write,
        );
        check("COMMIT;", Deed::Commit);
        check("", Deed::Read);
    }

    #[test]
    fn the_server_says_when_it_is_ready_and_where() {
        let mut server = Backend::default();
        let bytes = [
            message("C", b"BEGIN\0"),
            message("Z", b"T"),
            message("C", b"COMMIT\0"),
            message("Z", b"I"),
        ]
        .concat();
        let first = 11 + 4; // up to the middle of the second message
        server.push(&bytes[..first]);
        assert_eq!((server.ready(), server.in_transaction()), (0, false));
        server.push(&bytes[first..first + 4]);
        assert_eq!((server.ready(), server.in_transaction()), (1, true));
        server.push(&bytes[first + 4..]);
        assert_eq!((server.ready(), server.in_transaction()), (2, false));
    }
}
