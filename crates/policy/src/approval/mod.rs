//! Approvals: what becomes of a decision that asks for review.
//!
//! A [`Gate`] says who may answer, an [`ApprovalRequest`] shows what would be done and why it is
//! asked, an [`Answer`] given through a permitted [`Channel`] closes it, and an approval leaves a
//! [`Grant`]. Pure data and functions: time, ids and digests come from the caller, and all of it
//! can be stored.
//!
//! Guarantees: nobody answers through the agent's own channel; policy never answers for AG-02 or
//! AG-05; an answer counts only while the action, the policy and the stage are those that were
//! shown; a denial leaves no grant; a grant covers nothing outside its conditions, and never more
//! uses than it has.
//!
//! Non-guarantees: which channel an answer came through, and who sat there, is established by
//! whoever calls. A grant settles one gate: the decision is still taken anew, with every denial
//! in force.

mod action;
mod answer;
mod gate;
mod grant;
mod request;
mod risk;

pub use crate::document::Headless;
pub use action::{Action, Asker, Binding, Diff};
pub use answer::{
    Answer, AnswerError, AnswerRules, Answered, Answerer, Channel, Condition, Reply, may_answer,
};
pub use gate::{Gate, GateFacts, MayAnswer, gate_for};
pub use grant::{Grant, GrantId, Grants, Query};
pub use request::{ApprovalId, ApprovalRequest, BudgetLeft};
pub use risk::{Risk, RiskFactor, RiskLevel};
