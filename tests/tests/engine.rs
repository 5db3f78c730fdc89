//! The engine through its public interface, every case on every database.
//!
//! A case takes a fresh database and asserts what a user of ax would see. Nothing sleeps to wait for something: cases
//! await outcomes, signals of handlers, or rows.

/// Makes of each case, an `async fn(&TestDatabase)`, one test per real database: `sqlite::case` and `postgres::case`.
macro_rules! engine_cases {
    ($($case:ident),* $(,)?) => {
        engine_cases!(@each sqlite Sqlite; $($case),*);
        engine_cases!(@each postgres Postgres; $($case),*);
    };
    (@each $module:ident $kind:ident; $($case:ident),*) => {
        mod $module {
            $(
                #[tokio::test]
                async fn $case() {
                    if let Some(database) = ax_tests::databases::fresh(ax_tests::databases::Kind::$kind).await {
                        super::$case(&database).await;
                    }
                }
            )*
        }
    };
}

#[path = "engine/bad_input.rs"]
mod bad_input;
#[path = "engine/cases.rs"]
mod cases;
#[path = "engine/cluster.rs"]
mod cluster;
#[path = "engine/jobs.rs"]
mod jobs;
#[path = "engine/lifecycle.rs"]
mod lifecycle;
#[path = "engine/operate.rs"]
mod operate;
#[path = "engine/schedules.rs"]
mod schedules;
#[path = "engine/submits.rs"]
mod submits;
