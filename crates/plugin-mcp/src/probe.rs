//! What a server says of its tools, for whoever tries it with hostile bytes.

use crate::describe::ToolList;
use airlock_plugin::ToolDescription;
use serde_json::Value;

/// What is made of these answers to the question for tools, one after the other.
pub fn tools<'p>(
    pages: impl IntoIterator<Item = &'p Value>,
) -> Result<Vec<ToolDescription>, String> {
    let mut list = ToolList::default();
    for page in pages {
        list.page(page)?;
    }
    Ok(list.finish())
}
