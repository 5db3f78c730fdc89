//! Where futures run: engine loops on the engine's own runtime, handlers on the host's, the heartbeat on a thread of
//! its own. User code can therefore stall the host's runtime without stalling a loop or a lease.
//!
//! A simulator brings its own [`Spawn`] that runs everything on one thread and can freeze or drop a whole node.

use std::sync::{Mutex, PoisonError};

use futures_util::future::BoxFuture;
use tokio::runtime::{Handle, Runtime};

/// A unit future that can be sent.
pub type Work = BoxFuture<'static, ()>;

/// Makes the future of the heartbeat on the thread where it will run, so that its connection is opened there.
pub type MakeWork = Box<dyn FnOnce() -> Work + Send>;

/// Runs futures; see the module.
pub trait Spawn: Send + Sync + 'static {
    /// Runs an engine loop or a database call of the engine.
    fn engine(&self, work: Work);

    /// Runs an async handler.
    fn handler(&self, work: Work);

    /// Runs a blocking handler on a thread that may block.
    fn blocking(&self, work: Box<dyn FnOnce() + Send>);

    /// Runs the heartbeat on a thread and runtime of its own.
    fn heartbeat(&self, make: MakeWork);

    /// Lets go of the engine's runtime once every loop has ended.
    fn close(&self);
}

/// Threads and runtimes of a real process.
pub struct Threads {
    host: Handle,
    engine: Mutex<Option<Runtime>>,
    handle: Handle,
}

impl Threads {
    /// Builds the engine's runtime beside the host's; must be called inside the host's tokio runtime.
    ///
    /// # Errors
    /// When there is no tokio runtime here, or the operating system refuses threads.
    pub fn new() -> Result<Threads, ax_core::Error> {
        let host = Handle::try_current().map_err(|_| {
            ax_core::Error::new(
                ax_core::ErrorKind::Invalid,
                "start ax outside a tokio runtime: call it inside #[tokio::main] or Runtime::block_on",
            )
        })?;
        let engine = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("ax-engine")
            .enable_all()
            .build()
            .map_err(|e| {
                ax_core::Error::new(
                    ax_core::ErrorKind::Unavailable,
                    "start the engine's threads",
                )
                .with_source(e)
            })?;
        let handle = engine.handle().clone();
        Ok(Threads {
            host,
            engine: Mutex::new(Some(engine)),
            handle,
        })
    }
}

impl Spawn for Threads {
    fn engine(&self, work: Work) {
        self.handle.spawn(work);
    }

    fn handler(&self, work: Work) {
        self.host.spawn(work);
    }

    fn blocking(&self, work: Box<dyn FnOnce() + Send>) {
        self.host.spawn_blocking(work);
    }

    fn heartbeat(&self, make: MakeWork) {
        let run = move || {
            let built = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            match built {
                Ok(runtime) => runtime.block_on(async { make().await }),
                Err(error) => {
                    tracing::error!(%error, "the heartbeat has no runtime; this node will lose its lease")
                }
            }
        };
        if let Err(error) = std::thread::Builder::new()
            .name("ax-heartbeat".into())
            .spawn(run)
        {
            tracing::error!(%error, "the heartbeat has no thread; this node will lose its lease");
        }
    }

    fn close(&self) {
        if let Some(runtime) = self
            .engine
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
        {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // A runtime must not be dropped where it would block; background shutdown is allowed anywhere.
        self.close();
    }
}
