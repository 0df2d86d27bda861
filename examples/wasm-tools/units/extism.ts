// The few calls of the raw Extism ABI that a tool needs. Text crosses as UTF-8,
// and every length below is one of bytes.

@external("extism:host/env", "input_length") declare function input_length(): u64;
@external("extism:host/env", "input_load_u8") declare function input_load_u8(at: u64): u32;
@external("extism:host/env", "length") declare function length(offset: u64): u64;
@external("extism:host/env", "load_u8") declare function load_u8(offset: u64): u32;
@external("extism:host/env", "alloc") declare function alloc(bytes: u64): u64;
@external("extism:host/env", "store_u8") declare function store_u8(offset: u64, value: u32): void;
@external("extism:host/env", "output_set") declare function output_set(offset: u64, bytes: u64): void;
@external("extism:host/env", "error_set") declare function error_set(offset: u64): void;
@external("extism:host/env", "config_get") declare function config_get(key: u64): u64;

class Block {
  constructor(public offset: u64, public bytes: i32) {}
}

function store(text: string): Block {
  const bytes = Uint8Array.wrap(String.UTF8.encode(text));
  if (bytes.length == 0) return new Block(0, 0);
  const offset = alloc(u64(bytes.length));
  if (offset == 0) return new Block(0, 0);
  for (let i = 0; i < bytes.length; i++) store_u8(offset + u64(i), bytes[i]);
  return new Block(offset, bytes.length);
}

/** The encoded input of the call. */
export function input(): string {
  const bytes = new Uint8Array(i32(input_length()));
  for (let i = 0; i < bytes.length; i++) bytes[i] = u8(input_load_u8(u64(i)));
  return String.UTF8.decode(bytes.buffer);
}

/** A value of [plugin.config], null where the operator set none. */
export function config(key: string): string | null {
  const offset = config_get(store(key).offset);
  if (offset == 0) return null;
  const bytes = new Uint8Array(i32(length(offset)));
  for (let i = 0; i < bytes.length; i++) bytes[i] = u8(load_u8(offset + u64(i)));
  return String.UTF8.decode(bytes.buffer);
}

/** Sets the answer of the call and returns the status to return. */
export function answer(text: string): i32 {
  const block = store(text);
  if (block.offset == 0) return fail("no room for the answer");
  output_set(block.offset, u64(block.bytes));
  return 0;
}

/** Sets why the call failed and returns the status to return. */
export function fail(why: string): i32 {
  error_set(store(why).offset);
  return 1;
}

/** What the compiler calls on a bug in this plugin: the call ends, the host says why. */
export function onAbort(message: string | null, file: string | null, line: u32, column: u32): void {
  fail(message === null ? "the plugin stopped" : message);
  unreachable();
}
