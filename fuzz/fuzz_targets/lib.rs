//! Nothing: the targets beside this file are programs of their own.
