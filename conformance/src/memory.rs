//! The allocator of the `floe` program.

/// Decoding takes and gives back pages of megabytes all the time: the system's allocator would ask the kernel for each anew.
/// Without huge pages: half of each would lie unused, and memory was 2.5 times as much for no time that can be measured.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Milliseconds after which unused memory goes back to the system. The allocator's own second doubles the peak of a process that runs many
/// statements; at 10 and less asking for it again takes a tenth of the time.
const PURGE_DELAY: std::ffi::c_long = 25;

/// mimalloc's number of `mi_option_purge_delay`, for which its bindings have no name.
const MI_OPTION_PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;

/// Sets what the environment (`MIMALLOC_PURGE_DELAY`) does not.
#[allow(unsafe_code)] // the bindings of a C function that takes two numbers and may be called at any time
pub fn set_up() {
    unsafe { libmimalloc_sys::mi_option_set_default(MI_OPTION_PURGE_DELAY, PURGE_DELAY) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(unsafe_code)] // as above
    fn the_number_is_that_of_the_option() {
        // nothing else has 1000 (ms) by default
        let before = unsafe { libmimalloc_sys::mi_option_get(MI_OPTION_PURGE_DELAY) };
        set_up();
        let after = unsafe { libmimalloc_sys::mi_option_get(MI_OPTION_PURGE_DELAY) };
        if std::env::var_os("MIMALLOC_PURGE_DELAY").is_none() {
            assert_eq!((before, after), (1000, PURGE_DELAY));
        }
    }
}
