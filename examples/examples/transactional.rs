//! An order and its task become true together, or not at all.
//!
//! ```text
//! cargo run -p ax-examples --example transactional
//! ```
//!
//! The shop writes its order and submits the task that mails the receipt in one transaction of its own. There is no
//! moment at which one exists without the other: a crash, an error or a rollback takes both away. The database is one
//! SQLite file in a temporary folder; on PostgreSQL the program is the same.

use std::path::PathBuf;

use ax_sdk::prelude::*;
use ax_sdk::{Ax, Handle, State, TaskId};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};

/// Mails the receipt; the order is there for certain, because the task is.
#[ax_job(name = "receipt.mail", retries = 3)]
async fn mail_receipt(order: i64, db: State<SqlitePool>) -> JobResult<String> {
    let amount: i64 = sqlx::query_scalar("SELECT amount FROM shop_order WHERE id = ?")
        .bind(order)
        .fetch_one(&*db)
        .await?;
    println!("  receipt of order {order}: {amount} euro");
    Ok(format!("mailed the receipt of order {order}"))
}

/// Places an order and submits its receipt, both in one transaction. What happens to that is the caller's choice.
async fn place_order(
    ax: &Ax,
    order: i64,
    amount: i64,
    then: Then,
) -> anyhow::Result<Handle<String>> {
    let mut transaction = ax.begin().await?;
    if let Some(shop) = transaction.sqlite() {
        sqlx::query("INSERT INTO shop_order (id, amount) VALUES (?, ?)")
            .bind(order)
            .bind(amount)
            .execute(shop)
            .await?;
    }
    let receipt = ax
        .submit_in(&mut transaction, mail_receipt::task(order))
        .await?;
    match then {
        Then::Commit => transaction.commit().await?,
        Then::RollBack => transaction.rollback().await?,
    }
    Ok(receipt)
}

/// How a transaction ends.
#[derive(Clone, Copy)]
enum Then {
    Commit,
    RollBack,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let file = TemporaryFile::new();
    let options = SqliteConnectOptions::new()
        .filename(&file.0)
        .create_if_missing(true);
    let shop = SqlitePool::connect_with(options).await?;
    sqlx::query("CREATE TABLE shop_order (id INTEGER PRIMARY KEY, amount INTEGER NOT NULL)")
        .execute(&shop)
        .await?;
    // ax lives in the database that the shop already has.
    let ax = Ax::builder(shop.clone())
        .state(shop.clone())
        .start()
        .await?;

    println!("order 1 is placed, and committed:");
    let receipt = place_order(&ax, 1, 40, Then::Commit).await?;
    println!("  {:?}", receipt.outcome().await?);
    show(&ax, &shop, 1, receipt.id()).await?;

    println!("order 2 is placed, and rolled back:");
    let receipt = place_order(&ax, 2, 70, Then::RollBack).await?;
    show(&ax, &shop, 2, receipt.id()).await?;

    println!("order 1 is placed once more, and its insert fails:");
    match place_order(&ax, 1, 40, Then::Commit).await {
        Ok(_) => println!("  that was not refused"),
        Err(error) => println!("  {error}"),
    }
    let receipts = ax.list(ax.filter()).await?.len();
    println!("  still {receipts} task in all");

    ax.shutdown().await;
    shop.close().await;
    Ok(())
}

/// Says whether an order and its task exist.
async fn show(ax: &Ax, shop: &SqlitePool, order: i64, task: TaskId) -> anyhow::Result<()> {
    let orders: i64 = sqlx::query_scalar("SELECT count(*) FROM shop_order WHERE id = ?")
        .bind(order)
        .fetch_one(shop)
        .await?;
    let state = ax
        .find(task)
        .await?
        .map_or("never existed".to_owned(), |task| {
            format!("has {}", task.state)
        });
    println!("  order {order}: {orders} in the shop, its task {state}");
    Ok(())
}

/// A database file that goes away with the program.
struct TemporaryFile(PathBuf);

impl TemporaryFile {
    fn new() -> TemporaryFile {
        TemporaryFile(
            std::env::temp_dir().join(format!("ax-transactional-{}.db", std::process::id())),
        )
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        for suffix in ["", "-wal", "-shm"] {
            // What was never made cannot be removed.
            let _missing = std::fs::remove_file(format!("{}{suffix}", self.0.display()));
        }
    }
}
