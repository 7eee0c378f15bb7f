//! The stderr of the process, as the destination of the log.
//!
//! A client may start the server with a pipe as its stderr and never read it. Writes to a full pipe block, so only a
//! dedicated thread writes; everything else appends to a bounded buffer. `tracing-appender` bounds its queue in lines
//! rather than in bytes, does not report what it dropped, and adds six dependencies.

use std::{
    io::{self, Write},
    mem,
    sync::{Arc, Condvar, OnceLock, PoisonError},
    thread,
    time::Duration,
};

use crate::{
    counters::Counter,
    stdx::{Mutex, debug},
};

/// The maximum number of bytes that wait to be written. Text that does not fit is dropped and counted. As many bytes
/// again may be in the process of being written.
pub(crate) const MAX_PENDING_BYTES: usize = 1 << 20;
/// The maximum time that the end of the process waits for each step of writing the remaining output.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// A writer that never blocks: it passes its output to a thread, and drops output that exceeds the capacity.
#[derive(Debug, Clone)]
pub(crate) struct LossyWriter(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    capacity: usize,
}

struct State {
    pending: Vec<u8>,
    /// The number of bytes that were dropped and not yet reported.
    dropped: usize,
    is_writing: bool,
    /// The destination, until the first output starts the thread that writes to it.
    out: Option<Box<dyn Write + Send>>,
}

/// Returns the writer to the stderr that the process had when this was first called.
pub(crate) fn writer() -> &'static LossyWriter {
    static WRITER: OnceLock<LossyWriter> = OnceLock::new();
    WRITER.get_or_init(|| LossyWriter::new(stderr(), MAX_PENDING_BYTES))
}

/// Returns the stderr of the process. On Unix, it stays the same when the file descriptor is redirected.
fn stderr() -> Box<dyn Write + Send> {
    #[cfg(unix)]
    if let Ok(stderr) = printed::original() {
        return Box::new(stderr);
    }
    Box::new(io::stderr())
}

/// Makes the writer the destination of everything that the process prints, so that printing never blocks.
///
/// Does nothing on Windows, where safe code cannot redirect the output, and if stderr is neither a pipe nor a socket:
/// terminals and files are always read.
pub(crate) fn capture_printed() {
    #[cfg(unix)]
    if let Err(error) = printed::capture() {
        tracing::warn!(%error, "functions that print may block: cannot redirect stdout and stderr");
    }
}

/// Waits until all logged and printed output is written, for at most two seconds.
pub(crate) fn flush() {
    #[cfg(unix)]
    printed::flush();
    writer().flush_within(FLUSH_TIMEOUT);
}

/// Replaces the panic hook of the standard library, which blocks while stderr is full, with one that does not.
///
/// The message is the same: the thread, the location, the panic message, and the backtrace if `RUST_BACKTRACE` is set.
pub(crate) fn set_panic_hook() {
    std::panic::set_hook(Box::new(|panic| {
        let thread = thread::current();
        let backtrace = std::backtrace::Backtrace::capture();
        let mut text = format!("\nthread '{}' {panic}\n", thread.name().unwrap_or("<unnamed>"));
        if backtrace.status() == std::backtrace::BacktraceStatus::Captured {
            text += &format!("stack backtrace:\n{backtrace}\n");
        }
        writer().push(text.as_bytes());
        if cfg!(panic = "abort") {
            flush();
        }
    }));
}

impl LossyWriter {
    /// Creates a writer to `out`. Its thread starts with the first output.
    fn new(out: Box<dyn Write + Send>, capacity: usize) -> Self {
        let state = State { pending: Vec::new(), dropped: 0, is_writing: false, out: Some(out) };
        Self(Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new(), capacity }))
    }

    /// Appends text, or drops all of it if it does not fit.
    pub(crate) fn push(&self, text: &[u8]) {
        let mut state = self.0.state.lock();
        if state.pending.len() + text.len() > self.0.capacity {
            state.dropped += text.len();
            Counter::DroppedLogLines.add(text.split_inclusive(|byte| *byte == b'\n').count() as u64);
        } else {
            state.pending.extend_from_slice(text);
        }
        let out = state.out.take();
        drop(state);
        match out {
            Some(out) => self.start(out),
            None => self.0.changed.notify_all(),
        }
    }

    /// Returns the number of bytes that wait to be written.
    pub(crate) fn pending(&self) -> usize {
        self.0.state.lock().pending.len()
    }

    /// Starts the thread that writes to `out`. If that fails, no output is written.
    fn start(&self, out: Box<dyn Write + Send>) {
        let writer = Arc::clone(&self.0);
        // The thread is not joined: it may never return from a write.
        let _ = thread::Builder::new().name("log".to_owned()).spawn(move || writer.run(out));
    }

    /// Waits until everything is written, for at most `timeout`.
    fn flush_within(&self, timeout: Duration) {
        let is_busy = |state: &mut State| state.is_writing || state.has_output();
        let _ = self.0.changed.wait_timeout_while(self.0.state.lock(), timeout, is_busy);
    }
}

