// Package local is the engine of one machine: it drives one loop in this process.
package local
