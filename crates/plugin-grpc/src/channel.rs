//! Plugins that are messaging bridges.
//!
//! What arrives is a stranger's text under a name that only the plugin vouches for.

use crate::execute::{Bounds, each};
use crate::plugin::GrpcPlugin;
use airlock_plugin::CallError;
use airlock_plugin_protocol::messages::airlock::{
    Inbound, Presence, SendRequest, StartRequest, UpdatePresenceRequest, channel,
};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

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
            let stream = self.serving().stream(channel::START, StartRequest {});
            let take = |message| Ok((!each_one(message)).then_some(()));
            each(stream.await?, &bounds, take).await?;
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
            let request = bounds.request(message);
            Ok(self.serving().ask(channel::SEND, request).await?.id)
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
            let request = bounds.request(request);
            self.serving()
                .ask(channel::UPDATE_PRESENCE, request)
                .await?;
            Ok(())
        })
    }
}
