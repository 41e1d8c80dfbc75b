//! What every provider offers.

use crate::budget::Price;
use crate::cancel::Cancel;
use crate::error::ModelError;
use crate::message::{Event, Reply, Request};
use crate::tokens::Counter;

/// Somebody who can be asked.
pub trait Model: Send + Sync {
    /// The name it is configured under.
    fn name(&self) -> &str;

    /// Asks once. `on_event` hears what comes as it comes; the reply has all of it. Blocks, until
    /// `cancel` takes the question back, which closes the connection.
    fn chat(
        &self,
        request: &Request,
        on_event: &mut dyn FnMut(Event),
        cancel: &Cancel,
    ) -> Result<Reply, ModelError>;

    /// Counts tokens as this model does.
    fn counter(&self) -> Counter;

    /// Tokens a question and its answer may take together.
    fn window(&self) -> u32;

    /// The hosts it connects to; none for one that connects to nothing.
    fn hosts(&self) -> Vec<String>;

    /// What its tokens cost; nothing where that is not known.
    fn price(&self) -> Price {
        Price::default()
    }
}
