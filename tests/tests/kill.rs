//! A few faults on real processes: enough to see that the kill harness works and that nothing obvious is lost.
//!
//! The long runs are `./ci torture`.

use std::net::TcpStream;
use std::process::{Command, Stdio};

use ax_tests::kill::verdict::Verdict;

fn torture(arguments: &[&str]) -> Verdict {
    let output = Command::new(env!("CARGO_BIN_EXE_kill-harness"))
        .args(arguments)
        .stderr(Stdio::inherit())
        .output()
        .expect("the harness starts");
    let line = String::from_utf8(output.stdout).expect("JSON is UTF-8");
    let verdict: Verdict =
        serde_json::from_str(line.trim()).unwrap_or_else(|error| panic!("{error} in {line:?}"));
    assert_eq!(
        output.status.success(),
        verdict.ok,
        "the exit code says the same"
    );
    assert!(verdict.ok, "{line}");
    assert!(
        verdict.submitted > 0 && verdict.executed >= verdict.submitted,
        "{line}"
    );
    verdict
}

#[test]
fn nothing_is_lost_by_kills_on_one_sqlite_file() {
    let faults = [
        "--kills",
        "3",
        "--pauses",
        "1",
        "--nodes",
        "2",
        "--tasks-per-second",
        "40",
    ];
    let verdict = torture(&[&["--database", "sqlite"], &faults[..]].concat());
    assert_eq!((verdict.deeds.kills, verdict.deeds.pauses), (3, 1));
}

#[test]
fn nothing_is_lost_by_kills_and_cuts_on_postgres() {
    if !postgres_is_there() {
        eprintln!("PostgreSQL: left out");
        return;
    }
    let faults = [
        "--kills",
        "3",
        "--pauses",
        "2",
        "--cuts",
        "8",
        "--nodes",
        "2",
        "--tasks-per-second",
        "60",
    ];
    let verdict = torture(&[&["--database", "postgres"], &faults[..]].concat());
    assert_eq!(
        (
            verdict.deeds.kills,
            verdict.deeds.pauses,
            verdict.deeds.cuts
        ),
        (3, 2, 8)
    );
}

fn postgres_is_there() -> bool {
    let required = std::env::var_os("AX_REQUIRE_DATABASES").is_some_and(|value| value == "1");
    required
        || std::env::var_os("AX_TEST_POSTGRES_URL").is_some()
        || TcpStream::connect("127.0.0.1:5432").is_ok()
}
