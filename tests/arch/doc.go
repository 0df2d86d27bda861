// Package arch holds the rules of the house: which room may import which, who alone
// may import a big dependency, and what may stand at the top of the repository.
// The tests of this package read the source of the module and fail on the first
// thing that the rules do not name. Rules are data, in rules.go, each with its reason;
// what is not allowed there is forbidden.
package arch
