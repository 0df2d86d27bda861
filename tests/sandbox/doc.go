// Package sandbox runs the whole program with every sandbox tier on its real engine:
// the same tools give the same results in all of them, what a killed host or Hand was
// doing comes out as stated, and a table and benchmarks say what it costs.
package sandbox
