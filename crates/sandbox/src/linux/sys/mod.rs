//! Raw system calls: the only unsafe code there is.

pub(crate) mod notify;
