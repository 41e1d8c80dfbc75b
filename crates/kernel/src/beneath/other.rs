//! Platforms without `openat2`: every opening is refused, so nothing is read unsafely.

use super::{Kind, Listing, OpenError, RootError};
use airlock_core::WorkspacePath;
use std::fs::File;
use std::path::{Path, PathBuf};

/// What holds something open: here, nothing ever does.
#[derive(Debug)]
pub(super) enum Handle {}

pub(super) fn open_root(_: &Path) -> Result<(Handle, String), RootError> {
    Err(RootError::Unsupported)
}

pub(super) const fn is_in_place(_: &Handle, _: &str) -> bool {
    true
}

pub(super) fn reach(_: &Handle, _: &str) -> Result<Handle, OpenError> {
    Err(OpenError::Unsupported)
}

pub(super) fn open_file(_: &Handle, _: &str) -> Result<File, OpenError> {
    Err(OpenError::Unsupported)
}

pub(super) fn open_directory(_: &Handle, _: &str) -> Result<Handle, OpenError> {
    Err(OpenError::Unsupported)
}

pub(super) fn link_target(_: &Handle, _: &str) -> Result<Option<Vec<u8>>, OpenError> {
    Err(OpenError::Unsupported)
}

pub(super) fn kind_of(_: &Handle) -> Result<Kind, OpenError> {
    Err(OpenError::Unsupported)
}

pub(super) fn reopen(_: &Handle) -> Result<File, OpenError> {
    Err(OpenError::Unsupported)
}

pub(super) fn real_path(_: &Handle, _: &str, _: &Handle) -> Result<WorkspacePath, OpenError> {
    Err(OpenError::Unsupported)
}

pub(super) fn list(_: &Handle, _: &mut Listing) -> Result<(), OpenError> {
    Err(OpenError::Unsupported)
}

pub(super) fn directory_path(handle: &Handle) -> PathBuf {
    match *handle {}
}

pub(super) fn size(_: &Handle, _: &[u8]) -> Option<u64> {
    None
}
