//! Three processes share the work; one is killed in the middle of it, and the others take over.
//!
//! ```text
//! cargo run -p ax-examples --example cluster                       # on a SQLite file in a temporary folder
//! cargo run -p ax-examples --example cluster -- postgres://…       # on your server
//! ```
//!
//! The program starts itself three times as a node, submits parcels to be packed, kills one node with SIGKILL, and waits
//! until every parcel is packed all the same. Nodes know nothing of each other but the database. It ends by itself.

use std::io::Read as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ax_sdk::prelude::*;
use ax_sdk::{Ax, AxBuilder, Roles, State};

const NODES: usize = 3;
const PARCELS: u32 = 30;

/// Which process this is.
#[derive(Clone, Copy)]
struct Number(usize);

/// Packs a parcel, which takes a while.
#[ax_job(name = "parcel.pack")]
async fn pack(parcel: u32, ctx: JobContext, node: State<Number>) -> JobResult<String> {
    let again = if ctx.lost() > 0 {
        ", whose first node was killed"
    } else {
        ""
    };
    println!("  node {}: packs parcel {parcel}{again}", node.0.0);
    tokio::time::sleep(Duration::from_millis(1500)).await;
    Ok(format!("packed by node {}", node.0.0))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [] => {
            let folder = TemporaryFolder::new()?;
            run_cluster(&format!("sqlite://{}/parcels.db", folder.0.display())).await
        }
        [url] => run_cluster(url).await,
        [role, number, url] if role == "node" => run_node(number.parse()?, url).await,
        _ => anyhow::bail!("give a database URL, or nothing"),
    }
}

/// What all processes have in common. The fast profile notices a death within seconds.
fn ax(url: &str) -> AxBuilder {
    Ax::builder(url)
        .namespace("example-cluster")
        .configure(|config| *config = config.clone().fast())
}

/// One node: works until the program that started it is done.
async fn run_node(number: usize, url: &str) -> anyhow::Result<()> {
    let ax = ax(url)
        .state(Number(number))
        .async_slots(3)
        .configure(|config| config.read_ahead = 0)
        .start()
        .await?;
    // Nothing is ever said on stdin: it ends when the program that started this node ends, in whatever way.
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
    ax.shutdown().await;
    Ok(())
}

/// The program: a node that only submits, three others that work, and a murder.
async fn run_cluster(url: &str) -> anyhow::Result<()> {
    println!("starting {NODES} nodes");
    let mut nodes = (1..=NODES)
        .map(|number| start_node(number, url))
        .collect::<Result<Vec<_>, _>>()?;
    let ax = ax(url)
        .only_given_jobs()
        .configure(|config| {
            config.roles = Roles {
                trigger: false,
                execute: false,
            }
        })
        .start()
        .await?;
    while ax.nodes().iter().filter(|node| node.execute_on).count() < NODES {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    println!("submitting {PARCELS} parcels");
    let mut parcels = Vec::new();
    for parcel in 1..=PARCELS {
        parcels.push((parcel, ax.submit(pack::task(parcel)).await?));
    }
    tokio::time::sleep(Duration::from_millis(2200)).await;

    println!("killing node 2");
    nodes[1].kill()?;
    nodes[1].wait()?;
    let killed = Instant::now();

    let mut taken_over = 0;
    for (parcel, handle) in parcels {
        let outcome = handle.outcome().await?;
        let lost = handle.task().await?.map_or(0, |task| task.lost);
        taken_over += usize::from(lost > 0);
        if lost > 0 {
            println!("parcel {parcel} was in the hands of node 2: {outcome:?}");
        }
    }
    println!(
        "all {PARCELS} parcels are packed {:.1?} after the kill; {taken_over} were taken over",
        killed.elapsed()
    );

    for node in &mut nodes {
        drop(node.stdin.take());
        node.wait()?;
    }
    ax.shutdown().await;
    Ok(())
}

fn start_node(number: usize, url: &str) -> std::io::Result<Child> {
    let program = std::env::current_exe()?;
    Command::new(program)
        .args(["node", &number.to_string(), url])
        .stdin(Stdio::piped())
        .spawn()
}

/// A folder that goes away with the program.
struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    fn new() -> std::io::Result<TemporaryFolder> {
        let path = std::env::temp_dir().join(format!("ax-cluster-{}", std::process::id()));
        std::fs::create_dir(&path)?;
        Ok(TemporaryFolder(path))
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // Nothing is left to do about a folder that cannot be removed.
        let _stays = std::fs::remove_dir_all(&self.0);
    }
}
