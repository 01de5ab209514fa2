//! Addresses and their sockets.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use tokio::net::{TcpListener, UnixListener};
use tokio_util::either::Either;

use super::connection::Bytes;
use crate::error::RouterError;

/// Longest path of a Unix socket that every system takes, in bytes.
const MAX_SOCKET_PATH: usize = 103;

/// A listener on TCP or a Unix socket.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: Either<TcpListener, UnixListener>,
    /// Where it listens, as a client would write it.
    pub(crate) address: String,
    /// Removes the socket's file at the end.
    _file: Option<SocketFile>,
}

impl Listener {
    /// Opens `HOST:PORT` or `unix:PATH`; a socket's file has `mode` from the first.
    ///
    /// # Errors
    /// [`RouterError::Listen`] with `option`, the name of the setting.
    pub(crate) async fn bind(
        address: &str,
        mode: u32,
        option: &'static str,
    ) -> Result<Self, RouterError> {
        let Some(path) = unix_path(address) else {
            return Self::tcp(address, option).await;
        };
        let bound = bind_unix(path, mode).map_err(|source| RouterError::Listen {
            address: address.to_owned(),
            option,
            source,
        });
        let (listener, file) = bound?;
        Ok(Self {
            socket: Either::Right(listener),
            address: format!("unix:{}", path.display()),
            _file: Some(file),
        })
    }

    /// Opens `HOST:PORT`.
    ///
    /// # Errors
    /// [`RouterError::Listen`] with `option`, the name of the setting.
    pub(crate) async fn tcp(address: &str, option: &'static str) -> Result<Self, RouterError> {
        let listener = TcpListener::bind(address).await;
        let listener = listener.map_err(|source| RouterError::Listen {
            address: address.to_owned(),
            option,
            source,
        })?;
        let bound: SocketAddr = listener.local_addr()?;
        Ok(Self {
            socket: Either::Left(listener),
            address: bound.to_string(),
            _file: None,
        })
    }

    /// Whether it is on TCP.
    pub(crate) fn is_tcp(&self) -> bool {
        matches!(self.socket, Either::Left(_))
    }

    /// Whether other machines can reach it.
    pub(crate) fn is_public(&self) -> bool {
        let address = self.address.parse::<SocketAddr>();
        address.is_ok_and(|address| !address.ip().is_loopback())
    }

    /// The next connection's bytes.
    pub(super) async fn accept(&self) -> io::Result<Box<dyn Bytes>> {
        match &self.socket {
            Either::Left(tcp) => {
                let (stream, _) = tcp.accept().await?;
                // Tokens are small and must not wait to be sent together; a socket without the
                // option still works, only slower.
                let _ = stream.set_nodelay(true);
                Ok(Box::new(stream))
            }
            Either::Right(unix) => Ok(Box::new(unix.accept().await?.0)),
        }
    }
}

/// The path of a `unix:PATH` address; `unix://PATH` means the same.
pub(crate) fn unix_path(address: &str) -> Option<&Path> {
    let path = address.strip_prefix("unix:")?;
    Some(Path::new(path.strip_prefix("//").unwrap_or(path)))
}

/// Binds a Unix socket whose file no other user can open before its mode is set: it is born in a
/// directory of its own, mode 0700, and moved into place.
fn bind_unix(path: &Path, mode: u32) -> io::Result<(UnixListener, SocketFile)> {
    let length = path.as_os_str().len();
    if length == 0 || length > MAX_SOCKET_PATH {
        let message = format!("the path has {length} bytes; allowed: 1 to {MAX_SOCKET_PATH}");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    if std::os::unix::net::UnixStream::connect(path).is_ok() {
        return Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            "another process listens there",
        ));
    }
    if path.exists() && !is_socket(path)? {
        let message = "a file that is not a socket is there";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
    }
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let nursery = parent.join(format!(".{:x}", rand::random::<u32>()));
    std::fs::DirBuilder::new().mode(0o700).create(&nursery)?;
    let born = nursery.join("s");
    let bound = UnixListener::bind(&born).and_then(|listener| {
        std::fs::set_permissions(&born, std::fs::Permissions::from_mode(mode))?;
        std::fs::rename(&born, path)?;
        Ok(listener)
    });
    let removed = std::fs::remove_dir_all(&nursery);
    let listener = bound?;
    removed?;
    Ok((listener, SocketFile(path.to_owned())))
}

fn is_socket(path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::FileTypeExt as _;
    Ok(std::fs::symlink_metadata(path)?.file_type().is_socket())
}

/// A socket's file, removed when dropped.
#[derive(Debug)]
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Gone already, or in a directory that became read-only: the next start replaces it.
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> PathBuf {
        let folder = std::env::temp_dir().join(format!("spectrie-{:x}", rand::random::<u64>()));
        std::fs::create_dir(&folder).unwrap();
        folder
    }

    #[tokio::test]
    async fn socket_file_has_its_mode_and_is_removed_at_the_end() {
        let folder = folder();
        let path = folder.join("w.sock");
        let address = format!("unix:{}", path.display());
        let listener = Listener::bind(&address, 0o600, "--worker-listen")
            .await
            .unwrap();
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert!(tokio::net::UnixStream::connect(&path).await.is_ok());
        let again = Listener::bind(&address, 0o600, "--worker-listen")
            .await
            .unwrap_err();
        assert!(
            again.to_string().contains("another process listens"),
            "{again}"
        );
        drop(listener);
        assert!(!path.exists());
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[tokio::test]
    async fn stale_socket_is_replaced_and_other_files_are_kept() {
        let folder = folder();
        let path = folder.join("w.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let address = format!("unix:{}", path.display());
        drop(
            Listener::bind(&address, 0o600, "--worker-listen")
                .await
                .unwrap(),
        );
        std::fs::write(&path, "text").unwrap();
        let error = Listener::bind(&address, 0o600, "--worker-listen")
            .await
            .unwrap_err();
        assert!(error.to_string().contains("not a socket"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "text");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[tokio::test]
    async fn port_in_use_is_an_error_that_names_option_and_address() {
        let held = Listener::tcp("127.0.0.1:0", "--grpc").await.unwrap();
        let address = held.address.clone();
        let error = Listener::bind(&address, 0o600, "--grpc")
            .await
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("--grpc") && error.contains(&address),
            "{error}"
        );
    }
}
