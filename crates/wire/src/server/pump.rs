//! Events for one subscriber, fetched as fast as they are read and no faster.
//!
//! Nothing is kept for a subscriber but the number of the last event sent: one that falls behind
//! costs no memory, and one that comes back names the last it saw.

use super::connection::Connection;
use super::{Handler, Inner};
use crate::message::{Message, framed};
use std::sync::Arc;

/// Events fetched at once.
const BATCH: usize = 64;

pub(super) async fn pump<H: Handler>(
    inner: Arc<Inner<H>>,
    connection: Arc<Connection<H::Identity>>,
    mut after: u64,
) {
    let mut news = inner.news.subscribe();
    while !connection.outgoing.is_broken() {
        news.mark_unchanged();
        let (handler, asking) = (Arc::clone(&inner.handler), Arc::clone(&connection));
        let fetched =
            tokio::task::spawn_blocking(move || handler.events(&asking.identity, after, BATCH));
        let Ok(Ok(events)) = fetched.await else {
            // Whoever may not, or cannot, have more gets no more; the next subscription says why.
            return;
        };
        let none = events.is_empty();
        for event in events {
            after = after.max(event.id);
            let Ok(frame) = framed(&Message::Event(event), connection.frame_bytes()) else {
                continue;
            };
            if connection.outgoing.send(frame).await.is_err() {
                return;
            }
        }
        if none {
            let _ = tokio::time::timeout(inner.config.poll, news.changed()).await;
        }
    }
}
