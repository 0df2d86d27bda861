// Package docs holds the documents to what the program does. Its tests take every
// fenced block of README.md and docs/*.md and run, parse or compile it, follow every
// link, and look up every command, flag, make target, test and setting that is named.
//
// The info string of a block says what is done with it:
//
//	console [needs TOOL]    run line by line, see console_test.go
//	toml FILE               written to FILE and read as the host would
//	toml add to FILE        the same, at the end of a FILE that is there
//	toml part of NAME       read as part of a host.toml or plugin.toml
//	rego [FILE]             compiled as policy, and written to FILE
//	json [FILE]             valid JSON, and a usable message where it has calls
//	go [FILE]               compiled, for this system or as a guest
//	c FILE                  written to FILE, for a console block to compile
//	mermaid                 a diagram
//
// A block with any other info string fails, so that nothing goes untested. Blocks of
// one document share a folder, in their order.
package docs
