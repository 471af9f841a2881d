// Package rutter holds the tests of the whole module: its layers, and later
// what spans packages. It exports nothing.
package rutter
