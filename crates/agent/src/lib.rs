//! The agent loop: context, budgets, tool calls on the road.
