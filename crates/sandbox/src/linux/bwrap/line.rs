//! The attendant's end of the socket to the supervisor: orders come in, notices go out.

use super::super::wire::{BYTES, Notice, Order};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;

#[derive(Debug)]
pub(super) struct Line(pub(super) OwnedFd);

impl Line {
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Tells the supervisor. One that is gone needs no telling.
    pub(super) fn tell(&self, notice: Notice, descriptors: &[BorrowedFd<'_>]) {
        let bytes = notice.encode();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            let _fits = ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        let slices = [IoSlice::new(&bytes)];
        let _told = sendmsg(&self.0, &slices, &mut ancillary, SendFlags::NOSIGNAL);
    }

    /// The next order, with what came with it. None when the supervisor is gone.
    pub(super) fn receive(&self) -> io::Result<Option<(Order, Vec<OwnedFd>)>> {
        let mut bytes = [0; BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            let mut slices = [IoSliceMut::new(&mut bytes)];
            let flags = RecvFlags::CMSG_CLOEXEC;
            match recvmsg(&self.0, &mut slices, &mut ancillary, flags) {
                Err(Errno::INTR) => {}
                Err(Errno::CONNRESET) => return Ok(None),
                received => break received?.bytes,
            }
        };
        let mut descriptors = Vec::new();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                descriptors.extend(rights);
            }
        }
        if received == 0 {
            return Ok(None);
        }
        let order = Order::decode(bytes).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Some((order, descriptors)))
    }
}
