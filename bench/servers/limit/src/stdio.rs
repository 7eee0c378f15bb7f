//! The minimal server over stdio. Answers all complete lines of a read with one write.

mod answer;

use std::io;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::unix::pipe,
};

fn main() -> io::Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(serve())
}

async fn serve() -> io::Result<()> {
    let mut reader = pipe::OpenOptions::new().open_receiver("/proc/self/fd/0")?;
    let mut writer = pipe::OpenOptions::new().open_sender("/proc/self/fd/1")?;
    let (mut input, mut output) = (Vec::with_capacity(64 << 10), Vec::new());
    let mut scanned = 0;
    while reader.read_buf(&mut input).await? > 0 {
        let mut start = 0;
        while let Some(length) = memchr::memchr(b'\n', &input[scanned..]) {
            let end = scanned + length;
            let before = output.len();
            answer::answer(&input[start..end], &mut output)?;
            if output.len() > before {
                output.push(b'\n');
            }
            start = end + 1;
            scanned = start;
        }
        input.drain(..start);
        scanned = input.len();
        input.reserve(64 << 10);
        writer.write_all(&output).await?;
        output.clear();
    }
    Ok(())
}
