// Package bench measures the whole product against the sum of the bare parts it
// is made of, in one run: what durability, policy and isolation cost by themselves
// is not ours to save, the rest is.
package bench
