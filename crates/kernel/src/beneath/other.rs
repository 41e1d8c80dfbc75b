//! Platforms without `openat2`: every opening is refused, so nothing is read unsafely.

use super::{Kind, Listing, OpenError, RootError};
use airlock_core::WorkspacePath;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Anything that holds a descriptor.
pub(crate) trait Held {}
impl<T> Held for T {}

pub(super) fn open_root(_: &Path) -> Result<(OwnedFd, String), RootError> {
    Err(RootError::Unsupported)
}

pub(super) fn reach(_: &OwnedFd, _: &str) -> Result<OwnedFd, OpenError> {
    Err(OpenError::Unsupported)
}

pub(super) fn open_file(_: &OwnedFd, _: &str) -> Result<File, OpenError> {
    Err(OpenError::Unsupported)
}

pub(super) fn open_directory(_: &OwnedFd, _: &str) -> Result<OwnedFd, OpenError> {
    Err(OpenError::Unsupported)
}

pub(super) fn link_target(_: &OwnedFd, _: &str) -> Result<Option<Vec<u8>>, OpenError> {
    Err(OpenError::Unsupported)
}

pub(super) fn kind_of(_: &OwnedFd) -> Result<Kind, OpenError> {
    Err(OpenError::Unsupported)
}

pub(super) fn reopen(_: &OwnedFd) -> Result<File, OpenError> {
    Err(OpenError::Unsupported)
}

pub(super) fn real_path(_: &OwnedFd, _: &str, _: &impl Held) -> Result<WorkspacePath, OpenError> {
    Err(OpenError::Unsupported)
}

pub(super) fn list(_: &OwnedFd, _: &mut Listing) -> Result<(), OpenError> {
    Err(OpenError::Unsupported)
}

pub(super) fn size(_: &OwnedFd, _: &[u8]) -> Option<u64> {
    None
}
