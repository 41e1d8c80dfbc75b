//! What the program prints, on its way to the host.
//!
//! Standard output belongs to the handshake, and what comes after it is streamed. Standard error is
//! left as it is: the host reads it from the process itself, so that nothing is lost when that dies.
//!
//! Guarantee: what nobody reads takes a bounded amount of memory and holds up nobody.

use airlock_plugin_protocol::messages::goplugin::StdioData;
use airlock_plugin_protocol::messages::goplugin::stdio_data::Channel;
use rustix::pipe::{PipeFlags, pipe_with};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

/// Bytes that wait to be read; more is dropped, the oldest first.
const WAITING: usize = 256 * 1024;
/// Bytes of one piece.
const PIECE: usize = 16 * 1024;

/// What waits to be streamed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Output(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    pieces: VecDeque<Vec<u8>>,
    bytes: usize,
    closed: bool,
}

impl Output {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        let waiting = self.0.waiting.lock();
        waiting.unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, piece: &[u8]) {
        let mut waiting = self.waiting();
        waiting.bytes += piece.len();
        waiting.pieces.push_back(piece.to_vec());
        while waiting.bytes > WAITING {
            let Some(oldest) = waiting.pieces.pop_front() else {
                break;
            };
            waiting.bytes -= oldest.len();
        }
        drop(waiting);
        self.0.changed.notify_one();
    }

    /// Nothing more will come.
    fn close(&self) {
        self.waiting().closed = true;
        self.0.changed.notify_one();
    }

    /// The next piece; none once nothing more comes.
    async fn next(&self) -> Option<Vec<u8>> {
        loop {
            {
                let mut waiting = self.waiting();
                if let Some(piece) = waiting.pieces.pop_front() {
                    waiting.bytes -= piece.len();
                    return Some(piece);
                }
                if waiting.closed {
                    // For whoever else streams.
                    self.0.changed.notify_one();
                    return None;
                }
            }
            // A notice that comes before this is kept for it.
            self.0.changed.notified().await;
        }
    }

    /// Everything that is printed from now on, and what waits.
    pub(crate) fn stream(&self) -> ReceiverStream<Result<StdioData, Status>> {
        let (sender, receiver) = mpsc::channel(1);
        let output = self.clone();
        tokio::spawn(async move {
            while let Ok(place) = sender.reserve().await {
                let next = tokio::select! {
                    next = output.next() => next,
                    () = sender.closed() => None,
                };
                let Some(data) = next else {
                    return;
                };
                let channel = Channel::Stdout.into();
                place.send(Ok(StdioData { channel, data }));
            }
        });
        ReceiverStream::new(receiver)
    }
}

/// Standard output, taken over.
#[derive(Debug)]
pub(crate) struct Taken {
    own: OwnedFd,
}

impl Taken {
    /// Makes `output` get what is printed from now on.
    pub(crate) fn over(output: Output) -> io::Result<Self> {
        io::stdout().flush()?;
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        let own = rustix::io::fcntl_dupfd_cloexec(io::stdout(), 3)?;
        std::thread::Builder::new()
            .name("output".to_owned())
            .spawn(move || pass_on(File::from(reader), &output))?;
        rustix::stdio::dup2_stdout(&writer)?;
        Ok(Self { own })
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        // The pipe ends with its last writer, and with it the stream. What fails here is the last
        // of what was printed, at the end of the program.
        let _flushed = io::stdout().flush();
        let _restored = rustix::stdio::dup2_stdout(&self.own);
    }
}

fn pass_on(mut reader: File, output: &Output) {
    let mut buffer = vec![0; PIECE];
    loop {
        match reader.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => break,
            Ok(read) => output.push(buffer.get(..read).unwrap_or_default()),
        }
    }
    output.close();
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio_stream::StreamExt as _;

    #[tokio::test]
    async fn everything_is_streamed_in_order_until_it_ends() {
        let output = Output::default();
        output.push(b"before ");
        let stream = output.stream();
        let late = output.clone();
        let writing = tokio::spawn(async move {
            for number in 0..100 {
                late.push(format!("{number} ").as_bytes());
                tokio::task::yield_now().await;
            }
            late.close();
        });
        let pieces: Vec<StdioData> = stream.map(Result::unwrap).collect().await;
        writing.await.unwrap();
        let text: Vec<u8> = pieces.into_iter().flat_map(|piece| piece.data).collect();
        let numbers: Vec<String> = (0..100).map(|number| format!("{number} ")).collect();
        assert_eq!(text, format!("before {}", numbers.concat()).into_bytes());
    }

    #[test]
    fn what_nobody_reads_is_bounded_and_its_end_is_kept() {
        let output = Output::default();
        for number in 0..10_000_u32 {
            output.push(&[number.to_le_bytes()[0]; 1_000]);
        }
        let waiting = output.waiting();
        assert!(waiting.bytes <= WAITING && waiting.bytes > WAITING / 2);
        let last = waiting.pieces.back().unwrap();
        assert_eq!(last[0], 9_999_u32.to_le_bytes()[0]);
    }
}
