//! Test first as a state machine: states, guards, exemptions, coverage budget.
