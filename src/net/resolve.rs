//! Name resolution behind a trait: the control thread resolves, data threads only read its last result.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;

/// The answer of a resolver: every address of both families, in the resolver's order.
pub type Resolving = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;

/// Something that turns a host name into addresses.
pub trait Resolve: Send + Sync + 'static {
    /// Looks `host` up.
    ///
    /// Errors: those of the resolver; an empty answer is an error, too.
    fn resolve(&self, host: &str, port: u16) -> Resolving;
}

/// The machine's resolver (hosts file, name service switch, DNS), as every other program of the pod uses it.
#[derive(Debug, Clone, Copy)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve(&self, host: &str, port: u16) -> Resolving {
        let host = host.to_owned();
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((host.as_str(), port)).await?.collect();
            if found.is_empty() {
                return Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
            }
            Ok(found)
        })
    }
}
