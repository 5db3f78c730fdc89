//! The SQL of ax's schema, embedded: one folder per database, numbered files, the same numbers in each.
//!
//! What leaves: [`Migration`]s in order, each with its text, a checksum and its single statements. Every statement can
//! be run twice, so that a migration that was cut off is simply run again. Nothing here talks to a database.

/// One numbered file.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    /// Its number, from 1 without gaps.
    pub version: i64,
    /// Its name without number and ending.
    pub name: &'static str,
    /// Its whole text.
    pub sql: &'static str,
}

macro_rules! migrations {
    ($($folder:ident $folder_name:literal)*, $($version:literal $name:literal $file:literal)*) => {
        migrations!(@each [$($folder $folder_name)*] [$($version $name $file)*]);
    };
    (@each [] $files:tt) => {};
    (@each [$folder:ident $folder_name:literal $($rest:tt)*] [$($version:literal $name:literal $file:literal)*]) => {
        #[doc = concat!("The migrations for ", $folder_name, ", in order.")]
        pub const $folder: &[Migration] = &[$(Migration {
            version: $version,
            name: $name,
            sql: include_str!(concat!("../", $folder_name, "/", $file)),
        }),*];
        migrations!(@each [$($rest)*] [$($version $name $file)*]);
    };
}

migrations! {
    SQLITE "sqlite" POSTGRES "postgres",
    1 "foundation" "0001_foundation.sql"
}

impl Migration {
    /// The statements of the file, comments in front of them included, without the final semicolon.
    pub fn statements(&self) -> impl Iterator<Item = &'static str> {
        self.sql
            .split(";\n")
            .map(str::trim)
            .filter(|text| !text.is_empty())
    }

    /// A number that changes with the text, as 16 hexadecimal digits (FNV-1a over all but line-end characters).
    #[must_use]
    pub fn checksum(&self) -> String {
        let hash = self
            .sql
            .bytes()
            .filter(|byte| !matches!(byte, b'\r' | b'\n'))
            .fold(OFFSET, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(PRIME)
            });
        format!("{hash:016x}")
    }
}

const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_count_from_one_in_every_folder() {
        for folder in [SQLITE, POSTGRES] {
            for (place, migration) in (1..).zip(folder) {
                assert_eq!(migration.version, place, "{}", migration.name);
            }
        }
    }

    #[test]
    fn every_database_gets_the_same_tables_columns_and_indexes() {
        let shape = |folder: &[Migration]| -> Vec<String> {
            let words = folder
                .iter()
                .flat_map(Migration::statements)
                .flat_map(str::lines);
            words
                .filter(|line| line.starts_with("CREATE") || is_column(line))
                .map(normal)
                .collect()
        };
        assert_eq!(shape(SQLITE), shape(POSTGRES));
    }

    /// A line of four blanks and a name; `=` stands only among storage options.
    fn is_column(line: &str) -> bool {
        let named = line
            .strip_prefix("    ")
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase()));
        named && !line.contains(" = ")
    }

    /// A line of DDL with what the databases write differently taken out.
    fn normal(line: &str) -> String {
        let line = line.replace("OR REPLACE ", "");
        line.replace("BYTEA", "BLOB").replace("BIGINT", "INTEGER")
    }

    #[test]
    fn statements_are_single_and_complete() {
        for migration in SQLITE.iter().chain(POSTGRES) {
            for statement in migration.statements() {
                assert!(!statement.contains(';'), "{statement}");
                let first = statement
                    .lines()
                    .find(|line| !line.is_empty() && !line.starts_with("--"));
                assert!(
                    first.is_some_and(|line| line.starts_with(char::is_uppercase)),
                    "{statement}"
                );
            }
        }
    }

    #[test]
    fn a_checksum_follows_the_text_but_not_the_line_ends() {
        let one = Migration {
            version: 1,
            name: "a",
            sql: "SELECT 1;\n",
        };
        let crlf = Migration {
            sql: "SELECT 1;\r\n",
            ..one
        };
        let other = Migration {
            sql: "SELECT 2;\n",
            ..one
        };
        assert_eq!(one.checksum(), crlf.checksum());
        assert_ne!(one.checksum(), other.checksum());
    }
}
