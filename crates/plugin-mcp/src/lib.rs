//! The host of plugins that are MCP servers.
