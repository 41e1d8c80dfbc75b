//! What the supervisor and the sandbox's init tell each other, and the supervisor and its nursery.
//!
//! Fixed messages of 12 bytes on a socket that keeps their boundaries; descriptors travel beside
//! them. Nothing here allocates: init runs on a copy of a process that may have had other threads,
//! whose locks would never be released.

/// Bytes of one message.
pub(super) const BYTES: usize = 12;
/// The most descriptors that come with one.
pub(super) const DESCRIPTORS: usize = 4;

/// What the supervisor tells init.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Go on with raising the walls.
    Go,
    /// Carry out the steps in the memory file that comes with it.
    Steps,
    /// Keep the user namespaces that come with it, for mounts.
    Maps,
    /// Run the command in the memory file that comes with it; three descriptors follow.
    Run {
        /// Make its standard input its controlling terminal.
        terminal: bool,
    },
    /// Send a signal to every process of the command.
    Signal(u32),
    /// Kill every process of the command, and say so by this number.
    Kill(u32),
    /// Run the program in the memory file that comes with it beside the command, under this number;
    /// three descriptors follow.
    Beside(u32),
    /// To a nursery: make a child whose socket comes with it.
    Bear {
        /// The namespaces it gets of its own.
        namespaces: i32,
    },
}

/// What init tells the supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Notice {
    /// A step failed, and with it the sandbox.
    Failed {
        /// Which step of the program.
        step: u32,
        /// The system's error number.
        errno: i32,
    },
    /// It entered its user namespace and waits to be given its user.
    Unmapped,
    /// Every wall stands. The descriptor of the root comes with it, then the listener of denials
    /// and the socket to the kernel, if one is.
    Ready,
    /// An overlay of the sandbox is mounted. A descriptor comes with it by which the supervisor can
    /// have it forget what was looked up in it.
    Picked {
        /// It has no writable layer.
        read_only: bool,
    },
    /// The program could not be started.
    NotStarted {
        /// What was being done.
        stage: Stage,
        /// The system's error number.
        errno: i32,
    },
    /// The command ended, and everything it left behind is gone.
    Ended {
        /// As `wait` gives it.
        status: i32,
        /// How many processes it left behind.
        left: u32,
    },
    /// Every process of the command was killed, as ordered. That it ended is told by itself.
    Killed {
        /// The order's.
        number: u32,
    },
    /// What ran beside the command ended.
    BesideEnded {
        /// Its number.
        number: u32,
        /// As `wait` gives it.
        status: i32,
    },
    /// From a nursery: there is a child. The descriptor that means it comes with it, where there is room.
    Born {
        /// The child's number.
        pid: i32,
    },
    /// From a nursery: there is none.
    Unborn {
        /// The system's error number.
        errno: i32,
    },
}

/// What was being done when a program could not be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Making a process for it.
    Process,
    /// Going to its working directory.
    Directory,
    /// Becoming the program.
    Program,
}

type Message = [u8; BYTES];

fn message(kind: u32, first: u32, second: u32) -> Message {
    let mut bytes = Message::default();
    let words = [kind, first, second].map(u32::to_le_bytes);
    for (byte, word) in bytes.iter_mut().zip(words.iter().flatten()) {
        *byte = *word;
    }
    bytes
}

fn words(message: Message) -> (u32, u32, u32) {
    let mut words = message
        .as_chunks::<4>()
        .0
        .iter()
        .map(|word| u32::from_le_bytes(*word));
    let mut next = || words.next().unwrap_or_default();
    (next(), next(), next())
}

impl Order {
    pub(super) fn encode(self) -> Message {
        match self {
            Self::Go => message(1, 0, 0),
            Self::Run { terminal } => message(2, u32::from(terminal), 0),
            Self::Signal(number) => message(3, number, 0),
            Self::Steps => message(4, 0, 0),
            Self::Maps => message(5, 0, 0),
            Self::Beside(number) => message(6, number, 0),
            Self::Kill(number) => message(7, number, 0),
            Self::Bear { namespaces } => message(8, namespaces.cast_unsigned(), 0),
        }
    }

