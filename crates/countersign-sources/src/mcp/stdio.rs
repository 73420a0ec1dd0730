//! The protocol over a child's pipes: one JSON message a line.

use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Mutex, mpsc};

use crate::mcp::link::{DeliveryError, Link, Sending};

/// How many messages may wait to be handled before the server is no longer read.
const QUEUE: usize = 64;

/// A transport over two pipes.
pub(super) struct StdioTransport<W> {
    output: Arc<Mutex<Option<W>>>,
    incoming: mpsc::Receiver<RxJsonRpcMessage<RoleClient>>,
    link: Arc<Link>,
}

impl<W: AsyncWrite + Send + Unpin + 'static> StdioTransport<W> {
    /// Starts to read. The link is closed when the pipe ends or a message is longer than `message_bytes`.
    pub(super) fn new(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: W,
        link: Arc<Link>,
        message_bytes: usize,
    ) -> Self {
        let (queue, incoming) = mpsc::channel(QUEUE);
        tokio::spawn(read_lines(reader, Arc::clone(&link), queue, message_bytes));
        Self { output: Arc::new(Mutex::new(Some(writer))), incoming, link }
    }
}

impl<W: AsyncWrite + Send + Unpin + 'static> Transport<RoleClient> for StdioTransport<W> {
    type Error = DeliveryError;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), DeliveryError>> + Send + 'static {
        let (output, link) = (Arc::clone(&self.output), Arc::clone(&self.link));
        async move {
            let mut line =
                serde_json::to_vec(&message).map_err(|error| DeliveryError::NotSent(error.to_string()))?;
            line.push(b'\n');
            let mut output = output.lock().await;
            let Some(pipe) = output.as_mut() else {
                return Err(DeliveryError::NotSent("the connection is closed".into()));
            };
            link.note(&message);
            if let Some(sending) = Sending::of(&message) {
                sending.fate.set_sent();
            }
            let written = async {
                pipe.write_all(&line).await?;
                pipe.flush().await
            };
            written.await.map_err(|error| {
                link.close(format!("the server takes no more input: {error}"));
                DeliveryError::Lost(error.to_string())
            })
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        tokio::select! {
            biased;
            message = self.incoming.recv() => message,
            _ = self.link.closed() => None,
        }
    }

    async fn close(&mut self) -> Result<(), DeliveryError> {
        self.link.close("the connection was closed");
        // Closing the pipe is what asks the server to end.
        self.output.lock().await.take();
        Ok(())
    }
}

async fn read_lines(
    mut reader: impl AsyncRead + Unpin,
    link: Arc<Link>,
    queue: mpsc::Sender<RxJsonRpcMessage<RoleClient>>,
    message_bytes: usize,
) {
    let mut line = Vec::new();
    let mut chunk = vec![0; 64 << 10];
    loop {
        let read = tokio::select! {
            read = reader.read(&mut chunk) => read,
            _ = link.closed() => return,
        };
        let read = match read {
            Ok(0) => return link.close("the server closed its output"),
            Ok(read) => read,
            Err(error) => return link.close(format!("the server cannot be read: {error}")),
        };
        let mut rest = &chunk[..read];
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            line.extend_from_slice(&rest[..end]);
            rest = &rest[end + 1..];
            let complete = std::mem::take(&mut line);
            if complete.len() > message_bytes {
                return link.close(too_long(message_bytes));
            }
            if let Ok(value) = serde_json::from_slice(&complete)
                && let Some(message) = link.read(value)
                && queue.send(message).await.is_err()
            {
                return;
            }
        }
        line.extend_from_slice(rest);
        if line.len() > message_bytes {
            return link.close(too_long(message_bytes));
        }
    }
}

fn too_long(message_bytes: usize) -> String {
    format!("the server sent a message of more than {message_bytes} bytes")
}
