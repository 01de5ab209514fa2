//! Why a router does not run.

/// Why the router could not start or had to end.
#[derive(Debug, thiserror::Error)]
pub enum RouterError {
    /// The configuration is not what [`crate::RouterConfig`] says.
    #[error("bad router configuration: {0}")]
    Config(String),
    /// A socket could not be opened.
    #[error("cannot listen on {address} ({option}): {source}")]
    Listen {
        /// The address as given.
        address: String,
        /// The option that sets it.
        option: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file of the configuration could not be used.
    #[error("cannot use {path} ({option}): {message}")]
    File {
        /// The file.
        path: String,
        /// The option that names it.
        option: &'static str,
        /// What is wrong with it.
        message: String,
    },
    /// A server task failed.
    #[error("the {name} server failed: {message}")]
    Serve {
        /// Which server.
        name: &'static str,
        /// What it said.
        message: String,
    },
    /// The runtime could not be built.
    #[error("cannot start the runtime: {0}")]
    Runtime(#[from] std::io::Error),
}
