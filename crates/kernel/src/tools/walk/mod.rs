//! Walks the files beneath a directory, in parallel, by descriptors.
//!
//! Guarantee: every directory is opened by the operating system kernel beneath the root without
//! following any symlink, so nothing swapped in during the walk leads anywhere else. A directory
//! is held open only while it is listed: neither depth nor width of a tree uses up descriptors or
//! stack. A repository gives the file set of `rg --files`, as far as nothing outside is consulted.
//!
//! Non-guarantee: the order of visits. Files that come and go meanwhile may be seen or not.

mod ignores;
mod queue;

pub(crate) use ignores::GitIgnored;
pub(super) use ignores::{Ignores, skips};

use super::contract::{RunContext, ToolFailure};
use crate::beneath::{Kind, Listing, Root};
use airlock_core::{WorkspacePath, limits};
use queue::Queue;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

/// A walk to be made.
pub(super) struct Walk<'a> {
    pub(super) root: &'a Root,
    /// The real path of the directory to start from.
    pub(super) start: &'a WorkspacePath,
    /// Whether hidden and ignored files are wanted, too.
    pub(super) all: bool,
    /// How many files of one directory a thread visits before others may help.
    pub(super) batch: usize,
    pub(super) context: &'a RunContext<'a>,
}

/// What is done with each file.
pub(super) trait Visitor: Sync {
    /// What one thread keeps.
    type Local: Send;

    /// A thread begins.
    fn local(&self) -> Self::Local;

    /// A regular file: its workspace path, and its path from where the walk started.
    fn visit(&self, local: &mut Self::Local, path: &str, relative: &str);

    /// A thread ends.
    fn finish(&self, _: &mut Self::Local) {}
}

/// What could not be visited.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Totals {
    /// Names that are not UTF-8, or paths too long for any rule to judge.
    pub(super) unreadable_names: u64,
    /// Directories the operating system would not let us list.
    pub(super) unreadable_directories: u64,
}

enum Work {
    Directory {
        path: String,
        ignores: Option<Arc<Ignores>>,
    },
    Files(Vec<String>),
}

/// One thread's own things.
struct Worker<L> {
    local: L,
    totals: Totals,
    listing: Listing,
    found: Vec<Work>,
}

