//! What may be written in each state.

use airlock_core::Phase;

/// What a session may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writable {
    /// Nothing.
    Nothing,
    /// What counts as a test.
    Tests,
    /// What counts as source and not as a test.
    Source,
    /// Both; or, under an exemption, the paths it names and nothing else.
    SourceAndTests,
}

/// What may be written in `state`.
pub const fn writable(state: Phase) -> Writable {
    match state {
        Phase::Idle
        | Phase::Planning
        | Phase::Validating
        | Phase::Reviewing
        | Phase::Committing => Writable::Nothing,
        Phase::TestWriting | Phase::RetroactiveTesting => Writable::Tests,
        Phase::CodeWriting | Phase::Refactoring => Writable::Source,
        Phase::Exploring => Writable::SourceAndTests,
    }
}
