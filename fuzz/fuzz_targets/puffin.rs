#![no_main]

#[path = "../../engine/tests/formal/targets.rs"]
#[allow(dead_code)]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::puffin(data));