impl Walk<'_> {
    /// Visits every file; gives what each thread kept.
    pub(super) fn run<V: Visitor>(
        &self,
        visitor: &V,
    ) -> Result<(Vec<V::Local>, Totals), ToolFailure> {
        let ignores = if self.all {
            None
        } else {
            Ignores::above(self.root, self.start)
        };
        let queue = Queue::new(Work::Directory {
            path: self.start.as_str().to_owned(),
            ignores,
        });
        let workers = self.work_in_parallel(visitor, &queue);
        if self.cancelled() {
            return Err(ToolFailure::Cancelled);
        }
        let mut totals = Totals::default();
        let mut locals = Vec::with_capacity(workers.len());
        for worker in workers {
            totals.unreadable_names += worker.totals.unreadable_names;
            totals.unreadable_directories += worker.totals.unreadable_directories;
            locals.push(worker.local);
        }
        Ok((locals, totals))
    }

    fn work_in_parallel<V: Visitor>(
        &self,
        visitor: &V,
        queue: &Queue<Work>,
    ) -> Vec<Worker<V::Local>> {
        let mut first = Worker::new(visitor);
        // Most calls are over before a thread would have started.
        while queue.len() < 4 {
            let Some(work) = queue.take() else {
                visitor.finish(&mut first.local);
                return vec![first];
            };
            self.step(visitor, queue, &mut first, work);
        }
        thread::scope(|scope| {
            let helpers: Vec<_> = (1..self.context.thread_count())
                .map(|_| {
                    scope.spawn(|| {
                        let mut worker = Worker::new(visitor);
                        self.work(visitor, queue, &mut worker);
                        worker
                    })
                })
                .collect();
            self.work(visitor, queue, &mut first);
            let mut workers = vec![first];
            for helper in helpers {
                match helper.join() {
                    Ok(worker) => workers.push(worker),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            workers
        })
    }

    fn cancelled(&self) -> bool {
        self.context.cancelled.load(Ordering::Relaxed)
    }

    fn work<V: Visitor>(&self, visitor: &V, queue: &Queue<Work>, worker: &mut Worker<V::Local>) {
        while let Some(work) = queue.take() {
            self.step(visitor, queue, worker, work);
        }
        visitor.finish(&mut worker.local);
    }

    fn step<V: Visitor>(
        &self,
        visitor: &V,
        queue: &Queue<Work>,
        worker: &mut Worker<V::Local>,
        work: Work,
    ) {
        // Left open, a queue whose worker panicked would leave the others waiting for ever.
        let done = queue.working();
        if !self.cancelled() {
            match work {
                Work::Directory { path, ignores } => {
                    self.directory(visitor, worker, &path, ignores);
                }
                Work::Files(paths) => {
                    for path in paths {
                        if self.cancelled() {
                            break;
                        }
                        visitor.visit(&mut worker.local, &path, self.relative(&path));
                    }
                }
            }
        }
        done.with(&mut worker.found);
    }

    fn directory<V: Visitor>(
        &self,
        visitor: &V,
        worker: &mut Worker<V::Local>,
        path: &str,
        ignores: Option<Arc<Ignores>>,
    ) {
        let mut listing = std::mem::take(&mut worker.listing);
        let listed = self
            .root
            .open_directory(path)
            .and_then(|directory| directory.list(&mut listing));
        match listed {
            Ok(()) => {
                let ignores = if self.all {
                    None
                } else {
                    Ignores::within(ignores, self.root, path, &listing)
                };
                self.entries(visitor, worker, path, ignores.as_ref(), &listing);
            }
            Err(error) if error.is_gone() => {}
            Err(_) => worker.totals.unreadable_directories += 1,
        }
        worker.listing = listing;
    }

    fn entries<V: Visitor>(
        &self,
        visitor: &V,
        worker: &mut Worker<V::Local>,
        directory: &str,
        ignores: Option<&Arc<Ignores>>,
        listing: &Listing,
    ) {
        let mut path = Joined::new(directory);
        let mut waiting = Vec::new();
        for (name, kind) in listing.iter() {
            let is_directory = match kind {
                Kind::Directory => true,
                Kind::File => false,
                Kind::Symlink | Kind::Other => continue,
            };
            if name == b".git" {
                continue;
            }
            let Some(path) = path.with(name) else {
                worker.totals.unreadable_names += 1;
                continue;
            };
            if !self.all && skips(ignores, path, name, is_directory) {
                continue;
            }
            if is_directory {
                worker.found.push(Work::Directory {
                    path: path.to_owned(),
                    ignores: ignores.cloned(),
                });
            } else if self.batch == usize::MAX {
                visitor.visit(&mut worker.local, path, self.relative(path));
            } else {
                waiting.push(path.to_owned());
                if waiting.len() >= self.batch {
                    worker.found.push(Work::Files(std::mem::take(&mut waiting)));
                }
            }
        }
        for path in waiting {
            if self.cancelled() {
                break;
            }
            visitor.visit(&mut worker.local, &path, self.relative(&path));
        }
    }

    fn relative<'p>(&self, path: &'p str) -> &'p str {
        if self.start.is_root() {
            return path;
        }
        path.strip_prefix(self.start.as_str())
            .map_or(path, |rest| rest.trim_start_matches('/'))
    }
}

impl<L> Worker<L> {
    fn new<V: Visitor<Local = L>>(visitor: &V) -> Self {
        Self {
            local: visitor.local(),
            totals: Totals::default(),
            listing: Listing::default(),
            found: Vec::new(),
        }
    }
}

/// The paths in one directory, built in one buffer.
pub(super) struct Joined {
    buffer: String,
    directory: usize,
}

impl Joined {
    pub(super) fn new(directory: &str) -> Self {
        let mut buffer = String::with_capacity(directory.len() + 64);
        if directory != "." {
            buffer.push_str(directory);
            buffer.push('/');
        }
        Self {
            directory: buffer.len(),
            buffer,
        }
    }

    /// The path of `name`; none if it is not UTF-8 or the path gets too long to be a request's.
    pub(super) fn with(&mut self, name: &[u8]) -> Option<&str> {
        let name = std::str::from_utf8(name).ok()?;
        self.buffer.truncate(self.directory);
        self.buffer.push_str(name);
        (self.buffer.len() <= limits::PATH_BYTES).then_some(&self.buffer)
    }
}
