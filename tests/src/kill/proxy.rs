//! Stands between workers and PostgreSQL, and cuts connections at the worst moment.
//!
//! What enters: connections of workers, orders to cut. What leaves: the same bytes to the server and back, except that an
//! ordered cut takes the reply of a commit (or of a write outside of a transaction) from the client: the client cannot
//! know whether it took place. Changes no byte, and answers nothing itself.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::wire::{Backend, Batch, Deed, Frontend};

/// When a connection is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// The commit is forwarded and has taken place; only its reply is kept back.
    AfterReply,
    /// The commit is forwarded, and both sides are cut while the server works on it.
    AtOnce,
    /// The commit is not forwarded: it never takes place.
    Withheld,
}

/// A running proxy; it ends when dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    orders: Arc<Orders>,
    listening: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Orders {
    waiting: Mutex<VecDeque<Order>>,
    cut: AtomicU64,
    withheld: AtomicU64,
}

#[derive(Debug)]
struct Order {
    cut: Cut,
    skip: u32,
}

impl Proxy {
    /// Listens on a free port of this machine for connections to `server`.
    ///
    /// # Errors
    ///
    /// When there is no free port.
    pub async fn start(server: String) -> std::io::Result<Proxy> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let orders = Arc::new(Orders::default());
        let listening = tokio::spawn(listen(listener, server, orders.clone()));
        Ok(Proxy {
            address,
            orders,
            listening,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Cuts one connection at a coming commit, after `skip` others.
    pub fn order(&self, cut: Cut, skip: u32) {
        self.orders.waiting().push_back(Order { cut, skip });
    }

    /// Orders that no commit has met yet.
    pub fn waiting(&self) -> usize {
        self.orders.waiting().len()
    }

    /// Connections cut after and before their commit was forwarded.
    pub fn tally(&self) -> (u64, u64) {
        (
            self.orders.cut.load(Ordering::SeqCst),
            self.orders.withheld.load(Ordering::SeqCst),
        )
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

impl Orders {
    fn waiting(&self) -> std::sync::MutexGuard<'_, VecDeque<Order>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is to happen to a commit that is about to be forwarded.
    fn take(&self) -> Option<Cut> {
        let mut waiting = self.waiting();
        let first = waiting.front_mut()?;
        if first.skip > 0 {
            first.skip -= 1;
            return None;
        }
        waiting.pop_front().map(|order| order.cut)
    }
}

async fn listen(listener: TcpListener, server: String, orders: Arc<Orders>) {
    while let Ok((client, _)) = listener.accept().await {
        let (server, orders) = (server.clone(), orders.clone());
        tokio::spawn(async move {
            // A server that is not there, or a side that goes away, ends the other side too: both are dropped here.
            if let Ok(server) = TcpStream::connect(server).await {
                let _ended = Wire::new(client, server, &orders).run().await;
            }
        });
    }
}

/// One connection.
struct Wire<'a> {
    client: TcpStream,
    server: TcpStream,
    frontend: Frontend,
    backend: Backend,
    orders: &'a Orders,
}

/// Whether a connection goes on.
#[derive(Debug, PartialEq, Eq)]
enum Goes {
    On,
    Cut,
}

/// How long the server may take for a commit whose reply is to be kept back.
const REPLY: Duration = Duration::from_secs(10);

impl Wire<'_> {
    fn new(client: TcpStream, server: TcpStream, orders: &Orders) -> Wire<'_> {
        // Without this each small batch waits for the other side's acknowledgement; correct all the same, but slow.
        let _slower = (client.set_nodelay(true), server.set_nodelay(true));
        Wire {
            client,
            server,
            frontend: Frontend::default(),
            backend: Backend::default(),
            orders,
        }
    }

    async fn run(mut self) -> std::io::Result<()> {
        let (mut from_client, mut from_server) =
            (Vec::with_capacity(16 << 10), Vec::with_capacity(64 << 10));
        loop {
            tokio::select! {
                n = self.client.read_buf(&mut from_client) => {
                    if n? == 0 || self.forward(&from_client).await? == Goes::Cut {
                        return Ok(());
                    }
                    from_client.clear();
                }
                n = self.server.read_buf(&mut from_server) => {
                    if n? == 0 {
                        return Ok(());
                    }
                    self.backend.push(&from_server);
                    self.client.write_all(&from_server).await?;
                    from_server.clear();
                }
            }
        }
    }

    async fn forward(&mut self, bytes: &[u8]) -> std::io::Result<Goes> {
        self.frontend.push(bytes);
        while let Some(batch) = self.frontend.batch() {
            match self.commits(&batch).then(|| self.orders.take()).flatten() {
                None => self.server.write_all(&batch.bytes).await?,
                Some(cut) => {
                    self.cut(cut, &batch).await?;
                    return Ok(Goes::Cut);
                }
            }
        }
        Ok(Goes::On)
    }

    /// Inside a transaction its end commits, outside of one every write does.
    fn commits(&self, batch: &Batch) -> bool {
        let deed = if self.backend.in_transaction() {
            Deed::Commit
        } else {
            Deed::Write
        };
        batch.deed == deed
    }

    async fn cut(&mut self, cut: Cut, batch: &Batch) -> std::io::Result<()> {
        if cut == Cut::Withheld {
            self.orders.withheld.fetch_add(1, Ordering::SeqCst);
            return Ok(());
        }
        self.server.write_all(&batch.bytes).await?;
        if cut == Cut::AfterReply {
            let _in_time = tokio::time::timeout(REPLY, self.reply()).await;
        }
        self.orders.cut.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    /// Waits until the server is done, and keeps what it says.
    async fn reply(&mut self) -> std::io::Result<()> {
        let before = self.backend.ready();
        let mut kept = Vec::with_capacity(4 << 10);
        while self.backend.ready() == before && self.server.read_buf(&mut kept).await? > 0 {
            self.backend.push(&kept);
            kept.clear();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: &[u8] = b"\x00\x00\x00\x08\x00\x03\x00\x00";
    const COMMIT: &[u8] = b"Q\x00\x00\x00\x0bCOMMIT\x00";
    const BEGUN: &[u8] = b"Z\x00\x00\x00\x05T";

    /// A server that says that a transaction is open, and notes what it is sent.
    async fn server() -> (String, JoinHandle<Vec<u8>>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let noted = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut noted = Vec::new();
            while stream.read_buf(&mut noted).await.unwrap_or(0) > 0 {
                // A client that was cut off no longer hears it.
                let _cut = stream.write_all(BEGUN).await;
            }
            noted
        });
        (address, noted)
    }

    /// What the client hears after its commit, and what the server was sent.
    async fn commit(cut: Option<Cut>) -> (Vec<u8>, Vec<u8>, (u64, u64)) {
        let (address, noted) = server().await;
        let proxy = Proxy::start(address).await.unwrap();
        if let Some(cut) = cut {
            proxy.order(cut, 0);
        }
        let mut client = TcpStream::connect(proxy.address()).await.unwrap();
        client.write_all(START).await.unwrap();
        let mut heard = vec![0; BEGUN.len()];
        client.read_exact(&mut heard).await.unwrap();
        client.write_all(COMMIT).await.unwrap();
        let mut heard = Vec::new();
        client.read_buf(&mut heard).await.unwrap_or(0);
        drop(client);
        (heard, noted.await.unwrap(), proxy.tally())
    }

    #[tokio::test]
    async fn without_an_order_everything_passes() {
        let (heard, sent, tally) = commit(None).await;
        assert_eq!((heard.as_slice(), sent), (BEGUN, [START, COMMIT].concat()));
        assert_eq!(tally, (0, 0));
    }

    #[tokio::test]
    async fn a_cut_commit_arrives_and_is_not_answered() {
        for cut in [Cut::AfterReply, Cut::AtOnce] {
            let (heard, sent, tally) = commit(Some(cut)).await;
            assert_eq!((heard, sent), (vec![], [START, COMMIT].concat()), "{cut:?}");
            assert_eq!(tally, (1, 0));
        }
    }

    #[tokio::test]
    async fn a_withheld_commit_does_not_arrive() {
        let (heard, sent, tally) = commit(Some(Cut::Withheld)).await;
        assert_eq!((heard, sent, tally), (vec![], START.to_vec(), (0, 1)));
    }
}
