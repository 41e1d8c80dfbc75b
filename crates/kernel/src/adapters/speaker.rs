//! Talks with a program in a sandbox while it runs.

use crate::process::{Attached, ProcessFailure, Steering};
use airlock_plugin_mcp::{Asked, Conversation};
use airlock_sandbox::launch::Stdin;
use serde_json::Value;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long a server has to end by itself once it answered.
const GRACE: Duration = Duration::from_millis(300);

/// A conversation with a program: what it writes is heard, and what is to be said is written to it.
pub struct Speaker {
    ears: Ears,
    stderr: io::Sink,
    started: Box<dyn Fn(Arc<dyn Steering>) + Send + Sync>,
}

/// Takes what the program writes.
struct Ears {
    talk: Conversation,
    voice: Option<Sender<String>>,
    reins: Arc<Mutex<Option<Arc<dyn Steering>>>>,
}

impl Speaker {
    pub(super) fn new(asked: Asked) -> Self {
        let reins: Arc<Mutex<Option<Arc<dyn Steering>>>> = Arc::default();
        let held = Arc::clone(&reins);
        Self {
            ears: Ears {
                talk: Conversation::new(asked),
                voice: None,
                reins,
            },
            stderr: io::sink(),
            started: Box::new(move |steering| {
                *held.lock().unwrap_or_else(PoisonError::into_inner) = Some(steering);
            }),
        }
    }

    /// The streams for the program.
    pub(crate) fn attach(&mut self) -> Result<Attached<'_>, ProcessFailure> {
        let failed =
            |error: io::Error| ProcessFailure::Sandbox(format!("cannot make a pipe: {error}"));
        let (reader, mut writer) = io::pipe().map_err(failed)?;
        let (voice, said) = mpsc::channel::<String>();
        // A thread, since a server that does not read must not keep us from hearing it.
        std::thread::spawn(move || {
            while let Ok(line) = said.recv() {
                if writer.write_all(line.as_bytes()).is_err() {
                    break;
                }
            }
        });
        // It ends only after hearing that this one ended.
        let _heard = voice.send(self.ears.talk.hello());
        self.ears.voice = Some(voice);
        Ok(Attached {
            stdin: Stdin::From(OwnedFd::from(reader)),
            stdout: &mut self.ears,
            stderr: &mut self.stderr,
            terminal: None,
            started: &*self.started,
        })
    }

    /// Adds what was answered to how it ended.
    pub(crate) fn tell(self, ended: &mut Value) {
        if let Some(fields) = ended.as_object_mut() {
            let answer = self.ears.talk.answer().unwrap_or_default();
            fields.insert("answer".to_owned(), answer);
        }
    }
}

impl Write for Ears {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let said = self.talk.hear(bytes);
        for line in said {
            if let Some(voice) = &self.voice {
                let _heard = voice.send(line);
            }
        }
        if self.talk.is_over() && self.voice.take().is_some() {
            // Its input is closed now; one that stays all the same is ended.
            let reins = Arc::clone(&self.reins);
            std::thread::spawn(move || {
                std::thread::sleep(GRACE);
                if let Some(steering) = &*reins.lock().unwrap_or_else(PoisonError::into_inner) {
                    steering.cancel();
                }
            });
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
