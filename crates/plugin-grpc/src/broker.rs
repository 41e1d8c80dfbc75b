//! go-plugin's broker: each side tells the other where further connections are to be had.
//!
//! A connection has a number. Whoever offers it listens on a socket of its own and sends number and
//! path; the other side waits for the number and connects. Airlock offers the kernel this way, and
//! connects where a plugin says that it serves.
//!
//! Guarantee: a plugin that announces without end, or connects without end, holds a bounded number
//! of announcements and connections. Sockets are checked as the first one is.

use crate::address::{AddressError, Sockets};
use crate::connect::{self, ConnectError};
use crate::rpc::Rpc;
use airlock_plugin_protocol::messages::goplugin::{ConnInfo, grpc_broker};
use airlock_plugin_protocol::{Accepted, Door, incoming};
use rustls::{ClientConfig, ServerConfig};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;

/// Announcements that are remembered until they are used.
const ANNOUNCED: usize = 64;
/// Bytes of an announcement.
const ANNOUNCEMENT: usize = 64 * 1024;
/// Who gets in at one offer.
const DOOR: Door = Door {
    connections: 4,
    handshake: Duration::from_secs(5),
};

/// Why a connection a plugin announced cannot be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialError {
    #[error("it announced connection {0} on `{1}`: only a Unix socket is connected to")]
    Network(u32, String),
    #[error(transparent)]
    Address(#[from] AddressError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
}

/// The broker's side of one plugin.
pub(crate) struct Broker {
    sockets: Arc<Sockets>,
    outgoing: mpsc::Sender<ConnInfo>,
    announced: Arc<Announced>,
}

#[derive(Default)]
struct Announced {
    places: Mutex<BTreeMap<u32, ConnInfo>>,
    changed: Notify,
}

impl Announced {
    fn locked(&self) -> MutexGuard<'_, BTreeMap<u32, ConnInfo>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, place: ConnInfo) {
        let mut places = self.locked();
        if places.len() < ANNOUNCED || places.contains_key(&place.service_id) {
            places.insert(place.service_id, place);
            self.changed.notify_waiters();
        }
    }

    /// Waits until `number` is announced.
    async fn take(&self, number: u32) -> ConnInfo {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Registered before looking, so that nothing announced in between is missed.
            changed.as_mut().enable();
            if let Some(place) = self.locked().remove(&number) {
                return place;
            }
            changed.await;
        }
    }
}

impl Broker {
    /// Opens the plugin's broker. A plugin that has none is left without: nothing arrives.
    pub(crate) fn open(
        channel: Channel,
        sockets: Arc<Sockets>,
    ) -> (Self, tokio::task::AbortHandle) {
        let (outgoing, queue) = mpsc::channel(ANNOUNCED);
        let announced = Arc::<Announced>::default();
        let heard = Arc::clone(&announced);
        let task = tokio::spawn(async move {
            let rpc = Rpc::new(channel, ANNOUNCEMENT);
            // A library may answer only when it has something to announce: what is sent meanwhile
            // is on its way all the same.
            let talk = rpc.talk(grpc_broker::START_STREAM, ReceiverStream::new(queue));
            let Ok(mut incoming) = talk.await else {
                return;
            };
            while let Ok(Some(place)) = incoming.message().await {
                heard.keep(place);
            }
        });
        let broker = Self {
            sockets,
            outgoing,
            announced,
        };
        (broker, task.abort_handle())
    }

    /// Offers connection `number`, and gives what comes in on it.
    pub(crate) fn offer(
        &self,
        number: u32,
        tls: Option<Arc<ServerConfig>>,
    ) -> io::Result<ReceiverStream<io::Result<Accepted>>> {
        let (listener, path) = self.sockets.listen()?;
        let place = ConnInfo {
            service_id: number,
            network: "unix".to_owned(),
            address: path.to_string_lossy().into_owned(),
            knock: None,
        };
        // Full only if the plugin reads no announcement; then it will not miss this one.
        let _queued = self.outgoing.try_send(place);
        Ok(incoming(listener, tls, DOOR))
    }

    /// Connects to what the plugin announces as `number`, now or soon.
    pub(crate) async fn dial(
        &self,
        number: u32,
        tls: Option<Arc<ClientConfig>>,
    ) -> Result<Channel, DialError> {
        let place = self.announced.take(number).await;
        if place.network != "unix" {
            return Err(DialError::Network(
                number,
                crate::output::shown(&place.network),
            ));
        }
        let stream = self.sockets.connect(&place.address).await?;
        Ok(connect::channel(stream, tls).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(number: u32) -> ConnInfo {
        ConnInfo {
            service_id: number,
            ..ConnInfo::default()
        }
    }

    #[tokio::test]
    async fn an_announcement_is_had_whether_it_comes_before_or_after_the_question() {
        let announced = Arc::<Announced>::default();
        announced.keep(place(7));
        assert_eq!(announced.take(7).await.service_id, 7);
        let late = Arc::clone(&announced);
        let waiting = tokio::spawn(async move { late.take(8).await.service_id });
        tokio::task::yield_now().await;
        announced.keep(place(9));
        announced.keep(place(8));
        assert_eq!(waiting.await.unwrap(), 8);
    }

    #[test]
    fn a_flood_of_announcements_is_not_kept() {
        let announced = Announced::default();
        for number in 0..10_000 {
            announced.keep(place(number));
        }
        assert_eq!(announced.locked().len(), ANNOUNCED);
    }
}