    pub(super) fn decode(bytes: Message) -> Option<Self> {
        match words(bytes) {
            (1, 0, 0) => Some(Self::Go),
            (2, terminal @ (0 | 1), 0) => Some(Self::Run {
                terminal: terminal == 1,
            }),
            (3, number, 0) => Some(Self::Signal(number)),
            (4, 0, 0) => Some(Self::Steps),
            (5, 0, 0) => Some(Self::Maps),
            (6, number, 0) => Some(Self::Beside(number)),
            (7, number, 0) => Some(Self::Kill(number)),
            (8, namespaces, 0) => Some(Self::Bear {
                namespaces: namespaces.cast_signed(),
            }),
            _ => None,
        }
    }
}

impl Notice {
    pub(super) fn encode(self) -> Message {
        match self {
            Self::Failed { step, errno } => message(1, step, errno.cast_unsigned()),
            Self::Unmapped => message(2, 0, 0),
            Self::Ready => message(3, 0, 0),
            Self::NotStarted { stage, errno } => message(4, stage as u32, errno.cast_unsigned()),
            Self::Ended { status, left } => message(5, status.cast_unsigned(), left),
            Self::BesideEnded { number, status } => message(6, number, status.cast_unsigned()),
            Self::Killed { number } => message(7, number, 0),
            Self::Picked { read_only } => message(8, u32::from(read_only), 0),
            Self::Born { pid } => message(9, pid.cast_unsigned(), 0),
            Self::Unborn { errno } => message(10, errno.cast_unsigned(), 0),
        }
    }

    pub(super) fn decode(bytes: Message) -> Option<Self> {
        match words(bytes) {
            (1, step, errno) => Some(Self::Failed {
                step,
                errno: errno.cast_signed(),
            }),
            (2, 0, 0) => Some(Self::Unmapped),
            (3, 0, 0) => Some(Self::Ready),
            (4, stage @ 0..=2, errno) => Some(Self::NotStarted {
                stage: match stage {
                    0 => Stage::Process,
                    1 => Stage::Directory,
                    _ => Stage::Program,
                },
                errno: errno.cast_signed(),
            }),
            (5, status, left) => Some(Self::Ended {
                status: status.cast_signed(),
                left,
            }),
            (6, number, status) => Some(Self::BesideEnded {
                number,
                status: status.cast_signed(),
            }),
            (7, number, 0) => Some(Self::Killed { number }),
            (8, read_only @ (0 | 1), 0) => Some(Self::Picked {
                read_only: read_only == 1,
            }),
            (9, pid, 0) => Some(Self::Born {
                pid: pid.cast_signed(),
            }),
            (10, errno, 0) => Some(Self::Unborn {
                errno: errno.cast_signed(),
            }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_arrives_as_it_was_sent() {
        for order in [
            Order::Go,
            Order::Steps,
            Order::Maps,
            Order::Run { terminal: true },
            Order::Run { terminal: false },
            Order::Signal(15),
            Order::Beside(7),
            Order::Kill(7),
            Order::Bear { namespaces: -1 },
        ] {
            assert_eq!(Order::decode(order.encode()), Some(order));
        }
        let stages = [Stage::Process, Stage::Directory, Stage::Program];
        let not_started = stages.map(|stage| Notice::NotStarted { stage, errno: 13 });
        let others = [
            Notice::Failed { step: 7, errno: 1 },
            Notice::Unmapped,
            Notice::Ready,
            Notice::Ended {
                status: -1,
                left: 3,
            },
            Notice::BesideEnded {
                number: 7,
                status: -1,
            },
            Notice::Killed { number: 7 },
            Notice::Picked { read_only: true },
            Notice::Picked { read_only: false },
            Notice::Born { pid: 7 },
            Notice::Unborn { errno: 28 },
        ];
        for notice in not_started.into_iter().chain(others) {
            assert_eq!(Notice::decode(notice.encode()), Some(notice));
        }
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for bytes in [
            [0; BYTES],
            [0xff; BYTES],
            message(2, 2, 0),
            message(1, 0, 1),
        ] {
            assert_eq!(Order::decode(bytes), None);
        }
        for bytes in [
            [0; BYTES],
            [0xff; BYTES],
            message(4, 3, 0),
            message(3, 1, 0),
            message(7, 1, 1),
            message(8, 2, 0),
        ] {
            assert_eq!(Notice::decode(bytes), None);
        }
    }
}
