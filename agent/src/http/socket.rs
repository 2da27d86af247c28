//! The unix socket: made so that no client ever finds it missing or closed to it, and removed only while it is ours.

use std::fs::{self, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tokio::net::UnixListener;

/// Everybody may connect; who it is, the kernel tells.
const MODE: u32 = 0o666;

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Something else has its name.
    #[error("{} is there already and is no socket; remove it, or set HITLESS_SOCKET to another path", .0.display())]
    NotASocket(PathBuf),
    /// It can't be made.
    #[error("can't make the socket {}: {source}; may the agent write to its directory?", path.display())]
    Failed {
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// The socket; dropping it removes the file.
#[derive(Debug)]
pub struct Socket {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode of the file.
    identity: (u64, u64),
}

impl Socket {
    /// Makes the socket, in place of one that an earlier agent has left behind; `None` where its directory is not there.
    pub fn bind(path: &Path) -> Result<Option<Self>, SocketError> {
        let failed = |source| SocketError::Failed { path: path.to_owned(), source };
        let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(failed(io::Error::other("this is no path of a file")));
        };
        if !directory.is_dir() {
            return Ok(None);
        }
        check(path)?;
        // Under another name first, so that who connects meets the old one or the whole new one.
        let made = directory.join(format!(".{}.new", name.to_string_lossy()));
        remove(&made).map_err(failed)?;
        let listener = UnixListener::bind(&made).map_err(failed)?;
        let ready = fs::set_permissions(&made, Permissions::from_mode(MODE)).and_then(|()| fs::rename(&made, path));
        let metadata = ready.and_then(|()| fs::symlink_metadata(path)).map_err(failed)?;
        Ok(Some(Self { listener, path: path.to_owned(), identity: identity(&metadata) }))
    }

    /// What accepts.
    pub(super) const fn listener(&self) -> &UnixListener {
        &self.listener
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // A successor may have put its own there.
        if fs::symlink_metadata(&self.path).is_ok_and(|metadata| identity(&metadata) == self.identity)
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::debug!(path = %self.path.display(), %error, "the socket was not removed");
        }
    }
}

/// Nothing but a socket is ever replaced, and no link is followed.
fn check(path: &Path) -> Result<(), SocketError> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if !metadata.file_type().is_socket() => Err(SocketError::NotASocket(path.to_owned())),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(SocketError::Failed { path: path.to_owned(), source }),
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::UnixStream;

    #[tokio::test]
    async fn a_stale_socket_is_replaced_and_the_own_one_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("agent.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let first = Socket::bind(&path).unwrap().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, MODE);
        UnixStream::connect(&path).await.unwrap();
        let second = Socket::bind(&path).unwrap().unwrap();
        drop(first);
        UnixStream::connect(&path).await.unwrap();
        drop(second);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn what_is_no_socket_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let (file, link) = (directory.path().join("file"), directory.path().join("link"));
        fs::write(&file, "precious").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        for path in [&file, &link] {
            assert!(matches!(Socket::bind(path), Err(SocketError::NotASocket(_))), "{path:?}");
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }

    #[tokio::test]
    async fn without_its_directory_there_is_no_socket() {
        assert!(Socket::bind(Path::new("/nowhere/at/all/agent.sock")).unwrap().is_none());
    }
}
