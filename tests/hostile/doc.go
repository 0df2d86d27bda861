// Package hostile attacks the host with plugins. The guests in guests/ each play one
// trick; the tests run every one of them through the program, as an operator would,
// with another plugin beside it and things around that it must not reach. What is
// promised against each trick, and what comes of it, is in the cases, and the table
// in docs/SECURITY.md is written from them:
//
//	go generate ./tests/hostile
package hostile

//go:generate go test -run ^TestTable$ -count 1 . -update