debug!(State, self, pending: self.pending.len(), dropped: self.dropped);

/// Each write is one event of the log, which is either written completely or dropped.
impl Write for LossyWriter {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.push(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Shared {
    /// Writes the output as it arrives. Errors are ignored, since there is nowhere to report them.
    fn run(&self, mut out: impl Write) {
        let mut text = Vec::new();
        loop {
            let waiting = self.changed.wait_while(self.state.lock(), |state| !state.has_output());
            let mut state = waiting.unwrap_or_else(PoisonError::into_inner);
            mem::swap(&mut state.pending, &mut text);
            let dropped = mem::take(&mut state.dropped);
            state.is_writing = true;
            drop(state);
            if dropped > 0 {
                // The output need not end with a line break.
                let line_break = if text.last().is_some_and(|last| *last != b'\n') { "\n" } else { "" };
                let _ = writeln!(text, "{line_break}WARN {dropped} bytes were dropped because stderr was not read");
            }
            let _ = out.write_all(&text).and_then(|()| out.flush());
            text.clear();
            self.state.lock().is_writing = false;
            self.changed.notify_all();
        }
    }
}

impl State {
    fn has_output(&self) -> bool {
        !self.pending.is_empty() || self.dropped > 0
    }
}

#[cfg(unix)]
mod printed {
    //! Output of the process on stdout and stderr, whether of Rust code, C libraries or child processes.
    //!
    //! A pipe receives it, and a thread moves it from there to the lossy writer. That thread never waits for stderr: another
    //! thread writes to stderr.

    use std::{
        fs::File,
        io::{self, PipeReader, Read, Write},
        os::{fd::AsFd, unix::fs::FileTypeExt},
        sync::{OnceLock, mpsc},
        thread,
    };

    use rustix::{
        event::{PollFd, PollFlags, poll},
        io::{Errno, ioctl_fionbio},
        stdio::{dup2_stderr, dup2_stdout},
    };

    use super::{FLUSH_TIMEOUT, MAX_PENDING_BYTES, writer};
    use crate::stdx::Mutex;

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
            let mut piece = self.piece.lock();
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
}

#[cfg(test)]
mod tests {
    use std::io::{PipeWriter, Read};

    use super::*;

    const FOREVER: Duration = Duration::from_secs(60);

    /// Returns a writer to a pipe, whose buffer is already full.
    fn full_pipe(capacity: usize) -> (LossyWriter, impl Read) {
        let (reader, out): (_, PipeWriter) = io::pipe().unwrap();
        let writer = LossyWriter::new(Box::new(out), capacity);
        // More than any pipe holds, so that the thread blocks.
        let blocks = vec![b'.'; capacity];
        writer.push(&blocks);
        while !writer.0.state.lock().pending.is_empty() {
            thread::yield_now();
        }
        (writer, reader)
    }

    #[test]
    fn output_that_does_not_fit_is_dropped_and_reported() {
        const CAPACITY: usize = 4 << 20;
        for (last, line_break) in [("second\n", ""), ("second", "\n")] {
            let (writer, mut reader) = full_pipe(CAPACITY);
            let dropped = Counter::DroppedLogLines.value();
            writer.push(b"first\n");
            writer.push(&vec![b'x'; CAPACITY]);
            let mut lines = vec![b'x'; CAPACITY];
            (lines[1], lines[3]) = (b'\n', b'\n');
            writer.push(&lines);
            writer.push(last.as_bytes());
            assert_eq!(writer.0.state.lock().pending, format!("first\n{last}").as_bytes());
            assert_eq!(Counter::DroppedLogLines.value() - dropped, 1 + 3);
            // Nothing reads the pipe yet, so the time limit ends the wait.
            writer.flush_within(Duration::from_millis(10));
            assert!(writer.0.state.lock().is_writing);

            let report = format!("WARN {} bytes were dropped because stderr was not read\n", 2 * CAPACITY);
            let expected = format!("first\n{last}{line_break}{report}");
            let mut output = vec![0; CAPACITY + expected.len()];
            reader.read_exact(&mut output).unwrap();
            assert_eq!(String::from_utf8_lossy(&output[CAPACITY..]), expected);
            writer.flush_within(FOREVER);
            assert!(!writer.0.state.lock().is_writing);
        }
        // A line that is longer than the buffer is dropped.
        let (reader, out) = io::pipe().unwrap();
        LossyWriter::new(Box::new(out), 4).push(b"long\n");
        let mut report = String::new();
        io::BufRead::read_line(&mut io::BufReader::new(reader), &mut report).unwrap();
        assert_eq!(report, "WARN 5 bytes were dropped because stderr was not read\n");
    }
}
