// Package catalog is what superloop knows about failures of the environment: the closed list of categories, the
// chains of approaches for each, the handlers that recognise a failure and say what cures it, the recipes that
// install a tool or bring a project's dependencies up, the package managers and the names of packages.
//
// All of it is data: YAML, embedded, checked against a schema, and extended or overridden by a person's own files. No
// entry can grant anything: an entry only carries commands, and each of them goes through the one gate before it
// runs.
package catalog
