//! The few calls of the raw Extism ABI that a tool needs, without crates.

mod env {
    #[link(wasm_import_module = "extism:host/env")]
    extern "C" {
        pub fn input_length() -> u64;
        pub fn input_load_u8(at: u64) -> u32;
        pub fn input_load_u64(at: u64) -> u64;
        pub fn alloc(bytes: u64) -> u64;
        pub fn store_u8(offset: u64, value: u32);
        pub fn store_u64(offset: u64, value: u64);
        pub fn output_set(offset: u64, bytes: u64);
        pub fn error_set(offset: u64);
    }
}

/// The encoded input of the call; `None` if it is not UTF-8.
pub fn input() -> Option<String> {
    // The host checked that the input fits into this module's memory.
    let n = unsafe { env::input_length() };
    let mut bytes = Vec::with_capacity(n as usize);
    let mut at = 0;
    while at + 8 <= n {
        bytes.extend_from_slice(&unsafe { env::input_load_u64(at) }.to_le_bytes());
        at += 8;
    }
    while at < n {
        bytes.push(unsafe { env::input_load_u8(at) } as u8);
        at += 1;
    }
    String::from_utf8(bytes).ok()
}

/// Copies text into Extism's memory; 0 when it is empty or there is no room.
fn store(text: &str) -> u64 {
    if text.is_empty() {
        return 0;
    }
    let offset = unsafe { env::alloc(text.len() as u64) };
    if offset == 0 {
        return 0;
    }
    let mut at = offset;
    let mut words = text.as_bytes().chunks_exact(8);
    for word in &mut words {
        let mut eight = [0; 8];
        eight.copy_from_slice(word);
        unsafe { env::store_u64(at, u64::from_le_bytes(eight)) };
        at += 8;
    }
    for byte in words.remainder() {
        unsafe { env::store_u8(at, u32::from(*byte)) };
        at += 1;
    }
    offset
}

/// Ends a call: the answer, or why there is none. The number is the status to return.
pub fn finish(result: Result<String, String>) -> i32 {
    match result {
        Ok(answer) => {
            let offset = store(&answer);
            if offset == 0 {
                return finish(Err("no room for the answer".into()));
            }
            unsafe { env::output_set(offset, answer.len() as u64) };
            0
        }
        Err(why) => {
            unsafe { env::error_set(store(&why)) };
            1
        }
    }
}
