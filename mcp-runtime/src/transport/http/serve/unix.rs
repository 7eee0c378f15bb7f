//! Unix sockets: the file of a socket, which is created with restricted permissions and removed at the end.

use std::{
    fs::{self, Permissions},
    io,
    os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use tokio::net::{UnixListener, UnixSocket, UnixStream};

use crate::replace_file::lock_directory;

/// The maximum number of connections that wait to be accepted, as for TCP.
const BACKLOG: u32 = 1024;

/// The file of a socket. Removes it when dropped, unless another file has taken its place.
#[derive(Debug)]
pub(super) struct SocketFile {
    pub(super) path: PathBuf,
    /// The device and the inode.
    id: (u64, u64),
}

/// Creates a socket file with these permissions, and listens on it.
///
/// # Errors
///
/// Returns an error if another server listens on the path, if the path is a file of another kind, or if the socket
/// cannot be created.
pub(super) async fn bind(path: &Path, mode: u32) -> io::Result<(SocketFile, UnixListener)> {
    // The file must be found at the end even if the program changes its current directory.
    let path = std::path::absolute(path)?;
    // Locked if that is possible, so that the socket of a server that is just starting is not taken for a stale one.
    let to_lock = path.clone();
    let _lock = tokio::task::spawn_blocking(move || lock_directory(&to_lock)).await;
    remove_stale(&path).await?;
    let socket = UnixSocket::new_stream()?;
    socket.bind(&path)?;
    let file = SocketFile { id: id(&path)?, path };
    // Connections are refused until the socket listens, so none is possible before the permissions are set.
    fs::set_permissions(&file.path, Permissions::from_mode(mode & 0o777))?;
    Ok((file, socket.listen(BACKLOG)?))
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if id(&self.path).is_ok_and(|id| id == self.id) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn id(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|metadata| (metadata.dev(), metadata.ino()))
}

/// Removes the file of a socket on which no server listens any more.
async fn remove_stale(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.file_type().is_socket() => {}
        Ok(_) => return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the file exists and is not a socket")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    }
    match UnixStream::connect(path).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        // A server whose queue of connections is full is alive.
        Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
        _ => Err(io::Error::new(io::ErrorKind::AddrInUse, "another server listens on it")),
    }
}

#[cfg(test)]
mod tests {
    use std::{os::unix::net, sync::Barrier, thread};

    use super::*;

    /// Several servers find the file of a dead one at the same time. Only one of them may replace it.
    #[test]
    fn only_one_of_several_servers_listens() {
        let directory = std::env::temp_dir().join(crate::random::id().expect("random bytes"));
        fs::create_dir(&directory).unwrap();
        let path = directory.join("x.sock");
        for _ in 0..100 {
            drop(net::UnixListener::bind(&path).unwrap());
            let barrier = Barrier::new(4);
            let bind = || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
                barrier.wait();
                let bound = runtime.block_on(super::bind(&path, 0o600)).ok();
                bound.map(|bound| (runtime, bound))
            };
            let listening: Vec<_> = thread::scope(|scope| {
                let servers: Vec<_> = (0..4).map(|_| scope.spawn(bind)).collect();
                servers.into_iter().filter_map(|server| server.join().unwrap()).collect()
            });
            assert_eq!(listening.len(), 1);
            assert!(net::UnixStream::connect(&path).is_ok());
        }
        fs::remove_dir_all(&directory).unwrap();
    }

    /// A server whose queue of connections is full is alive, as is one that receives datagrams.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn sockets_that_accept_no_connection_now_are_kept() {
        let directory = std::env::temp_dir().join(crate::random::id().expect("random bytes"));
        fs::create_dir(&directory).unwrap();
        let [busy, datagrams] = ["busy.sock", "datagrams.sock"].map(|name| directory.join(name));
        let socket = UnixSocket::new_stream().unwrap();
        socket.bind(&busy).unwrap();
        let _busy = socket.listen(0).unwrap();
        let _datagrams = net::UnixDatagram::bind(&datagrams).unwrap();
        let mut waiting = Vec::new();
        while let Ok(stream) = UnixStream::connect(&busy).await {
            waiting.push(stream);
        }
        let error = bind(&busy, 0o600).await.unwrap_err();
        assert_eq!((error.kind(), &*error.to_string()), (io::ErrorKind::AddrInUse, "another server listens on it"));
        let refused = UnixStream::connect(&datagrams).await.unwrap_err();
        let error = bind(&datagrams, 0o600).await.unwrap_err();
        assert_eq!(error.raw_os_error(), refused.raw_os_error());
        fs::remove_dir_all(&directory).unwrap();
    }
}
