// Package manifest reads package manifests and lock files, for those who pin
// them, compare them with what is installed, or look a package up in them. It
// takes bytes and gives facts. Agents may have written the bytes, so every
// reader takes time and memory in proportion to them, and none fails on them:
// what cannot be read is said, or left out where the function says so.
package manifest
