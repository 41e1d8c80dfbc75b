//! Model providers behind one interface.
