//! Plugins that are messaging bridges.
//!
//! What arrives is a stranger's text under a name that only the plugin vouches for.

use crate::execute::{Bounds, each};
use crate::plugin::GrpcPlugin;
use crate::proto::airlock::channel_client::ChannelClient;
use crate::proto::airlock::{Inbound, Presence, SendRequest, StartRequest, UpdatePresenceRequest};
use airlock_plugin::CallError;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tonic::transport::Channel;

impl GrpcPlugin {
    /// Passes on what arrives, until `each_one` wants no more, `cancelled` is set, or the plugin
    /// ends the stream.
    pub fn receive(
        &self,
        mut each_one: impl FnMut(Inbound) -> bool,
        cancelled: &AtomicBool,
    ) -> Result<(), CallError> {
        let bounds = Bounds::new(Duration::MAX, cancelled);
        self.run(&bounds, async {
            // Without a deadline of gRPC's: it goes on for as long as the plugin runs.
            let stream = self.channel_client().start(StartRequest {}).await?;
            let take = |message| Ok((!each_one(message)).then_some(()));
            each(stream.into_inner(), &bounds, take).await?;
            Ok(())
        })
    }

    /// Sends a message. Its id.
    pub fn send(
        &self,
        message: SendRequest,
        deadline: Duration,
        cancelled: &AtomicBool,
    ) -> Result<String, CallError> {
        let bounds = Bounds::new(deadline, cancelled);
        self.run(&bounds, async {
            let sent = self.channel_client().send(bounds.request(message)).await?;
            Ok(sent.into_inner().id)
        })
    }

    /// Says whether the agent can be talked to, in one conversation or, if empty, in all.
    pub fn update_presence(
        &self,
        conversation: &str,
        presence: Presence,
        deadline: Duration,
        cancelled: &AtomicBool,
    ) -> Result<(), CallError> {
        let bounds = Bounds::new(deadline, cancelled);
        let request = UpdatePresenceRequest {
            conversation: conversation.to_owned(),
            presence: presence.into(),
        };
        self.run(&bounds, async {
            self.channel_client()
                .update_presence(bounds.request(request))
                .await?;
            Ok(())
        })
    }

    fn channel_client(&self) -> ChannelClient<Channel> {
        ChannelClient::new(self.serving()).max_decoding_message_size(self.settings.message_bytes)
    }
}
