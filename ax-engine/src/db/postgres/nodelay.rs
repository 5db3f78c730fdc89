//! Switches TCP_NODELAY on for a connection whose driver does not.
//!
//! A message of more than one segment otherwise waits for the server's delayed acknowledgement: 40 ms for every batch of
//! some size, measured over loopback. The driver (sqlx 0.9) neither sets the option nor lends its socket, so the socket is
//! looked up among the process's own: the one with the local port that the server sees. Where that finds none (a
//! pooler in between, a Unix socket, a sandbox that forbids the call) nothing is changed.

use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd, RawFd};

use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use sqlx::PgConnection;

/// Finds the connection's socket and sets the option on it.
pub(super) async fn switch_on(
    conn: &mut PgConnection,
    server_port: u16,
) -> Result<(), sqlx::Error> {
    let seen: Option<i32> = sqlx::query_scalar("SELECT inet_client_port()")
        .persistent(false)
        .fetch_one(conn)
        .await?;
    let local_port = seen.and_then(|port| u16::try_from(port).ok());
    if let Some(socket) = local_port.and_then(|port| find(port, server_port)) {
        // What cannot be set is slower, not wrong.
        let _ = socket.set_nodelay(true);
    }
    Ok(())
}

/// The process's TCP connection with these ports.
fn find(local_port: u16, server_port: u16) -> Option<TcpStream> {
    let process = pidfd_open(getpid(), PidfdFlags::empty()).ok()?;
    let sockets = std::fs::read_dir("/proc/self/fd")
        .ok()?
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let target = std::fs::read_link(entry.path()).ok()?;
            let is_socket = target.to_str()?.starts_with("socket:");
            is_socket
                .then(|| entry.file_name().to_str()?.parse::<RawFd>().ok())
                .flatten()
        });
    sockets
        .filter_map(|socket| duplicate(&process, socket))
        .find(|socket| {
            let local = socket
                .local_addr()
                .is_ok_and(|address| address.port() == local_port);
            local
                && socket
                    .peer_addr()
                    .is_ok_and(|address| address.port() == server_port)
        })
}

/// Another handle of the same socket. Asking the kernel for one needs no assumption about who owns the number.
fn duplicate(process: impl AsFd, socket: RawFd) -> Option<TcpStream> {
    let duplicate: OwnedFd = pidfd_getfd(process, socket, PidfdGetfdFlags::empty()).ok()?;
    Some(TcpStream::from(duplicate))
}
