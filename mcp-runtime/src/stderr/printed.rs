//! Output of the process on stdout and stderr, whether of Rust code, C libraries or child processes.
//!
//! A pipe receives it, and a thread moves it from there to the lossy writer. That thread never waits for stderr: another
//! thread writes to stderr.

use std::{
    fs::File,
    io::{self, PipeReader, Read, Write},
    os::{fd::AsFd, unix::fs::FileTypeExt},
    sync::{Mutex, OnceLock, PoisonError, mpsc},
    thread,
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    io::{Errno, ioctl_fionbio},
    stdio::{dup2_stderr, dup2_stdout},
};

use super::{FLUSH_TIMEOUT, MAX_PENDING_BYTES, writer};

/// The number of bytes that are moved at a time. The buffer is filled with zeros when the server starts.
const PIECE_BYTES: usize = 8 << 10;

/// The pipe that receives printed output.
static PRINTED: OnceLock<Printed> = OnceLock::new();

struct Printed {
    /// The end of the pipe that is read. Does not block.
    pipe: PipeReader,
    /// Locked while a piece moves from the pipe to the writer, so that no piece is in neither of them.
    piece: Mutex<Vec<u8>>,
}

/// Returns a copy of the stderr of the process.
pub(super) fn original() -> io::Result<File> {
    Ok(File::from(io::stderr().as_fd().try_clone_to_owned()?))
}

/// Redirects stdout and stderr to the writer, if stderr is a pipe or a socket.
///
/// # Errors
///
/// Fails if there are too many open files or threads. Then, nothing is redirected.
pub(super) fn capture() -> io::Result<()> {
    let kind = original()?.metadata()?.file_type();
    if !(kind.is_fifo() || kind.is_socket()) || PRINTED.get().is_some() {
        return Ok(());
    }
    // Exists from now on, so that it writes to the original.
    writer();
    let (pipe, printed) = io::pipe()?;
    ioctl_fionbio(&pipe, true)?;
    let receiver = PRINTED.get_or_init(|| Printed { pipe, piece: Mutex::new(vec![0; PIECE_BYTES]) });
    thread::Builder::new().name("printed".to_owned()).spawn(move || receiver.run())?;
    dup2_stdout(&printed)?;
    dup2_stderr(&printed)?;
    Ok(())
}

/// Passes printed output to the writer. Another thread may keep stdout locked, so this waits for a limited time.
pub(super) fn flush() {
    let Some(printed) = PRINTED.get() else { return };
    let (flushed, is_flushed) = mpsc::channel();
    let flush = move || {
        let _ = io::stdout().flush();
        let _ = flushed.send(());
    };
    if thread::Builder::new().spawn(flush).is_ok() {
        let _ = is_flushed.recv_timeout(FLUSH_TIMEOUT);
    }
    printed.forward();
}

impl Printed {
    /// Moves printed output to the writer, as it arrives.
    fn run(&self) {
        loop {
            match poll(&mut [PollFd::new(&self.pipe, PollFlags::IN)], None) {
                Ok(_) if self.forward() => {}
                Err(Errno::INTR) => {}
                _ => return,
            }
        }
    }

    /// Moves the content of the pipe to the writer. Returns `false` if nothing can be printed to the pipe any more.
    fn forward(&self) -> bool {
        let mut piece = self.piece.lock().unwrap_or_else(PoisonError::into_inner);
        let mut moved = 0;
        // Bounded, because a function may print faster than this.
        while moved < MAX_PENDING_BYTES {
            match (&self.pipe).read(&mut piece) {
                Ok(0) => return false,
                Ok(length) => {
                    writer().push(&piece[..length]);
                    moved += length;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
        true
    }
}
