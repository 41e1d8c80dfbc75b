//! The agent loop: a conversation between a person, a model and tools, within bounds.
//!
//! [`Agent::run`] takes one message of the person and goes on until the model is done, a bound is
//! reached or the person interrupts. The loop reaches nothing by itself: it asks a [`Model`] and
//! works through [`Hands`], whose calls take the road like anybody's.
//!
//! Guarantee: what the model is told never takes more than its window has room for; the system part
//! is the same from the first question to the last and no message can change it; everything that
//! comes from elsewhere is between marks that name its origin. Non-guarantee: a model does as it is
//! told. That is what the road is for.
//!
//! [`Model`]: airlock_model::Model

mod agent;
mod calls;
mod catalogue;
mod context;
mod ended;
mod hands;
mod prompt;
mod repeats;
mod step;

pub use agent::{Agent, Limits, Setup, With};
pub use catalogue::Catalogue;
pub use context::{Context, PinError, Shares};
pub use ended::{AgentError, Ended, Outcome};
pub use hands::{Asking, Handed, Hands, Leave, NoLeave, Spent, Tool};
pub use prompt::{Role, TASK_ORIGIN};
pub use step::Step;
