//! The smallest worker program: confines itself and serves one plugin.

use airlock_sandbox::seccomp::Profile;
use std::io;

fn main() -> Result<(), airlock_plugin_wasm::ServeError> {
    airlock_plugin_wasm::serve(io::stdin().lock(), io::stdout(), || {
        airlock_sandbox::confine(Profile::Strict)
    })
}
