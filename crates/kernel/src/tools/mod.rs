//! The read-only built-in tools and the registry that names them.

mod contract;

pub use contract::{
    InvalidArguments, Keep, Prepared, ReadFilter, RunContext, Tool, ToolFailure, ToolOutput,
    ToolSpec,
};
