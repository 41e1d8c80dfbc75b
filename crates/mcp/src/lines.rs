//! One message a line, in both directions: the transport under stdio.
//!
//! Guarantees: a line is read into bounded memory, what is no message is answered as JSON-RPC says,
//! and what a client does not read fills a bounded queue, after which nothing more is read of it.
//!
//! Invariant: a future of [`Transport::receive`] may be dropped at any await without losing a
//! message: what was read or is to be said stands in the transport.

use crate::admit;
use crate::in_flight::{InFlight, answers};
use rmcp::RoleServer;
use rmcp::model::{ClientJsonRpcMessage, JsonRpcError, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Messages that wait to be written.
const QUEUE: usize = 16;

pub(crate) struct Lines<R> {
    read: R,
    line: Vec<u8>,
    /// The rest of a line that was too long.
    skipping: bool,
    refusal: Option<JsonRpcError>,
    queue: Option<mpsc::Sender<Vec<u8>>>,
    in_flight: Arc<InFlight>,
}

/// One look at the input.
enum Look {
    Line,
    TooLong,
    End,
}

impl<R: AsyncBufRead + Unpin + Send> Lines<R> {
    /// Reads from `read`; the task that writes to `write` cancels `gone` once nobody reads.
    pub(crate) fn new(
        read: R,
        write: impl AsyncWrite + Unpin + Send + 'static,
        gone: CancellationToken,
    ) -> (Self, tokio::task::JoinHandle<()>) {
        let (queue, queued) = mpsc::channel(QUEUE);
        let writing = tokio::spawn(write_all(queued, write, gone));
        let lines = Self {
            read,
            line: Vec::new(),
            skipping: false,
            refusal: None,
            queue: Some(queue),
            in_flight: Arc::default(),
        };
        (lines, writing)
    }

    async fn look(&mut self) -> io::Result<Look> {
        loop {
            let found = self.read.fill_buf().await?;
            if found.is_empty() {
                // A last line may lack its newline.
                let left = !self.line.is_empty();
                return Ok(if left { Look::Line } else { Look::End });
            }
            let end = found.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(found.len(), |end| end + 1);
            let fits = self.line.len() + taken <= admit::MOST_BYTES + 1;
            if fits && !self.skipping {
                self.line
                    .extend_from_slice(found.get(..taken).unwrap_or_default());
            }
            self.read.consume(taken);
            if !fits && !self.skipping {
                self.line = Vec::new();
                self.skipping = end.is_none();
                return Ok(Look::TooLong);
            }
            if end.is_some() {
                if std::mem::take(&mut self.skipping) {
                    continue;
                }
                return Ok(Look::Line);
            }
        }
    }

    /// Says what is still to be said; waits while the client does not read.
    async fn refuse(&mut self) -> Option<()> {
        if self.refusal.is_none() {
            return Some(());
        }
        let room = self.queue.as_ref()?.reserve().await.ok()?;
        if let Some(refusal) = self.refusal.take() {
            room.send(line_of(&refusal));
        }
        Some(())
    }

    fn parse(&mut self) -> Option<ClientJsonRpcMessage> {
        let line = std::mem::take(&mut self.line);
        let text = line.trim_ascii();
        if text.is_empty() {
            return None;
        }
        let message = admit::message(text).and_then(|message| {
            self.in_flight.receive(&message)?;
            Ok(message)
        });
        message.map_err(|refusal| self.refusal = Some(refusal)).ok()
    }
}

impl<R: AsyncBufRead + Unpin + Send> Transport<RoleServer> for Lines<R> {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let (queue, in_flight) = (self.queue.clone(), Arc::clone(&self.in_flight));
        async move {
            let leaving = in_flight.answer(answers(&message).as_ref());
            let sent = match queue {
                Some(queue) => queue.send(line_of(&message)).await.is_ok(),
                None => false,
            };
            // Only now: what waits for a client that does not read still counts.
            drop(leaving);
            sent.then_some(())
                .ok_or_else(|| io::ErrorKind::BrokenPipe.into())
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            self.refuse().await?;
            match self.look().await {
                Ok(Look::Line) => {}
                Ok(Look::TooLong) => {
                    self.refusal = Some(admit::too_large());
                    continue;
                }
                Ok(Look::End) | Err(_) => return None,
            }
            if let Some(message) = self.parse() {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.queue = None;
        Ok(())
    }
}

/// The message and the newline that ends it; JSON text has none of its own.
fn line_of(message: &impl serde::Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(message).unwrap_or_default();
    line.push(b'\n');
    line
}

async fn write_all(
    mut queued: mpsc::Receiver<Vec<u8>>,
    mut write: impl AsyncWrite + Unpin,
    gone: CancellationToken,
) {
    while let Some(line) = queued.recv().await {
        let written = async {
            write.write_all(&line).await?;
            write.flush().await
        };
        if written.await.is_err() {
            gone.cancel();
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, BufReader};

    /// What the transport makes of `input`: the methods it passes on, the lines it answers.
    async fn feed(input: Vec<u8>) -> (usize, String) {
        let (client, server) = tokio::io::duplex(64 * 1024);
        let gone = CancellationToken::new();
        let (mut lines, writing) = Lines::new(BufReader::new(&input[..]), server, gone);
        let mut passed = 0;
        while lines.receive().await.is_some() {
            passed += 1;
        }
        lines.close().await.unwrap();
        drop(lines);
        writing.await.unwrap();
        let mut said = String::new();
        BufReader::new(client)
            .read_to_string(&mut said)
            .await
            .unwrap();
        (passed, said)
    }

    #[tokio::test]
    async fn bad_lines_are_answered_and_the_next_good_one_is_read() {
        let good = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let huge = vec![b'x'; admit::MOST_BYTES * 2];
        let input = [
            &b"{broken\n\n   \r\n[]\n"[..],
            &huge,
            b"\n",
            good,
            b"\r\n",
            br#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#,
        ];
        let (passed, said) = feed(input.concat()).await;
        assert_eq!(passed, 2);
        let codes: Vec<i64> = said
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
            .map(|value| value["error"]["code"].as_i64().unwrap())
            .collect();
        assert_eq!(codes, [-32700, -32600, -32600]);
        // What broke off is no message, and ends the conversation all the same.
        let (passed, said) = feed(good[..good.len() - 1].to_vec()).await;
        assert_eq!(passed, 0);
        assert!(said.contains("-32700"), "{said}");
    }

    #[tokio::test]
    async fn a_line_of_any_length_is_held_in_bounded_memory() {
        let (mut client, server) = tokio::io::duplex(1024);
        let gone = CancellationToken::new();
        let (mut lines, _writing) = Lines::new(BufReader::new(server), tokio::io::sink(), gone);
        let feeding = tokio::spawn(async move {
            for _ in 0..(3 * admit::MOST_BYTES / 1024) {
                client.write_all(&[b'a'; 1024]).await.unwrap();
            }
        });
        assert!(lines.receive().await.is_none());
        feeding.await.unwrap();
        assert!(lines.line.capacity() <= 2 * admit::MOST_BYTES);
    }

    #[tokio::test]
    async fn a_client_that_does_not_read_is_not_read_either() {
        // Every line is refused, and nobody takes the refusals.
        let (mut client, server) = tokio::io::duplex(1024);
        let (read, write) = tokio::io::split(server);
        let gone = CancellationToken::new();
        let (mut lines, _writing) = Lines::new(BufReader::new(read), write, gone);
        let receiving = tokio::spawn(async move { lines.receive().await.is_none() });
        let flood = async {
            loop {
                client.write_all(b"{broken\n").await.unwrap();
            }
        };
        let stuck = tokio::time::timeout(std::time::Duration::from_millis(300), flood).await;
        assert!(stuck.is_err(), "the flood never stops");
        drop(client);
        assert!(receiving.await.unwrap());
    }

    #[tokio::test]
    async fn a_client_that_is_gone_is_noticed_by_the_next_answer() {
        let (client, server) = tokio::io::duplex(1024);
        drop(client);
        let gone = CancellationToken::new();
        let (mut lines, _writing) =
            Lines::new(BufReader::new(tokio::io::empty()), server, gone.clone());
        let answer = admit::too_large();
        let _ = lines.send(ServerJsonRpcMessage::Error(answer)).await;
        gone.cancelled().await;
    }
}
