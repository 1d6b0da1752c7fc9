// Package routes plays every route of the daemon with a generated client, which generate_test.go makes first.
package routes
