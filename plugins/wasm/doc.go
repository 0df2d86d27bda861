// Package wasm runs the tools of plugins: WebAssembly modules on wazero, most of
// them through Extism. It is the only package that imports either.
//
// # Glossary
//
//   - Module: the bytes a manifest names, read once and refused at load when they
//     import what is not offered or do not export what the manifest says.
//   - Program: a compiled module. Programs are made once per module digest, and
//     their machine code is kept in the cache folder.
//   - Instance: a program with memory of its own. With isolation "call" it lives
//     for one call, with "run" for one run of one plugin, with "shared" it serves
//     any call of the plugin.
//   - Budget: how much memory an instance may have, over all of its memories. What
//     it refuses it remembers, so that the result can name the limit.
//   - Guest: the code inside the instance. It is the attacker: nothing it does is
//     an error of the host, and nothing it says reaches the host's own output.
//
// # Results and errors
//
// A guest that fails is a result (batch.Output with IsError and a text that names
// the limit or the trap). A host that fails is a *batch.ToolError:
// unavailable_before_dispatch when the guest never got control, execution when the
// host gave up on a guest that was running.
package wasm
