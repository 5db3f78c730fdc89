//! The line between a node and a PostgreSQL server.
//!
//! What enters: connections of a node, orders of a test. What leaves: the same bytes to the server and back, or nothing at
//! all. It looks into no byte. A line that is silent closes nothing: what was sent waits, as packets do that are sent again.

use std::net::SocketAddr;
use std::time::Duration;

use ax_engine::clock::{Clock as _, SystemClock};
use sqlx::postgres::PgConnectOptions;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What the line does with bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speech {
    /// It carries them.
    Carries,
    /// It carries nothing and closes nothing, and takes new connections all the same.
    Silent,
    /// There is nobody: connections are closed and new ones refused.
    Down,
}

#[derive(Clone, Copy, Debug)]
struct Order {
    speech: Speech,
    /// Connections below this number are never heard of again.
    dead_below: u64,
}

/// A running line; it ends when dropped.
#[derive(Debug)]
pub struct Line {
    address: SocketAddr,
    order: watch::Sender<Order>,
    numbers: watch::Sender<u64>,
    listening: JoinHandle<()>,
}

impl Line {
    /// Listens on a free port of this machine for connections to the server of these options.
    ///
    /// # Panics
    /// When there is no free port.
    pub async fn to(server: &PgConnectOptions) -> Line {
        let server = (server.get_host().to_owned(), server.get_port());
        let listener = TcpListener::bind(("127.0.0.1", 0))
            .await
            .expect("a free port");
        let address = listener.local_addr().expect("a listener has an address");
        let order = watch::Sender::new(Order {
            speech: Speech::Carries,
            dead_below: 0,
        });
        let numbers = watch::Sender::new(0);
        let listening = tokio::spawn(listen(listener, server, order.clone(), numbers.clone()));
        Line {
            address,
            order,
            numbers,
            listening,
        }
    }

    /// The same options by way of this line.
    pub fn lead(&self, options: PgConnectOptions) -> PgConnectOptions {
        options
            .host(&self.address.ip().to_string())
            .port(self.address.port())
    }

    /// From now on the line does this.
    pub fn set(&self, speech: Speech) {
        self.order.send_modify(|order| order.speech = speech);
    }

    /// No connection of now ever carries a byte again, nor is it closed.
    pub fn bury(&self) {
        let next = *self.numbers.borrow();
        self.order.send_modify(|order| order.dead_below = next);
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.listening.abort();
        self.set(Speech::Down);
    }
}

async fn listen(
    first: TcpListener,
    server: (String, u16),
    order: watch::Sender<Order>,
    numbers: watch::Sender<u64>,
) {
    let address = first.local_addr().expect("a listener has an address");
    let mut listener = Some(first);
    let mut orders = order.subscribe();
    loop {
        if orders.borrow_and_update().speech == Speech::Down {
            listener = None;
            if orders.changed().await.is_err() {
                return;
            }
            continue;
        }
        let listening = match &listener {
            Some(listening) => listening,
            None => listener.insert(bind_again(address).await),
        };
        tokio::select! {
            changed = orders.changed() => if changed.is_err() { return },
            accepted = listening.accept() => if let Ok((client, _)) = accepted {
                let number = *numbers.borrow();
                numbers.send_replace(number + 1);
                tokio::spawn(carry(client, server.clone(), number, order.subscribe()));
            },
        }
    }
}

/// The port is free again as soon as the last listener is dropped; somebody else who took it would have to give it back.
async fn bind_again(address: SocketAddr) -> TcpListener {
    loop {
        match TcpListener::bind(address).await {
            Ok(listener) => return listener,
            Err(_) => SystemClock.sleep(Duration::from_millis(20)).await,
        }
    }
}

/// One connection, until a side closes it or the line goes down.
async fn carry(
    client: TcpStream,
    server: (String, u16),
    number: u64,
    orders: watch::Receiver<Order>,
) {
    let mut down = orders.clone();
    let carried = async {
        speaks(&mut orders.clone(), number).await;
        let Ok(server) = TcpStream::connect(server).await else {
            return;
        };
        // Without this small messages wait for each other; correct all the same, but slow.
        let _slower = (client.set_nodelay(true), server.set_nodelay(true));
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        tokio::select! {
            () = copy(from_client, to_server, number, orders.clone()) => {}
            () = copy(from_server, to_client, number, orders.clone()) => {}
        }
    };
    tokio::select! {
        () = carried => {}
        _ = down.wait_for(|order| order.speech == Speech::Down) => {}
    }
}

/// Waits until the line carries bytes of this connection.
async fn speaks(orders: &mut watch::Receiver<Order>, number: u64) {
    let carries = |order: &Order| order.speech == Speech::Carries && number >= order.dead_below;
    if orders.wait_for(carries).await.is_err() {
        std::future::pending::<()>().await;
    }
}

async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    number: u64,
    mut orders: watch::Receiver<Order>,
) {
    let mut bytes = vec![0; 64 << 10];
    loop {
        let read = from.read(&mut bytes).await;
        // Also the end of a connection is not heard through a silent line.
        speaks(&mut orders, number).await;
        match read {
            Ok(n) if n > 0 && to.write_all(&bytes[..n]).await.is_ok() => {}
            _ => return,
        }
    }
}
