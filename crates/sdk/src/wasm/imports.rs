//! What the host of a module gives it.
//!
//! Where no Wasm is compiled, tests have a stand-in with the same types: so the rest of the border is
//! compiled, checked and run there too.

#[cfg(target_arch = "wasm32")]
#[link(wasm_import_module = "airlock")]
unsafe extern "C" {
    pub(super) fn call(
        name: *const u8,
        name_length: usize,
        text: *const u8,
        length: usize,
    ) -> usize;
    pub(super) fn take(place: *mut u8, length: usize) -> u32;
    pub(super) fn log(level: u32, text: *const u8, length: usize);
    pub(super) fn emit(text: *const u8, length: usize) -> u32;
    pub(super) fn cancelled() -> u32;
}

#[cfg(not(target_arch = "wasm32"))]
pub(super) use stand_in::{call, cancelled, emit, log, take};

#[cfg(not(target_arch = "wasm32"))]
pub(super) mod stand_in {
    use std::cell::RefCell;

    thread_local! {
        static HEARD: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
        static REPLY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }

    /// What was said to the host since this was last asked.
    pub(in crate::wasm) fn heard() -> Vec<String> {
        HEARD.with_borrow_mut(std::mem::take)
    }

    fn hear(what: &str, text: &str) {
        HEARD.with_borrow_mut(|heard| heard.push(format!("{what} {text}")));
    }

    /// The text in `length` bytes from `text` on.
    ///
    /// # Safety
    /// They have to be there, and nobody may change them.
    unsafe fn text(text: *const u8, length: usize) -> String {
        // SAFETY: the caller promises it.
        let bytes = unsafe { std::slice::from_raw_parts(text, length) };
        String::from_utf8_lossy(bytes).into_owned()
    }

    /// Asks the kernel: it answers with what it was asked, and to `refused` with a refusal.
    pub(in crate::wasm) unsafe fn call(
        name: *const u8,
        name_length: usize,
        arguments: *const u8,
        length: usize,
    ) -> usize {
        // SAFETY: the module gives texts of its own.
        let (name, arguments) = unsafe { (text(name, name_length), text(arguments, length)) };
        hear("call", &format!("{name} {arguments}"));
        let reply = if name == "refused" {
            r#"{"error":{"code":"denied","message":"no","retryable":false}}"#.to_owned()
        } else {
            format!(r#"{{"ok":{arguments}}}"#)
        };
        let length = reply.len();
        REPLY.set(reply.into_bytes());
        length
    }

    pub(in crate::wasm) unsafe fn take(place: *mut u8, length: usize) -> u32 {
        REPLY.with_borrow(|reply| {
            let length = length.min(reply.len());
            // SAFETY: the module gives memory of its own, of that length.
            unsafe { std::ptr::copy_nonoverlapping(reply.as_ptr(), place, length) };
        });
        1
    }

    pub(in crate::wasm) unsafe fn log(level: u32, said: *const u8, length: usize) {
        // SAFETY: the module gives a text of its own.
        hear(&format!("log {level}"), &unsafe { text(said, length) });
    }

    pub(in crate::wasm) unsafe fn emit(said: *const u8, length: usize) -> u32 {
        // SAFETY: the module gives a text of its own.
        hear("emit", &unsafe { text(said, length) });
        1
    }

    pub(in crate::wasm) unsafe fn cancelled() -> u32 {
        0
    }
}
