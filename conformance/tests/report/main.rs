//! What is made of a run: the page in a real browser, the difference of two runs, XML for other people's CI, the badge.

mod browser;
mod catalogs;
mod forms;
mod page;
mod sample;
