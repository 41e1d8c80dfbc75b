//! The names of the macros that Wasmtime hands on, and nothing behind them.
//!
//! Guarantee: whoever uses one is told so by the compiler. Plugins are called by what their
//! components say at run time, so nothing here is missed.

use proc_macro::TokenStream;

/// What is left of every macro.
fn absent() -> TokenStream {
    let told = "compile_error!(\"Wasmtime's macros are not built here: remove their stand-in from \
                the patches in Cargo.toml\");";
    told.parse().unwrap_or_default()
}

/// Not there.
#[proc_macro_derive(Lift, attributes(component))]
pub fn lift(_input: TokenStream) -> TokenStream {
    absent()
}

/// Not there.
#[proc_macro_derive(Lower, attributes(component))]
pub fn lower(_input: TokenStream) -> TokenStream {
    absent()
}

/// Not there.
#[proc_macro_derive(ComponentType, attributes(component))]
pub fn component_type(_input: TokenStream) -> TokenStream {
    absent()
}

/// Not there.
#[proc_macro]
pub fn flags(_input: TokenStream) -> TokenStream {
    absent()
}

/// Not there.
#[proc_macro]
pub fn bindgen(_input: TokenStream) -> TokenStream {
    absent()
}
