//! Disk that a plugin takes without showing it: each way comes to the same end.

use crate::contained::again_as_an_ordinary_user;
use crate::support::Fixture;
use airlock_plugin::boxed::End;
use airlock_sandbox::Launcher;
use std::time::Duration;

/// Each takes a mebibyte again and again, of which `hidden` shows nothing, and is content once it has
/// four times what it may: then it stays for so many seconds. The control: it takes no more than it
/// may, and goes on.
fn script(hidden: &str, rounds: u32, stays: u32) -> String {
    format!(
        "#!/usr/bin/env python3
import ctypes, os, socket, time
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
kept, ends = [], socket.socketpair()
def nameless(n):
  file = os.open(f'f{{n}}', os.O_RDWR | os.O_CREAT)
  os.unlink(f'f{{n}}')
  os.write(file, bytes(1 << 20))
  return file
def unlinked(n): kept.append(nameless(n))
def never_named(n):
  try: file = os.open('.', os.O_RDWR | os.O_TMPFILE)
  except OSError: return unlinked(n)
  os.write(file, bytes(1 << 20))
  kept.append(file)
def mapped(n):
  file = nameless(n)
  assert libc.mmap(None, 4096, 1, 1, file, 0) not in (None, 2 ** 64 - 1)
  os.close(file)
def sent(n):
  file = nameless(n)
  socket.send_fds(ends[0], [b'x'], [file])
  os.close(file)
def closed(n, mode=0):
  os.mkdir(f'd{{n}}')
  open(f'd{{n}}/f', 'wb').write(bytes(1 << 20))
  os.chmod(f'd{{n}}', mode)
def searched(n): closed(n, 0o400)
for n in range({rounds}): {hidden}(n)
print('done', flush=True)
time.sleep({stays})
os._exit(7)
"
    )
}

fn hide(launcher: Launcher) {
    for hidden in [
        "unlinked",
        "never_named",
        "mapped",
        "sent",
        "closed",
        "searched",
    ] {
        let mut fixture = Fixture::new(&script(hidden, 32, 120));
        fixture.launcher = launcher;
        let running = fixture.start().unwrap();
        let end = running.wait(Duration::from_mins(1)).unwrap();
        assert_eq!(end, End::Disk, "{hidden}: {}", running.said());
        drop(running);
        // What it closed can still be removed.
        airlock_plugin::remove_plugin_directory(&fixture.path("own/data")).unwrap();
    }
    let mut fixture = Fixture::new(&script("unlinked", 4, 2));
    fixture.launcher = launcher;
    assert!(fixture.says().starts_with("done\nit exited with code 7"));
}

#[test]
fn disk_that_is_not_shown_is_counted_or_ends_it() {
    hide(Launcher::Native);
    if rustix::process::geteuid().is_root() {
        // Nothing is closed to root.
        again_as_an_ordinary_user("hidden::disk_that_is_not_shown_is_counted_or_ends_it");
    } else {
        hide(Launcher::Bwrap);
    }
}
