//! How a window is divided.

/// Tokens of each part of a question, and of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shares {
    /// The whole window.
    pub window: u64,
    /// Kept free for the answer.
    pub answer: u64,
    /// For descriptions of tools.
    pub tools: u64,
    /// For the summary of what came before.
    pub summary: u64,
    /// For what the person pins.
    pub pins: u64,
}

impl Shares {
    /// The usual shares of a window: 4,000 for the answer, 3,000 for tools and 2,000 for the
    /// summary. A small window gives each its part instead, so that there is room to talk.
    pub fn of(window: u32) -> Self {
        let window = u64::from(window);
        Self {
            window,
            answer: 4_000.min(window / 4),
            tools: 3_000.min(window / 5),
            summary: 2_000.min(window / 10),
            pins: 2_000.min(window / 10),
        }
    }

    /// What a question may take.
    pub const fn question(self) -> u64 {
        self.window.saturating_sub(self.answer)
    }

    /// What one exchange may take: little enough for a few of them.
    pub const fn exchange(self) -> u64 {
        self.window / 4
    }
}
