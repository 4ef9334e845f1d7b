//! The auditor on tables made from nothing: a valid one, and one for every fault.

mod cases;
mod clean;
mod fixture;
mod negative;
