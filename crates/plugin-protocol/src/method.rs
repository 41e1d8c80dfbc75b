//! One method of a service: its path, what it is asked and what it answers. Pure.

use std::marker::PhantomData;

/// A method that is called in the way of `K` with a `Q`, and answers with an `A`. Both ends take it
/// from here, so that neither can mean another.
pub struct Method<K, Q, A> {
    path: &'static str,
    types: PhantomData<fn(K, Q) -> A>,
}

/// One message, and one answer to it.
pub type Unary<Q, A> = Method<way::Unary, Q, A>;
/// One message, and any number of answers to it.
pub type Streaming<Q, A> = Method<way::Streaming, Q, A>;
/// Any number of messages in both directions.
pub type Duplex<Q, A> = Method<way::Duplex, Q, A>;

/// The ways of calling. Only names.
mod way {
    /// One message each way.
    pub struct Unary;
    /// One message there, many back.
    pub struct Streaming;
    /// Many messages each way.
    pub struct Duplex;
}

impl<K, Q, A> Method<K, Q, A> {
    pub(crate) const fn new(path: &'static str) -> Self {
        Self {
            path,
            types: PhantomData,
        }
    }

    /// Its path, as in a request.
    pub const fn path(self) -> &'static str {
        self.path
    }
}

impl<K, Q, A> Clone for Method<K, Q, A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, Q, A> Copy for Method<K, Q, A> {}

impl<K, Q, A> std::fmt::Debug for Method<K, Q, A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.path)
    }
}
